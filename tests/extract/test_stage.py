"""The extraction stage: what it writes, what it keeps, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rarrg.errors import RarrgError
from rarrg.extract import stage
from rarrg.extract.stage import extract_with_rules, read_key_phrases, with_key_phrases
from rarrg.types import Study

CLEAR = "The lungs are clear. No effusion or pneumothorax."


def study(id: str, findings: str) -> Study:
    return Study(id=id, split="train", views=(), findings=findings)


@pytest.fixture
def studies() -> list[Study]:
    return [
        study("b", CLEAR),
        study("a", "Mild cardiomegaly."),
        study("empty", " "),
        study("c", CLEAR),
        study("odd", "XXXX."),
    ]


@pytest.fixture
def read_texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Findings that the extractor was asked to read."""
    texts: list[str] = []
    real = stage.extract_phrases

    def spy(findings: str) -> list[str]:
        texts.append(findings)
        return real(findings)

    monkeypatch.setattr(stage, "extract_phrases", spy)
    return texts


def test_writes_a_row_for_every_study_with_findings_in_order(tmp_path, studies, read_texts, capsys):
    path = tmp_path / "new" / "key_phrases.jsonl"
    extract_with_rules(studies, path)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["study_id"] for row in rows] == ["b", "a", "c", "odd"]
    assert rows[0]["key_phrases"] == ["clear lungs", "no pleural effusion", "no pneumothorax"]
    assert rows[3]["key_phrases"] == []
    assert rows[0]["provenance"] == rows[2]["provenance"]
    assert set(rows[0]["provenance"]) == {"extractor", "version", "text_sha256"}
    assert sorted(read_texts) == sorted([CLEAR, "Mild cardiomegaly.", "XXXX."])  # equal findings once
    assert capsys.readouterr().out == ""
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_second_run_reads_only_what_changed(tmp_path, studies, read_texts):
    path = tmp_path / "key_phrases.jsonl"
    extract_with_rules(studies, path)
    read_texts.clear()
    studies[1] = study("a", "Small left effusion.")
    extract_with_rules(studies, path)
    assert read_texts == ["Small left effusion."]
    assert read_key_phrases(path)["a"] == ("small left pleural effusion",)


def test_rows_of_an_older_version_are_read_again(tmp_path, studies, read_texts, monkeypatch):
    path = tmp_path / "key_phrases.jsonl"
    extract_with_rules(studies, path)
    read_texts.clear()
    monkeypatch.setattr(stage, "VERSION", stage.VERSION + 1)
    extract_with_rules(studies, path)
    assert len(read_texts) == 3
    assert json.loads(path.read_text().splitlines()[0])["provenance"]["version"] == stage.VERSION


@pytest.mark.parametrize("cut", [1, 20, 10_000])
def test_interrupted_run_goes_on_and_ends_the_same(tmp_path, studies, monkeypatch, cut):
    whole = tmp_path / "whole.jsonl"
    extract_with_rules(studies, whole)

    path = tmp_path / "key_phrases.jsonl"
    real = stage.extract_phrases
    asked: list[str] = []

    def killed_at_third(findings: str) -> list[str]:
        asked.append(findings)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return real(findings)

    monkeypatch.setattr(stage, "extract_phrases", killed_at_third)
    with pytest.raises(KeyboardInterrupt):
        extract_with_rules(studies, path)
    assert not path.exists()
    partial = path.with_name(path.name + ".partial")
    content = partial.read_bytes()
    partial.write_bytes(content[: max(len(content) - cut, 0)])  # the last line is torn

    asked.clear()
    asked.extend(["", "", ""])
    extract_with_rules(studies, path)
    lost = 0 if cut == 1 else 1 if cut == 20 else 2
    # cutting the newline alone leaves a whole row behind
    assert len(asked) - 3 == 1 + lost
    assert path.read_bytes() == whole.read_bytes()
    assert not partial.exists()


def test_torn_last_line_of_the_finished_file_is_redone(tmp_path, studies, read_texts):
    path = tmp_path / "key_phrases.jsonl"
    extract_with_rules(studies, path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    read_texts.clear()
    extract_with_rules(studies, path)
    assert read_texts == ["XXXX."]
    assert path.read_bytes() == whole


def test_refuses_to_write_over_another_extractor(tmp_path, studies):
    path = tmp_path / "key_phrases.jsonl"
    row = {"study_id": "a", "key_phrases": ["x"], "provenance": {"extractor": "llm", "version": 3}}
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(RarrgError, match=r"key_phrases\.jsonl, line 1: .*'llm'.*another file"):
        extract_with_rules(studies, path)
    path.write_text("study_id,view\n1,frontal\n")
    with pytest.raises(RarrgError, match="line 1: is no row of key phrases"):
        extract_with_rules(studies, path)


def test_refuses_a_study_twice(tmp_path):
    with pytest.raises(RarrgError, match="study a: is there twice"):
        extract_with_rules([study("a", CLEAR), study("a", CLEAR)], tmp_path / "key_phrases.jsonl")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"key_phrases": []}, r"row 2: study_id"),
        ({"study_id": 7, "key_phrases": []}, r"row 2: study_id .*7"),
        ({"study_id": "b"}, r"row 2 \(study b\): key_phrases"),
        ({"study_id": "b", "key_phrases": "clear lungs"}, r"row 2 \(study b\): key_phrases"),
        ({"study_id": "b", "key_phrases": ["clear lungs", ""]}, r"row 2 \(study b\): key_phrases"),
        ({"study_id": "b", "key_phrases": [3]}, r"row 2 \(study b\): key_phrases"),
        ({"study_id": "a", "key_phrases": []}, r"row 2 \(study a\): study_id .*second time"),
        ({"study_id": "b", "key_phrases": [], "provenance": "llm"}, r"row 2 \(study b\): provenance"),
    ],
)
def test_reading_names_file_row_and_key(tmp_path: Path, row: dict, message: str):
    path = tmp_path / "phrases.jsonl"
    path.write_text(json.dumps({"study_id": "a", "key_phrases": ["clear lungs"]}) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(RarrgError, match=rf"phrases\.jsonl, {message}"):
        read_key_phrases(path)


def test_reading_a_missing_file_is_one_clear_error(tmp_path):
    with pytest.raises(RarrgError, match=r"nowhere\.jsonl: cannot be read"):
        read_key_phrases(tmp_path / "nowhere.jsonl")


def test_phrases_are_attached_by_study_and_others_get_none(studies):
    attached = with_key_phrases(studies[:2], {"a": ("mild cardiomegaly",), "z": ("emphysema",)})
    assert [s.key_phrases for s in attached] == [(), ("mild cardiomegaly",)]
    assert attached[1].findings == studies[1].findings
    assert studies[1].key_phrases == ()
