"""The extraction folder: its files, what failed, and how the folders of shards become one.

``reports.jsonl`` findings of each study; ``annotations.jsonl``, ``graph_phrases.jsonl`` RadGraph's, one row a text;
``replies.jsonl`` the LLM's, one row a text; ``key_phrases.jsonl`` one row a study, what training reads;
``removed.jsonl`` phrases that did not stay; ``disagreements.jsonl`` findings in which report and phrases differ;
``failed.jsonl`` studies without a result, and why. ``dataset.json`` (:mod:`rarrg.data.card`) says whether the texts may
leave the machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rarrg.artifacts import read_jsonl, write_jsonl
from rarrg.errors import RarrgError
from rarrg.extract.key_phrases import KEY_PHRASES
from rarrg.extract.reports import ReportText
from rarrg.extract.stage import Failure, Shard, partial_of

REPORTS = "reports.jsonl"
ANNOTATIONS = "annotations.jsonl"
GRAPH_PHRASES = "graph_phrases.jsonl"
REPLIES = "replies.jsonl"
REMOVED = "removed.jsonl"
DISAGREEMENTS = "disagreements.jsonl"
FAILED = "failed.jsonl"

BY_TEXT = (ANNOTATIONS, GRAPH_PHRASES, REPLIES)
"""Files with a row for each different text, in the order of the reports."""
BY_STUDY = (KEY_PHRASES, REMOVED, DISAGREEMENTS, FAILED)
"""Files with rows for studies, in the order of the reports."""


def write_failures(folder: Path, step: str, failures: Sequence[Failure], reports: Iterable[ReportText]) -> int:
    """Put the failures of a step into ``failed.jsonl``, every study with such a report, in place of its earlier ones.

    Args:
        folder: The extraction folder.
        step: The step, all of whose failures these are.
        failures: One for each different text.
        reports: All reports of the folder, in order, which is that of the file.

    Returns:
        Number of studies.
    """
    path = folder / FAILED
    reasons = {failure.text_sha256: failure.reason for failure in failures}
    others = [row for row in read_jsonl(path) if row["step"] != step] if path.exists() else []
    rows: dict[str, list[dict[str, str]]] = {}
    for row in others:
        rows.setdefault(row["study_id"], []).append(row)
    count = 0
    ordered: list[dict[str, str]] = []
    for report in reports if reasons or rows else ():
        of_study = rows.get(report.study_id, [])
        if reason := reasons.get(report.sha256):
            count += 1
            own = {"study_id": report.study_id, "text_sha256": report.sha256, "step": step, "reason": reason}
            of_study = sorted([*of_study, own], key=lambda row: row["step"])
        ordered += of_study
    write_jsonl(path, ordered)
    return count


def merge_shards(out: Path, reports: Callable[[], Iterable[ReportText]]) -> int:
    """Join the folders of all shards into ``out``; the result equals that of a run without shards.

    Args:
        out: The extraction folder, which holds the shards' folders.
        reports: Gives all reports, in order.

    Returns:
        Number of shards.

    Raises:
        RarrgError: A shard is missing or unfinished, or there are shards of another number.
    """
    folders = sorted(path for path in out.glob("shard-*-of-*") if path.is_dir())
    if not folders:
        raise RarrgError(f"{out}: has no folder shard-1-of-N; run rarrg extract with --shard 1/N first")
    counts = {folder.name.rpartition("-")[2] for folder in folders}
    if len(counts) > 1:
        raise RarrgError(f"{out}: holds shards of {' and of '.join(sorted(counts))}; remove those of the other run")
    of = int(counts.pop())
    shards = [Shard(number, of) for number in range(1, of + 1)]
    if missing := [shard.folder for shard in shards if not (out / shard.folder).is_dir()]:
        raise RarrgError(f"{out}: lacks {', '.join(missing)}")
    for name in (*BY_TEXT, *BY_STUDY):
        paths = [out / shard.folder / name for shard in shards]
        if unfinished := [path for path in paths if partial_of(path).exists()]:
            raise RarrgError(f"{partial_of(unfinished[0])}: that shard is not done; run it again with the same --shard")
        there = [path for path in paths if path.exists()]
        if there and len(there) < len(paths):
            lacking = next(path for path in paths if not path.exists())
            raise RarrgError(f"{lacking}: is missing, although other shards have it; run that step on this shard")
        if there:
            write_jsonl(out / name, _merged(paths, shards, reports(), name))
    return len(shards)


def _merged(paths: Sequence[Path], shards: Sequence[Shard], reports: Iterable[ReportText], name: str) -> Iterator[Any]:
    sources = [_Peekable(path) for path in paths]
    key = "text_sha256" if name in BY_TEXT else "study_id"
    for report in reports:
        source = next(source for source, shard in zip(sources, shards, strict=True) if shard.holds(report))
        wanted = report.sha256 if name in BY_TEXT else report.study_id
        while source.row is not None and source.row[key] == wanted:
            yield source.row
            source.advance()
    for source in sources:
        if source.row is not None:
            raise RarrgError(
                f"{source.path}: holds {source.row[key]} out of the order of {REPORTS}; run the step again"
            )


class _Peekable:
    """Rows of a file, the next one in view."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = path.open(encoding="utf-8")
        self.row: dict[str, Any] | None = None
        self.advance()

    def advance(self) -> None:
        line = self._lines.readline()
        self.row = json.loads(line) if line.strip() else None
        if self.row is None:
            self._lines.close()
