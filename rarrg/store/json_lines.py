"""JsonLines: the objects of a JSONL file, each parsed when it is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

import numpy as np

from rarrg.errors import RarrgError

T = TypeVar("T")
_BLOCK = 1 << 20


class JsonLines(Sequence[T], Generic[T]):
    """A list of what stands in the lines of a JSONL file; only the bytes are in memory.

    243,064 phrases as objects take a second to make and 150 MB; a report needs seven of them.

    Args:
        path: File of one JSON object a line, without blank lines, as ``write_jsonl`` writes it.
        make: Makes an element from a line's object.

    Raises:
        RarrgError: The file is missing. A line that is no JSON object or that ``make`` cannot read is told when it is
            asked for.
    """

    def __init__(self, path: Path, make: Callable[[dict[str, Any]], T]) -> None:
        self._path = path
        self._make = make
        try:
            self._bytes = path.read_bytes()
        except OSError as error:
            raise RarrgError(f"{path}: cannot be read ({error.strerror})") from error
        text = np.frombuffer(self._bytes, np.uint8)
        # In blocks: the comparison alone would need as much memory as the file.
        blocks = range(0, len(text), _BLOCK)
        ends = [np.flatnonzero(text[start : start + _BLOCK] == ord("\n")) + start for start in blocks]
        last = [] if self._bytes.endswith(b"\n") or not self._bytes else [np.array([len(text)])]
        self._bounds = np.concatenate([np.array([-1]), *ends, *last])

    def __len__(self) -> int:
        return len(self._bounds) - 1

    @overload
    def __getitem__(self, place: int) -> T: ...

    @overload
    def __getitem__(self, place: slice) -> list[T]: ...

    def __getitem__(self, place: int | slice) -> T | list[T]:
        if isinstance(place, slice):
            return [self._at(each) for each in range(len(self))[place]]
        return self._at(range(len(self))[place])

    def __iter__(self) -> Iterator[T]:
        return map(self._at, range(len(self)))

    def _at(self, place: int) -> T:
        line = self._bytes[self._bounds[place] + 1 : self._bounds[place + 1]]
        try:
            return self._make(json.loads(line))
        except KeyError as error:
            raise RarrgError(f"{self._path}, line {place + 1}: lacks {error}") from error
        except (ValueError, TypeError) as error:
            raise RarrgError(f"{self._path}, line {place + 1}: is not valid JSON of its kind ({error})") from error
