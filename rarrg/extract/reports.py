"""``reports.jsonl``: the FINDINGS of every study, which all steps of the extraction read, one report at a time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from rarrg.artifacts import write_jsonl
from rarrg.errors import RarrgError
from rarrg.types import Split, Study


@dataclass(frozen=True)
class ReportText:
    """The findings of one study.

    Attributes:
        study_id: Unique within its file.
        split: The study's split.
        findings: The FINDINGS section on one line, not empty.
    """

    study_id: str
    split: Split
    findings: str

    @property
    def sha256(self) -> str:
        """Hex SHA-256 of the findings."""
        return text_sha256(self.findings)


def text_sha256(findings: str) -> str:
    """Hex SHA-256 of a FINDINGS text in UTF-8."""
    return hashlib.sha256(findings.encode()).hexdigest()


def reports_of(studies: Iterable[Study]) -> Iterator[ReportText]:
    """The findings of the studies that have some.

    Raises:
        RarrgError: A study id is there twice.
    """
    seen: set[str] = set()
    for study in studies:
        if study.id in seen:
            raise RarrgError(f"study {study.id}: is there twice; a file of key phrases has one row a study")
        seen.add(study.id)
        if study.findings.strip():
            yield ReportText(study.id, study.split, study.findings)


def write_reports(reports: Iterable[ReportText], path: Path) -> None:
    """Write reports, one a line, atomically."""
    write_jsonl(path, (vars(report) for report in reports))


def read_reports(path: Path, limit: int | None = None) -> Iterator[ReportText]:
    """Read reports one by one, so that memory does not grow with the file.

    Args:
        path: A file of :func:`write_reports`.
        limit: Stop after as many; None reads all.

    Raises:
        RarrgError: The file cannot be read, or a line is no report.
    """
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if limit is not None and number > limit:
                    return
                try:
                    row = json.loads(line)
                    report = ReportText(row["study_id"], row["split"], row["findings"])
                    good = report.split in get_args(Split) and bool(report.findings.strip())
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    raise RarrgError(f"{path}, line {number}: is no report (study_id, split, findings)") from error
                if not good:
                    raise RarrgError(f"{path}, line {number} (study {report.study_id}): wrong split or empty findings")
                yield report
    except UnicodeDecodeError as error:
        raise RarrgError(f"{path}: is not UTF-8 text") from error
    except OSError as error:
        raise RarrgError(
            f"{path}: cannot be read ({error.strerror}); rarrg extract --data.root DIR --out {path.parent} writes it"
        ) from error
