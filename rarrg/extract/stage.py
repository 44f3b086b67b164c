"""Resumable work on reports: what is done is kept on disk, row by row, and never done twice.

A step turns items (a report and what the step needs beside it) into rows of one JSONL file. Every item has a key, the
checksum of all that its row depends on; equal reports have equal keys and are worked on once. Rows are appended to
``<name>.partial`` and flushed one by one, so that a killed run loses what was under way and nothing else. When all is
done the rows are written in the order of the reports, in one step, and the partial file goes; rows that nobody asked
for this time, as those beyond a limit or of another model, move to ``<name>.spare``, where they are found again.
Memory holds the keys (16 bytes a report), not the rows.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from rarrg.artifacts import jsonl_line, write_jsonl, writing
from rarrg.errors import RarrgError
from rarrg.extract.reports import ReportText

Row = dict[str, Any]
KEY_LENGTH = 32
_KEY = f"S{KEY_LENGTH // 2}"  # in memory a key is its bytes
_BLOCK = 1024
_TAIL = 1 << 16


@dataclass(frozen=True)
class Item:
    """One report to work on.

    Attributes:
        key: Of :func:`key_of`.
        report: The report.
        phrases: Phrases of an earlier step, for a step that needs some.
    """

    key: str
    report: ReportText
    phrases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Failure:
    """A report without a row.

    Attributes:
        study_id: First study with the report.
        text_sha256: Checksum of its findings.
        step: The step that failed.
        reason: Why, in one line.
    """

    study_id: str
    text_sha256: str
    step: str
    reason: str


Items = Callable[[], Iterable[Item]]
Do = Callable[[Iterator[Item]], Iterable["tuple[Item, Row | str]"]]
"""Works on items as they are drawn; gives each with its row, or with the reason why there is none, in any order."""


def key_of(*parts: Any) -> str:
    """Checksum of JSON values, 128 bits in hex."""
    return hashlib.sha256(_sorted(parts).encode()).hexdigest()[:KEY_LENGTH]


_sorted = json.JSONEncoder(sort_keys=True).encode


@dataclass(frozen=True)
class Shard:
    """Part ``number`` of ``of``, from 1, as one of several machines works on it.

    Attributes:
        number: From 1.
        of: Number of parts.
    """

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read ``3/16``.

        Raises:
            RarrgError: The text is nothing like that.
        """
        number, slash, of = text.partition("/")
        if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            raise RarrgError(f"--shard: must be a part and the number of parts, as 3/16, got {text!r}")
        return cls(int(number), int(of))

    @property
    def folder(self) -> str:
        """Name of the folder of its files."""
        return f"shard-{self.number}-of-{self.of}"

    def holds(self, report: ReportText) -> bool:
        """Whether a report is of this part; equal findings are always of the same."""
        return int(report.sha256[:15], 16) % self.of == self.number - 1


class Rows:
    """Rows of JSONL files by key. They stay on disk; memory has 24 bytes for each."""

    def __init__(self, paths: Sequence[Path], key: Callable[[Row], str | None]) -> None:
        """Index the files that exist.

        Args:
            paths: JSONL files.
            key: Key of a row; None for a row that no longer holds. May raise KeyError, TypeError or ValueError for what
                is no row of the step.

        Raises:
            RarrgError: A line is no row.
        """
        keys, places = bytearray(), array("q")
        self._files = [path.open("rb") for path in paths if path.exists()]
        for number, file in enumerate(self._files):
            offset = 0
            for line_number, line in enumerate(file, start=1):
                found = self._key(key, line, f"{file.name}, line {line_number}")
                if found is not None:
                    keys += found
                    places.append(offset << 8 | number)
                offset += len(line)
        unsorted = np.frombuffer(keys, dtype=_KEY)
        order = np.argsort(unsorted, kind="stable")
        self._keys, self._places = unsorted[order], np.frombuffer(places, dtype=np.int64)[order]

    @staticmethod
    def _key(key: Callable[[Row], str | None], line: bytes, where: str) -> bytes | None:
        try:
            found = key(json.loads(line)) if line.strip() else None
            if found is None:
                return None
            if len(found) != KEY_LENGTH:
                raise ValueError(f"key {found!r}")
            return bytes.fromhex(found)
        except RarrgError as error:
            raise RarrgError(f"{where}: {error}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if not line.endswith(b"\n"):
                return None  # torn
            raise RarrgError(f"{where}: is no row of this step; move the file or name another place") from error

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()

    def __len__(self) -> int:
        return len(self._keys)

    def has(self, keys: np.ndarray) -> np.ndarray:
        """Which keys have a row: ``[n]`` of bytes to bool ``[n]``."""
        return self._find(keys) >= 0

    def get(self, keys: Sequence[str]) -> list[Row | None]:
        """The row of each key, None where there is none."""
        found = self._find(np.array([bytes.fromhex(key) for key in keys], dtype=_KEY))
        return [None if place < 0 else self._read(place) for place in found.tolist()]

    def others(self, keys: np.ndarray) -> Iterator[Row]:
        """Rows whose key is none of these, each key once."""
        spare = ~np.isin(self._keys, keys)
        spare[1:] &= self._keys[1:] != self._keys[:-1]
        return (self._read(place) for place in np.sort(self._places[spare]).tolist())

    def _find(self, keys: np.ndarray) -> np.ndarray:
        if not len(self):
            return np.full(len(keys), -1)
        index = np.searchsorted(self._keys, keys).clip(max=len(self) - 1)
        return np.where(self._keys[index] == keys, self._places[index], -1)

    def _read(self, place: int) -> Row:
        file = self._files[place & 0xFF]
        file.seek(place >> 8)
        row: Row = json.loads(file.readline())
        return row


def run_step(step: str, items: Items, path: Path, key: Callable[[Row], str | None], do: Do) -> list[Failure]:
    """Work on the items that have no row yet, and write the rows of all, in the items' order, once a key.

    Args:
        step: Name of the step, for the bar and for failures.
        items: Gives the items, the same ones each time it is called.
        path: The file; its folder is created.
        key: Key of a row of the file; see :class:`Rows`.
        do: Works on items.

    Returns:
        Items without a row, each key once, in the items' order. They are worked on again by the next call.

    Raises:
        RarrgError: ``path`` holds something else.
    """
    failures = add_rows(step, items, path, key, do)
    keys, first = _keys(items)
    spare = _spare_of(path)
    with Rows(_files(path), key) as rows:
        # Before the file itself: a kill in between leaves rows twice, and loses none.
        write_jsonl(spare, rows.others(keys))
        done = (
            {**row, "study_id": item.report.study_id}
            for (item, row), new in zip(in_order(items, rows), first.tolist(), strict=True)
            if new and row
        )
        write_jsonl(path, done)
    if not spare.stat().st_size:
        spare.unlink()
    partial_of(path).unlink(missing_ok=True)
    return failures


def _spare_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.spare")


def _files(path: Path) -> list[Path]:
    return [path, partial_of(path), _spare_of(path)]


def partial_of(path: Path) -> Path:
    """Where the rows of an unfinished file lie."""
    return path.with_name(f"{path.name}.partial")


def add_rows(step: str, items: Items, path: Path, key: Callable[[Row], str | None], do: Do) -> list[Failure]:
    """The first half of :func:`run_step`: put the rows that lack into the partial file, and leave ``path`` alone."""
    partial = partial_of(path)
    with writing(partial):
        path.parent.mkdir(parents=True, exist_ok=True)
        _drop_torn_line(partial)
    keys, first = _keys(items)
    with Rows(_files(path), key) as rows:
        wanted = first & ~rows.has(keys)
    reasons: dict[str, str] = {}
    done = 0
    total = int(wanted.sum())
    if total:
        todo = (item for item, want in zip(items(), wanted.tolist(), strict=True) if want)
        with (
            writing(partial),
            partial.open("a", encoding="utf-8") as file,
            tqdm(total=total, desc=step, unit="report") as bar,
        ):
            for item, outcome in do(todo):
                if isinstance(outcome, str):
                    reasons[item.key] = outcome
                else:
                    file.write(jsonl_line(outcome))
                    file.flush()
                done += 1
                bar.update()
    if done < total:
        raise RarrgError(f"{step}: {total - done} of {total} reports got no outcome; run it again")
    if not reasons:
        return []
    failed = ((item, reasons.pop(item.key, None)) for item in items())
    return [
        Failure(item.report.study_id, item.report.sha256, step, reason) for item, reason in failed if reason is not None
    ]


def _keys(items: Items) -> tuple[np.ndarray, np.ndarray]:
    """Key of each item, and which items are the first with their key."""
    keys = np.fromiter((bytes.fromhex(item.key) for item in items()), dtype=_KEY)
    first = np.zeros(len(keys), dtype=bool)
    first[np.unique(keys, return_index=True)[1]] = True
    return keys, first


def in_order(items: Items, rows: Rows) -> Iterator[tuple[Item, Row | None]]:
    """Each item with its row, or None where it has none."""
    source = iter(items())
    while block := list(islice(source, _BLOCK)):
        yield from zip(block, rows.get([item.key for item in block]), strict=True)


def _drop_torn_line(path: Path) -> None:
    """Cut off what a killed run left of its last row."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        end = file.seek(0, 2)
        while end:
            start = max(0, end - _TAIL)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                file.truncate(start + newline + 1)
                return
            end = start
        file.truncate(0)
