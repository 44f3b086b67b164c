"""Counts of extractions, and how two differ."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rarrg.cli import main
from rarrg.errors import RarrgError
from rarrg.phrase_stats import compare, describe

RULES = {
    "a": ("no pneumothorax", "mild cardiomegaly", "clear lungs"),
    "b": ("no pneumothorax", "possible left pleural effusion"),
    "c": (),
    "d": ("left pleural effusion",),
}
LLM = {
    "a": ("no pneumothorax", "cardiomegaly"),
    "b": ("no pneumothorax", "left pleural effusion"),
    "c": (),
    "e": ("unchanged cardiomegaly",),
}


def test_counts_by_hand():
    assert describe(RULES) == {
        "studies": 4,
        "without_phrases": 1,
        "phrases_per_study": 6 / 4,
        "distinct_phrases": 5,
        "once": 4 / 5,
        "negated": 2 / 6,
        "uncertain": 1 / 6,
        "comparing": 0,
    }
    assert describe(LLM)["comparing"] == 1


def test_differences_by_hand():
    found = compare(RULES, LLM)
    assert (found.studies, found.only) == (3, (1, 1))
    # a: 1 of 4; b: 1 of 3; c: both empty.
    assert found.overlap == pytest.approx((1 / 4 + 1 / 3 + 1) / 3)
    assert found.shared_phrases == 1 / 6
    # Affirmed: cardiomegaly of a by both, effusion of b by the second alone.
    assert found.agreement == pytest.approx(2 / 3)
    scores = {score.label: (score.support, score.predicted, score.tp) for score in found.by_finding}
    assert scores["Cardiomegaly"] == (1, 1, 1)
    assert scores["Pleural Effusion"] == (0, 1, 0)
    assert found.first_only == [("clear lungs", 1), ("mild cardiomegaly", 1), ("possible left pleural effusion", 1)]
    assert found.second_only == [("cardiomegaly", 1), ("left pleural effusion", 1)]


def test_nothing_in_common_is_an_error():
    with pytest.raises(RarrgError, match="no study in common"):
        compare({"a": ()}, {"b": ()})


def write(path: Path, phrases: dict) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"study_id": s, "key_phrases": list(p)}) + "\n" for s, p in phrases.items()))
    return path


def test_the_command_takes_folders_and_files(tmp_path, capsys):
    first, second = write(tmp_path / "rules" / "key_phrases.jsonl", RULES), write(tmp_path / "llm.jsonl", LLM)
    assert main(["phrases", "stats", str(first.parent)]) == 0
    alone = capsys.readouterr().out
    assert "distinct_phrases             5" in alone
    assert "both" not in alone
    assert main(["phrases", "stats", str(first.parent), str(second)]) == 0
    printed = capsys.readouterr().out
    assert "3 studies in both; 1 only in the first, 1 only in the second" in printed
    assert "micro-F1 0.667" in printed
    assert "only in the second: cardiomegaly (1); left pleural effusion (1)" in printed


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["stat", "x"], "rarrg phrases stat: no such command; there is stats"),
        (["stats"], "places"),
        (["stats", "nowhere"], "nowhere: cannot be read"),
        (["stats", "a", "b", "c"], "name one extraction, or two to compare, not 3"),
    ],
)
def test_mistakes_are_one_line(argv, message, capsys):
    assert main(["phrases", *argv]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
