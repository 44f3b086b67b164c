"""The extraction folder: its files, what failed, and how the folders of shards become one.

``reports.jsonl`` findings of each study; ``annotations.jsonl``, ``graph_phrases.jsonl`` RadGraph's, one row a text;
``replies.jsonl`` the LLM's, one row a text; ``key_phrases.jsonl`` one row a study, what training reads;
``removed.jsonl`` phrases that did not stay; ``disagreements.jsonl`` findings in which report and phrases differ;
``quality.json`` counts of all that; ``failed.jsonl`` studies without a result, and why. ``dataset.json``
(:mod:`rarrg.data.card`) says whether the texts may leave the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from rarrg.artifacts import iterate_jsonl, read_json, write_json, write_jsonl
from rarrg.errors import RarrgError
from rarrg.extract.key_phrases import KEY_PHRASES, extractor_of
from rarrg.extract.quality import Quality
from rarrg.extract.reports import ReportText
from rarrg.extract.stage import Failure, Shard, partial_of

REPORTS = "reports.jsonl"
ANNOTATIONS = "annotations.jsonl"
GRAPH_PHRASES = "graph_phrases.jsonl"
REPLIES = "replies.jsonl"
REMOVED = "removed.jsonl"
DISAGREEMENTS = "disagreements.jsonl"
FAILED = "failed.jsonl"
QUALITY = "quality.json"

GRAPH_STEP = "radgraph"
REFINE_STEP = "refine"
KEPT_STEP = "key phrases"

BY_TEXT = (ANNOTATIONS, GRAPH_PHRASES, REPLIES)
"""Files with a row for each different text, in the order of the reports."""
BY_STUDY = (KEY_PHRASES, REMOVED, DISAGREEMENTS)
"""Files with rows for studies, in the order of the reports."""
_STEPS = {ANNOTATIONS: (GRAPH_STEP,), REPLIES: (REFINE_STEP, KEPT_STEP)}
"""The steps whose failures belong to a file."""
_OF_A_RUN = {
    GRAPH_PHRASES: ("model", "version", "rule"),
    REPLIES: ("prompt_sha256", "sampling"),
    KEY_PHRASES: ("extractor", "version", "asked_with", "structure", "keep_unsupported"),
}
"""Provenance that all shards must share."""

Failed = dict[str, list[dict[str, str]]]


def read_failures(folder: Path) -> Failed:
    """Rows of ``failed.jsonl`` by study; none where there is no file.

    Raises:
        RarrgError: A row lacks a key.
    """
    path = folder / FAILED
    found: Failed = {}
    for number, row in enumerate(iterate_jsonl(path) if path.exists() else (), start=1):
        if not all(isinstance(row.get(key), str) for key in ("study_id", "text_sha256", "step", "reason")):
            raise RarrgError(f"{path}, row {number}: lacks study_id, text_sha256, step or reason; remove the file")
        found.setdefault(row["study_id"], []).append(row)
    return found


def write_failures(
    folder: Path, step: str, failures: Sequence[Failure], looked_at: Iterable[ReportText], reports: Iterable[ReportText]
) -> int:
    """Put the failures of a step into ``failed.jsonl``, every study with such a report.

    What stood there of other steps, and of reports that were not looked at, stays; what is of no report goes.

    Args:
        folder: The extraction folder.
        step: The step.
        failures: One for each different text.
        looked_at: The reports that the step was asked for, in order.
        reports: All reports of the folder, in order, which is that of the file.

    Returns:
        Number of studies that failed.
    """
    reasons = {failure.text_sha256: failure.reason for failure in failures}
    before = read_failures(folder)
    count = 0
    ordered: list[dict[str, str]] = []
    asked = iter(looked_at)
    next_asked = next(asked, None)
    for report in reports:
        rows = [row for row in before.get(report.study_id, ()) if row["text_sha256"] == report.sha256]
        if report == next_asked:
            next_asked = next(asked, None)
            rows = [row for row in rows if row["step"] != step]
            if reason := reasons.get(report.sha256):
                count += 1
                rows.append({"study_id": report.study_id, "text_sha256": report.sha256, "step": step, "reason": reason})
        ordered += sorted(rows, key=lambda row: row["step"])
    write_jsonl(folder / FAILED, ordered)
    return count


def merge_shards(out: Path, reports: Callable[[], Iterable[ReportText]]) -> int:
    """Join the folders of all shards into ``out``; the result equals that of a run without shards.

    Args:
        out: The extraction folder, which holds the shards' folders.
        reports: Gives all reports, in order.

    Returns:
        Number of shards.

    Raises:
        RarrgError: A shard is missing, unfinished, incomplete, of other reports or of another model than the others.
    """
    shards = _shards(out)
    folders = [out / shard.folder for shard in shards]
    names = [name for name in (*BY_TEXT, *BY_STUDY) if any((folder / name).exists() for folder in folders)]
    for name in names:
        _check_files([folder / name for folder in folders], name)
    made_by = {extractor_of(path) for path in (out / KEY_PHRASES, folders[0] / KEY_PHRASES) if path.exists()} - {None}
    if len(made_by) > 1:
        raise RarrgError(
            f"{out / KEY_PHRASES}: is of another extractor than the shards'; move it or name another --out"
        )
    failed: Failed = {}
    for study, rows in chain.from_iterable(read_failures(folder).items() for folder in folders):
        failed.setdefault(study, []).extend(rows)
    for name in names:
        write_jsonl(out / name, _merged([folder / name for folder in folders], shards, reports(), name, failed))

    done = {step for name in names for step in _STEPS.get(name, ())}
    for study, rows in read_failures(out).items():
        failed.setdefault(study, []).extend(row for row in rows if row["step"] not in done)
    in_order = (sorted(failed.get(report.study_id, ()), key=lambda row: row["step"]) for report in reports())
    write_jsonl(out / FAILED, chain.from_iterable(in_order))
    if REPLIES in names:
        write_json(out / QUALITY, Quality.sum([read_json(folder / QUALITY) for folder in folders]).as_dict())
    return len(shards)


def _shards(out: Path) -> list[Shard]:
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
    return shards


def _check_files(paths: Sequence[Path], name: str) -> None:
    """Every shard has the file, whole, and made as the others made theirs."""
    made: dict[str, Path] = {}
    for path in paths:
        if partial_of(path).exists():
            raise RarrgError(f"{partial_of(path)}: that shard is not done; run it again with the same --shard")
        if not path.exists():
            raise RarrgError(f"{path}: is missing, although other shards have it; run that step on this shard")
        row = next(iterate_jsonl(path), None)
        if row is not None and name in _OF_A_RUN:
            provenance = row.get("provenance", {})
            made.setdefault(str({key: provenance.get(key) for key in _OF_A_RUN[name]}), path)
    if len(made) > 1:
        first, second = list(made.values())[:2]
        raise RarrgError(
            f"{second}: was made otherwise than {first} (model, prompt, sampling, structure or version); run it again"
        )


def _merged(
    paths: Sequence[Path], shards: Sequence[Shard], reports: Iterable[ReportText], name: str, failed: Failed
) -> Iterator[Any]:
    sources = [_Peekable(path) for path in paths]
    key = "text_sha256" if name in BY_TEXT else "study_id"
    texts: set[bytes] = set()
    for report in reports:
        source = next(source for source, shard in zip(sources, shards, strict=True) if shard.holds(report))
        wanted = report.sha256 if name in BY_TEXT else report.study_id
        before = source.row
        while source.row is not None and source.row.get(key) == wanted:
            if name == KEY_PHRASES and source.row["provenance"]["text_sha256"] != report.sha256:
                raise RarrgError(f"{source.path}: study {report.study_id} is of another text; run that shard again")
            yield source.row
            source.advance()
        digest = bytes.fromhex(report.sha256)
        complete = name in (REMOVED, DISAGREEMENTS) or (digest in texts and name in BY_TEXT)
        if source.row is before and not complete and report.study_id not in failed:
            raise RarrgError(f"{source.path}: lacks study {report.study_id}; run that shard again, without --limit")
        texts.add(digest)
    for source in sources:
        if source.row is not None:
            raise RarrgError(
                f"{source.path}: holds {source.row.get(key)} out of the order of {REPORTS}; run that shard again"
            )


class _Peekable:
    """Rows of a file, the next one in view."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows = iterate_jsonl(path)
        self.row: dict[str, Any] | None = None
        self.advance()

    def advance(self) -> None:
        self.row = next(self._rows, None)
