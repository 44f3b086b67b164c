"""The file of reports."""

from __future__ import annotations

import pytest

from rarrg.errors import RarrgError
from rarrg.extract.reports import ReportText, read_reports, reports_of, write_reports
from rarrg.types import Study


def study(id: str, findings: str) -> Study:
    return Study(id=id, split="val", views=(), findings=findings)


def test_reports_come_back_and_empty_ones_are_left_out(tmp_path):
    path = tmp_path / "reports.jsonl"
    write_reports(reports_of([study("a", "Clear."), study("b", " "), study("c", "Größe normal.")]), path)
    assert list(read_reports(path)) == [ReportText("a", "val", "Clear."), ReportText("c", "val", "Größe normal.")]
    assert list(read_reports(path, limit=1)) == [ReportText("a", "val", "Clear.")]


def test_a_study_twice_is_refused():
    with pytest.raises(RarrgError, match="study a: is there twice"):
        list(reports_of([study("a", "Clear."), study("a", "Clear.")]))


def test_equal_findings_have_equal_checksums():
    # echo -n 'Clear.' | sha256sum
    expected = "0781ca99c4c91c89cf7d8bbaa79e890004c650cd01e72c29575e9d5731affc20"
    assert ReportText("a", "val", "Clear.").sha256 == ReportText("b", "test", "Clear.").sha256 == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: is no report"),
        ('{"study_id": "a", "split": "train"}', "line 1: is no report"),
        ('{"study_id": "a", "split": "validate", "findings": "x"}', r"line 1 \(study a\): wrong split"),
        ('{"study_id": "a", "split": "val", "findings": " "}', "empty findings"),
    ],
)
def test_what_is_no_report_is_named(tmp_path, line, message):
    path = tmp_path / "reports.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(RarrgError, match=message):
        list(read_reports(path))


def test_a_missing_file_says_what_writes_it(tmp_path):
    with pytest.raises(RarrgError, match=r"rarrg extract --data\.root DIR"):
        list(read_reports(tmp_path / "reports.jsonl"))
