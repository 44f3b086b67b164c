"""Lines of a JSONL file, parsed when they are asked for."""

from __future__ import annotations

import pytest

from rarrg.artifacts import write_jsonl
from rarrg.errors import RarrgError
from rarrg.store.json_lines import JsonLines

TEXTS = ["a", "≥ 2 cm", "line\u2028separator", 'said "no"\n', ""]


def lines_of(path):
    return JsonLines(path, lambda row: row["text"])


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_lines_are_those_that_were_written(tmp_path, monkeypatch, block):
    monkeypatch.setattr("rarrg.store.json_lines._BLOCK", block)
    write_jsonl(tmp_path / "x.jsonl", ({"text": text} for text in TEXTS))
    lines = lines_of(tmp_path / "x.jsonl")
    assert (list(lines), len(lines)) == (TEXTS, 5)
    assert (lines[1], lines[-1], lines[1:4:2]) == (TEXTS[1], TEXTS[-1], TEXTS[1:4:2])
    with pytest.raises(IndexError):
        _ = lines[5]


def test_a_last_line_without_an_end_counts_and_an_empty_file_has_none(tmp_path):
    (tmp_path / "x").write_text('{"text": "a"}\n{"text": "b"}')
    (tmp_path / "empty").write_text("")
    assert list(lines_of(tmp_path / "x")) == ["a", "b"]
    assert list(lines_of(tmp_path / "empty")) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [("{}", "x, line 2: lacks 'text'"), ("{", "x, line 2: is not valid JSON"), ("[]", "x, line 2: is not valid JSON")],
)
def test_only_the_line_that_is_asked_for_must_be_right(tmp_path, line, message):
    (tmp_path / "x").write_text(f'{{"text": "a"}}\n{line}\n')
    lines = lines_of(tmp_path / "x")
    assert lines[0] == "a"
    with pytest.raises(RarrgError, match=message):
        _ = lines[1]


def test_no_file(tmp_path):
    with pytest.raises(RarrgError, match="nowhere: cannot be read"):
        lines_of(tmp_path / "nowhere")
