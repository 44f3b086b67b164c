"""The file of key phrases: what reading it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rarrg.errors import RarrgError
from rarrg.extract.key_phrases import extractor_of, read_key_phrases, with_key_phrases
from rarrg.types import Study


def study(id: str, findings: str) -> Study:
    return Study(id=id, split="train", views=(), findings=findings)


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


def test_phrases_are_attached_by_study_and_others_get_none():
    studies = [study("b", "The lungs are clear."), study("a", "Mild cardiomegaly.")]
    attached = with_key_phrases(studies, {"a": ("mild cardiomegaly",), "z": ("emphysema",)})
    assert [s.key_phrases for s in attached] == [(), ("mild cardiomegaly",)]
    assert attached[1].findings == studies[1].findings
    assert studies[1].key_phrases == ()


def test_who_wrote_a_file_stands_in_its_first_row(tmp_path):
    path = tmp_path / "phrases.jsonl"
    path.write_text('{"study_id": "a", "key_phrases": [], "provenance": {"extractor": "llm"}}\n')
    assert extractor_of(path) == "llm"
    path.write_text('{"study_id": "a", "key_phrases": []}\n')
    assert extractor_of(path) is None
    path.write_text("")
    assert extractor_of(path) is None
