"""Reports -> ``annotations.jsonl`` (RadGraph's answers) -> ``graph_phrases.jsonl`` (phrases by the rule)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rarrg.artifacts import iterate_jsonl, write_jsonl
from rarrg.errors import RarrgError
from rarrg.extract.folder import ANNOTATIONS, GRAPH_PHRASES, GRAPH_STEP
from rarrg.extract.graph_phrases import radgraph_phrases
from rarrg.extract.radgraph import Annotated, RadGraphAnnotator
from rarrg.extract.reports import ReportText
from rarrg.extract.stage import Do, Failure, Item, Row, key_of, run_step

HOPELESS = 64
"""Reports that may fail in a row. A GPU without memory, as one reason, fails all that follow."""

RULE = 1
"""Version of the phrase rule; raised with every change that can change a phrase."""


def annotating(annotator: RadGraphAnnotator) -> Do:
    """What annotates reports.

    Args:
        annotator: The model.
    """

    def annotate(todo: Iterator[Item]) -> Iterator[tuple[Item, Row | str]]:
        # The annotator answers in order, but draws ahead.
        drawn: deque[Item] = deque()

        def texts() -> Iterator[str]:
            for item in todo:
                drawn.append(item)
                yield item.report.findings

        streak = 0
        for outcome in annotator.annotate(texts()):
            item = drawn.popleft()
            if isinstance(outcome, Annotated):
                streak = 0
                yield item, _row(item, outcome, annotator)
                continue
            streak += 1
            if streak == HOPELESS:
                raise RarrgError(f"RadGraph: {streak} reports in a row could not be read; the last: {outcome.reason}")
            yield item, outcome.reason

    return annotate


def annotate_reports(
    reports: Callable[[], Iterable[ReportText]], folder: Path, annotator: RadGraphAnnotator, do: Do | None = None
) -> list[Failure]:
    """Annotate the reports that have no annotation yet, and write the phrases of all.

    Args:
        reports: Gives the reports, the same ones each time it is called.
        folder: The extraction folder.
        annotator: The model.
        do: Works on them elsewhere, by the same model; None for here.

    Returns:
        Reports that could not be annotated, or whose annotation gives no phrases.

    Raises:
        RarrgError: The model cannot be loaded, many reports in a row could not be read, or a file holds something else.
    """

    def items() -> Iterator[Item]:
        return (
            Item(key_of(GRAPH_STEP, annotator.model, annotator.version, report.sha256), report) for report in reports()
        )

    path = folder / ANNOTATIONS
    failures = run_step(GRAPH_STEP, items, path, _key, do or annotating(annotator))
    return [*failures, *write_phrases(path, folder / GRAPH_PHRASES)]


def write_phrases(annotations: Path, path: Path) -> list[Failure]:
    """Turn annotations into RadGraph phrases, one row a text.

    Returns:
        Texts whose annotation is malformed or names nothing.
    """
    failures: list[Failure] = []

    def rows() -> Iterator[Row]:
        for row in iterate_jsonl(annotations):
            reason = "names nothing"
            try:
                phrases = radgraph_phrases(row["annotation"])
            except ValueError as error:
                phrases, reason = [], str(error)
            if not phrases:
                failures.append(
                    Failure(row["study_id"], row["text_sha256"], GRAPH_STEP, f"RadGraph's annotation: {reason}")
                )
            made_by = {name: row["provenance"][name] for name in ("model", "version")}
            yield {
                "study_id": row["study_id"],
                "text_sha256": row["text_sha256"],
                "phrases": phrases,
                "provenance": made_by | {"rule": RULE},
            }

    write_jsonl(path, rows())
    return failures


def _row(item: Item, outcome: Annotated, annotator: RadGraphAnnotator) -> Row:
    return {
        "key": item.key,
        "study_id": item.report.study_id,
        "text_sha256": item.report.sha256,
        "annotation": outcome.annotation,
        "provenance": {
            "model": annotator.model,
            "version": annotator.version,
            "seconds": round(outcome.seconds, 4),
        },
    }


def _key(row: Row) -> str:
    if not (isinstance(row["annotation"], dict) and row["text_sha256"] and row["provenance"]["version"]):
        raise TypeError("annotation")
    return str(row["key"])
