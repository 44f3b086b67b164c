"""A list of studies to report, as CSV or JSON."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rarrg.artifacts import read_json
from rarrg.errors import RarrgError
from rarrg.types import Position

COLUMNS = ("id", "frontal", "lateral")
VIEWS: tuple[Position, ...] = ("frontal", "lateral")


@dataclass(frozen=True)
class ListedStudy:
    """A study of a list.

    Attributes:
        id: Unique within the list.
        frontal: Frontal images, if there are any.
        lateral: Lateral images, if there are any.
    """

    id: str
    frontal: tuple[Path | str, ...]
    lateral: tuple[Path | str, ...]


def read_list(path: Path) -> list[ListedStudy]:
    """Read a list of studies.

    Args:
        path: CSV with a header line, or a JSON list of objects. Columns: ``id``, and ``frontal`` or ``lateral`` or
            both; relative image paths start from the list's folder, a leading ``~`` is the home folder, and an
            address as ``s3://bucket/a.dcm`` stays one.

    Raises:
        RarrgError: The list is missing or malformed; the message names the row.
    """
    if path.suffix.lower() not in (".csv", ".json"):
        raise RarrgError(f"--input {path}: is neither .csv nor .json")
    rows = _csv_rows(path) if path.suffix.lower() == ".csv" else _json_rows(path)
    studies: dict[str, ListedStudy] = {}
    for place, row in rows:
        unknown = sorted(str(key) for key in row.keys() - set(COLUMNS))
        if unknown or "id" not in row:
            found = f"unknown: {', '.join(unknown)}" if unknown else "id is missing"
            raise RarrgError(f"{path}, {place}: the columns are {', '.join(COLUMNS)} ({found})")
        values = {name: _texts(row.get(name)) for name in COLUMNS}
        if None in values.values() or isinstance(row["id"], list):
            raise RarrgError(f"{path}, {place}: {', '.join(COLUMNS)} must be text, images also a list of it")
        identity = "" if row["id"] is None else str(row["id"]).strip()
        if not identity:
            raise RarrgError(f"{path}, {place}: the id is empty")
        if identity in studies:
            raise RarrgError(f"{path}, {place}: the id {identity} occurs twice")
        views = {view: tuple(_place(path.parent, name) for name in values[view] or ()) for view in VIEWS}
        if not any(views.values()):
            raise RarrgError(f"{path}, {place}: study {identity} has neither a frontal nor a lateral image")
        studies[identity] = ListedStudy(identity, views["frontal"], views["lateral"])
    if not studies:
        raise RarrgError(f"{path}: lists no study")
    return list(studies.values())


def _texts(value: object) -> list[str] | None:
    """What a field names; None where it is no text."""
    if isinstance(value, list):
        return (
            [name.strip() for name in value] if all(isinstance(name, str) and name.strip() for name in value) else None
        )
    if isinstance(value, (dict, bool)):
        return None
    return [name.strip() for name in str(value or "").split(";") if name.strip()]


def _csv_rows(path: Path) -> list[tuple[str, dict[str, Any]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, restkey="(more than the header has)", strict=True)
            header = list(reader.fieldnames or ())
            twice = sorted({name for name in header if header.count(name) > 1})
            if twice:
                raise RarrgError(f"{path}: has the column {twice[0]} twice; several images of a view go into one, a;b")
            if len(header) == 1 and any(mark in header[0] for mark in ";\t"):
                raise RarrgError(f"{path}: the separator must be a comma (the header is {header[0]!r})")
            return [(f"line {reader.line_num}", row) for row in reader]
    except OSError as error:
        raise RarrgError(f"{path}: cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise RarrgError(f"{path}: is not a UTF-8 CSV file ({error})") from error


def _json_rows(path: Path) -> list[tuple[str, dict[str, Any]]]:
    value = read_json(path, unique=True)
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise RarrgError(f"{path}: must be a list of objects with {', '.join(COLUMNS)}")
    return [(f"entry {number}", row) for number, row in enumerate(value, start=1)]


def _place(folder: Path, name: str) -> Path | str:
    return name if "://" in name else folder / expanded(name)


def expanded(path: str | Path) -> Path:
    """A path whose leading ``~`` is the home folder."""
    try:
        return Path(path).expanduser()
    except RuntimeError:  # no such user: the ~ is part of a file's name
        return Path(path)
