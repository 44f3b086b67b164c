"""Extraction by the rules: what it writes, what it keeps, what it refuses."""

from __future__ import annotations

import json

import pytest

from rarrg.errors import RarrgError
from rarrg.extract import rules_step
from rarrg.extract.key_phrases import read_key_phrases
from rarrg.extract.reports import reports_of
from rarrg.extract.rules_step import extract_with_rules
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
    real = rules_step.extract_phrases

    def spy(findings: str) -> list[str]:
        texts.append(findings)
        return real(findings)

    monkeypatch.setattr(rules_step, "extract_phrases", spy)
    return texts


def test_writes_a_row_for_every_study_with_findings_in_order(tmp_path, studies, read_texts, capsys):
    path = tmp_path / "new" / "key_phrases.jsonl"
    extract_with_rules(lambda: reports_of(studies), path)
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
    extract_with_rules(lambda: reports_of(studies), path)
    read_texts.clear()
    studies[1] = study("a", "Small left effusion.")
    extract_with_rules(lambda: reports_of(studies), path)
    assert read_texts == ["Small left effusion."]
    assert read_key_phrases(path)["a"] == ("small left pleural effusion",)


def test_rows_of_an_older_version_are_read_again(tmp_path, studies, read_texts, monkeypatch):
    path = tmp_path / "key_phrases.jsonl"
    extract_with_rules(lambda: reports_of(studies), path)
    read_texts.clear()
    monkeypatch.setattr(rules_step, "VERSION", rules_step.VERSION + 1)
    extract_with_rules(lambda: reports_of(studies), path)
    assert len(read_texts) == 3
    assert json.loads(path.read_text().splitlines()[0])["provenance"]["version"] == rules_step.VERSION


@pytest.mark.parametrize("cut", [1, 20, 10_000])
def test_interrupted_run_goes_on_and_ends_the_same(tmp_path, studies, monkeypatch, cut):
    whole = tmp_path / "whole.jsonl"
    extract_with_rules(lambda: reports_of(studies), whole)

    path = tmp_path / "key_phrases.jsonl"
    real = rules_step.extract_phrases
    asked: list[str] = []

    def killed_at_third(findings: str) -> list[str]:
        asked.append(findings)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return real(findings)

    monkeypatch.setattr(rules_step, "extract_phrases", killed_at_third)
    with pytest.raises(KeyboardInterrupt):
        extract_with_rules(lambda: reports_of(studies), path)
    assert not path.exists()
    partial = path.with_name(path.name + ".partial")
    content = partial.read_bytes()
    partial.write_bytes(content[: max(len(content) - cut, 0)])  # the last line is torn

    asked.clear()
    asked.extend(["", "", ""])
    extract_with_rules(lambda: reports_of(studies), path)
    lost = 2 if cut == 10_000 else 1
    assert len(asked) - 3 == 1 + lost
    assert path.read_bytes() == whole.read_bytes()
    assert not partial.exists()


def test_torn_last_line_of_the_finished_file_is_redone(tmp_path, studies, read_texts):
    path = tmp_path / "key_phrases.jsonl"
    extract_with_rules(lambda: reports_of(studies), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    read_texts.clear()
    extract_with_rules(lambda: reports_of(studies), path)
    assert read_texts == ["XXXX."]
    assert path.read_bytes() == whole


def test_refuses_to_write_over_another_extractor(tmp_path, studies):
    path = tmp_path / "key_phrases.jsonl"
    row = {"study_id": "a", "key_phrases": ["x"], "provenance": {"extractor": "llm", "version": 3}}
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(RarrgError, match=r"key_phrases\.jsonl, line 1: .*'llm'.*another place"):
        extract_with_rules(lambda: reports_of(studies), path)
    path.write_text("study_id,view\n1,frontal\n")
    with pytest.raises(RarrgError, match="line 1: is no row of this step"):
        extract_with_rules(lambda: reports_of(studies), path)


def test_refuses_a_study_twice(tmp_path):
    with pytest.raises(RarrgError, match="study a: is there twice"):
        extract_with_rules(lambda: reports_of([study("a", CLEAR), study("a", CLEAR)]), tmp_path / "key_phrases.jsonl")
