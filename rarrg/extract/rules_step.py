"""Reports -> ``key_phrases.jsonl`` by the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from rarrg.artifacts import write_jsonl
from rarrg.errors import RarrgError
from rarrg.extract.reports import ReportText
from rarrg.extract.rules import EXTRACTOR, VERSION, extract_phrases
from rarrg.extract.stage import Do, Item, Row, Rows, add_rows, in_order, key_of, partial_of


def by_rules(todo: Iterator[Item]) -> Iterator[tuple[Item, Row | str]]:
    """Make the rows of reports."""
    for item in todo:
        provenance = {"extractor": EXTRACTOR, "version": VERSION, "text_sha256": item.report.sha256}
        phrases = extract_phrases(item.report.findings)
        yield item, {"study_id": item.report.study_id, "key_phrases": phrases, "provenance": provenance}


def extract_with_rules(reports: Callable[[], Iterable[ReportText]], path: Path, do: Do = by_rules) -> None:
    """Write the key phrases of every report, by the rules; a killed or repeated call goes on from what is there.

    Args:
        reports: Gives the reports, the same ones each time it is called.
        path: The file to write; its folder is created.
        do: Works on them; :func:`by_rules`, here or elsewhere.

    Raises:
        RarrgError: ``path`` holds another extractor's rows or no rows at all.
    """

    def items() -> Iterator[Item]:
        return (Item(_key(report.sha256), report) for report in reports())

    add_rows("key phrases", items, path, _key_of_row, do)
    with Rows([path, partial_of(path)], _key_of_row) as rows:
        write_jsonl(path, ({**row, "study_id": item.report.study_id} for item, row in in_order(items, rows) if row))
    partial_of(path).unlink(missing_ok=True)


def _key(text_sha256: str) -> str:
    return key_of(EXTRACTOR, VERSION, text_sha256)


def _key_of_row(row: dict[str, Any]) -> str | None:
    provenance = dict(row["provenance"])
    if provenance.get("extractor") != EXTRACTOR:
        raise RarrgError(
            f"was written by extractor {provenance.get('extractor')!r}, not {EXTRACTOR!r}; name another place to write"
        )
    list(row["key_phrases"])
    return _key(provenance["text_sha256"]) if provenance["version"] == VERSION else None
