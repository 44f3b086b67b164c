"""Reports, and references, in the files that systems write them to."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rarrg.artifacts import iterate_jsonl, read_json
from rarrg.errors import RarrgError

_IDS = ("id", "study_id")
_TEXTS = ("text", "report")
_REST = "(more than the header has)"
# ReXrank's JSON: what a system said, and what the radiologist wrote; the latter also under its older name.
_PREDICTION = "model_prediction"
_FINDINGS = ("section_findings", "findings")
# an empty line, or the end of a line before an item of a list; lines may end in \r\n
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*|\n(?=[^\S\n]*(?:[-*\u2022]|\d{1,2}[.)])[ \t])")
_OF_ONE_REPORT = ("prompt_tokens", "completion_tokens")
# A whole report, as ReXrank wants it: the findings of it are what is scored.
_WHOLE = re.compile(r"\s*findings\s*:(?P<findings>.*?)(?:\bimpression\s*:.*)?", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Reports:
    """Texts by id.

    Attributes:
        texts: The reports.
        made_by: What wrote them, as far as the file says: the different values of rarrg's ``model``, ``store``,
            ``writer`` and ``version``; empty for other systems.
    """

    texts: dict[str, str]
    made_by: dict[str, list[Any]] = field(default_factory=dict)


def read_report_file(path: Path) -> Reports:
    """Read the reports of any system.

    The lines of a paragraph become one; an empty line, and an item of a list, begin a line of their own.

    Args:
        path: One of

            - JSON Lines of ``id`` and ``text``, as ``rarrg infer --out`` writes them;
            - CSV with the columns ``id`` (or ``study_id``) and ``report`` (or ``text``);
            - JSON: a dictionary of id and report, or a list of objects with the keys of the CSV;
            - ReXrank's JSON, a dictionary of id and object with ``model_prediction``; of a prediction that says
              "Findings: ... Impression: ..." the findings are taken;
            - a folder of ``ID.txt``.

    Raises:
        RarrgError: The file is missing or of another form, has no report, or has an id or a key twice.
    """
    made_by: dict[str, list[Any]] = {}
    texts: dict[str, str] = {}
    for where, name, row in _rows(path):
        text = _first(row, (_PREDICTION, *_TEXTS))
        if text is None:
            raise RarrgError(f"{path}, {where}: has no report; it stands under {' or '.join((*_TEXTS, _PREDICTION))}")
        if _PREDICTION in row and (whole := _WHOLE.fullmatch(text)):
            text = whole["findings"]
        _take(texts, name, _unwrapped(text), f"{path}, {where}")
        for key in ("model", "store", "writer", "version"):
            made = row.get(key)
            if isinstance(made, dict):
                made = {name: value for name, value in made.items() if name not in _OF_ONE_REPORT}
            if made is not None and made not in made_by.setdefault(key, []):
                made_by[key].append(made)
    if not texts:
        raise RarrgError(f"{path}: has no report")
    return Reports(texts, made_by)


def read_references(path: Path) -> dict[str, str]:
    """Read references by id: as :func:`read_report_file`, and of ReXrank's JSON its ``section_findings``.

    Entries without a reference are passed over.

    Args:
        path: CSV, JSON, JSON Lines or a folder.

    Raises:
        RarrgError: The file is missing or of another form, has no reference, or has an id or a key twice.
    """
    references: dict[str, str] = {}
    for where, name, row in _rows(path):
        text = _first(row, (*_FINDINGS, *(() if _is_rexrank(row) else _TEXTS)))
        if text is not None and text.strip():
            _take(references, name, _unwrapped(text), f"{path}, {where}")
    if not references:
        raise RarrgError(f"{path}: has no reference; it stands under report, text or {_FINDINGS[0]}")
    return references


def _unwrapped(text: str) -> str:
    """A report whose lines go on where its text does; paragraphs and items of a list keep lines of their own."""
    paragraphs = _PARAGRAPH.split(text.strip())
    return "\n".join(" ".join(paragraph.split()) for paragraph in paragraphs if paragraph.strip())


def _is_rexrank(row: Mapping[str, Any]) -> bool:
    return "image_path" in row or _PREDICTION in row


def _take(texts: dict[str, str], name: str, text: str, where: str) -> None:
    if name in texts:
        raise RarrgError(f"{where}: the id {name} occurs twice")
    texts[name] = text


def _first(row: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    return next((row[key] for key in keys if isinstance(row.get(key), str)), None)


def _rows(path: Path) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Place, id and fields of each report."""
    if path.is_dir():
        for file in sorted(path.glob("*.txt")):
            try:
                yield file.name, file.stem, {"text": file.read_text(encoding="utf-8-sig")}
            except (OSError, UnicodeDecodeError) as error:
                raise RarrgError(f"{file}: is not readable UTF-8 text") from error
        return
    suffix = path.suffix.lower()
    if suffix == ".jsonl":
        numbered: Iterable[tuple[str, Any]] = (
            (f"report {place}", row) for place, row in enumerate(iterate_jsonl(path, unique=True), start=1)
        )
    elif suffix == ".csv":
        numbered = _csv_rows(path)
    elif suffix == ".json":
        value = read_json(path, unique=True)
        if isinstance(value, dict):
            for name, row in value.items():
                yield f"entry {name}", name, row if isinstance(row, dict) else {"text": row}
            return
        if not isinstance(value, list):
            raise RarrgError(f"{path}: must be a dictionary of id and report, or a list of objects")
        numbered = ((f"entry {place}", row) for place, row in enumerate(value, start=1))
    else:
        raise RarrgError(f"{path}: " + ("is no .jsonl, .csv, .json or folder" if path.exists() else "is not there"))
    for where, row in numbered:
        name = next((row[key] for key in _IDS if key in row), None) if isinstance(row, dict) else None
        if not isinstance(name, (str, int)) or str(name).strip() == "":
            raise RarrgError(f"{path}, {where}: has no id")
        yield where, str(name).strip(), row


def _csv_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, restkey=_REST, strict=True)
            for row in reader:
                if _REST in row:
                    raise RarrgError(
                        f"{path}, line {reader.line_num}: has more fields than the header; put reports with commas in "
                        "quotes"
                    )
                yield f"line {reader.line_num}", row
    except OSError as error:
        raise RarrgError(f"{path}: cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise RarrgError(f"{path}: is not a UTF-8 CSV file ({error})") from error
