from __future__ import annotations

import json
from pathlib import Path

import pytest

from rarrg.errors import RarrgError
from rarrg.report_list import Settings, append, is_of, reports_in
from rarrg.study_list import ListedStudy

MADE_BY = Settings(model="m" * 64, store="s" * 64, threshold=0.3, resolve="affirmed", writer={"name": "join"})


def row(name: str, **changes: object) -> dict[str, object]:
    return {
        "id": name,
        "images": {"frontal": [f"/data/{name}.png"]},
        "model": {"sha256": MADE_BY.model},
        "store": {"sha256": MADE_BY.store},
        "thresholds": {"selection": MADE_BY.threshold},
        "resolve": MADE_BY.resolve,
        "writer": {"name": "join", "seconds": 0.1},
        **changes,
    }


def test_what_was_added_is_found_again(tmp_path):
    out = tmp_path / "reports.jsonl"
    assert reports_in(out, MADE_BY) == {}
    for name in (
        "a",
        "b\n\u2028c",
        "d\udcff",
    ):  # a line break, Unicode's own, and a byte of a path that is no character
        append(out, row(name))
    assert list(reports_in(out, MADE_BY)) == ["a", "b\n\u2028c", "d\udcff"]
    assert reports_in(out, MADE_BY)["a"] == {"frontal": ["/data/a.png"]}


def test_a_torn_line_is_cut_off_and_a_foreign_end_is_left(tmp_path):
    out = tmp_path / "reports.jsonl"
    append(out, row("a"))
    whole = out.read_bytes()
    out.write_bytes(whole + b'{"id": "b", "te')
    assert list(reports_in(out, MADE_BY)) == ["a"]
    assert out.read_bytes() == whole
    out.write_bytes(whole + b"a note")
    with pytest.raises(RarrgError, match="does not end in a report"):
        reports_in(out, MADE_BY)
    assert out.read_bytes() == whole + b"a note"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model": {"sha256": "n" * 64}},
            "line 2: was made with model nnnnnn.*, this run has model mmmmmm",
        ),
        ({"thresholds": {"selection": 0.31}}, "threshold 0.31, .*this run has .*threshold 0.3,"),
        ({"writer": {"name": "llm"}}, "writer name llm, this run has .*writer name join"),
        ({"writer": None}, "line 2: is not a report"),
        ({"id": "a"}, "line 2: study a has a report already"),
    ],
)
def test_a_report_that_this_run_would_not_write_is_refused(tmp_path, changes, message):
    out = tmp_path / "reports.jsonl"
    append(out, row("a"))
    append(out, row("b", **changes))
    with pytest.raises(RarrgError, match=message) as caught:
        reports_in(out, MADE_BY)
    assert "\n" not in str(caught.value)


def test_a_file_whose_name_is_too_long_is_one_line(tmp_path):
    with pytest.raises(RarrgError, match="cannot be written") as caught:
        append(tmp_path / ("r" * 300), json.loads("{}"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("found", "frontal", "same"),
    [
        (["/old/images/a.png"], [Path("/new/images/a.png")], True),  # the list was moved, and its images with it
        (["/old/images/a.png"], [Path("/new/a.png")], True),
        (["/old/images/ba.png"], [Path("/new/images/a.png")], False),
        (["/old/ba.png"], [Path("/new/a.png")], False),
        (["/elsewhere/a.png"], [Path("/elsewhere/a.png")], True),
        (["s3://bucket/a.dcm"], ["s3://bucket/a.dcm"], True),
        (["s3://bucket/a.dcm"], ["s3://bucket/b.dcm"], False),
        (["/old/a.png", "/old/b.png"], [Path("/new/b.png"), Path("/new/a.png")], False),
        (["/old/a.png"], [Path("/new/a.png"), Path("/new/b.png")], False),
        ([], [Path("/new/a.png")], False),
    ],
)
def test_a_report_is_of_the_images_it_was_made_of(found, frontal, same):
    study = ListedStudy("a", frontal=tuple(frontal), lateral=())
    assert is_of({"frontal": found}, study, Path("/new")) is same
