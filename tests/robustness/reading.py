"""A process that reads images one after another, with a gigabyte to do it in, and what becomes of each."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rarrg.data.grey import MAX_PIXELS, MIN_SIDE
from rarrg.data.images import read_image
from rarrg.errors import ImageError
from tests.robustness.processes import CONTEXT, limit_memory

GIGABYTE = 1 << 30
SECONDS = 30.0  # for an image; a busy machine reads the largest in a few

Make = Callable[[Any, Path], tuple[str, Path]]
"""Makes a case of its description, in a folder; gives its name and its file."""


class Outcome(NamedTuple):
    """What became of a file.

    Attributes:
        name: The case.
        fault: What the reader must not do; empty where it did well.
        error: Message of its ``ImageError``; None where it gave an image.
    """

    name: str
    fault: str
    error: str | None = None


def read_all(
    make: Make, cases: Iterable[Any], folder: Path, memory: int = GIGABYTE, workers: int = 2
) -> Iterator[Outcome]:
    """Read many files, each in one of a few processes; one that crashes or hangs is replaced and its case named."""
    waiting = iter(list(cases))
    readers: dict[Connection, _Reader] = {}

    def start(reader: _Reader) -> None:
        case = next(waiting, None)
        if case is None:
            reader.process.kill()
            reader.process.join()
            return
        reader.give(case)
        readers[reader.connection] = reader

    for number in range(workers):
        start(_Reader(make, folder / str(number), memory))
    while readers:
        ready = [readers.pop(connection) for connection in wait(list(readers), timeout=1.0)]
        for reader in ready:
            try:
                outcome = reader.connection.recv()
            except EOFError:
                reader.process.join()
                outcome = Outcome(str(reader.case), f"the process died, exit code {reader.process.exitcode}")
                reader = _Reader(make, reader.folder, memory)
            yield outcome
            start(reader)
        late = [reader for reader in readers.values() if time.monotonic() - reader.since > SECONDS]
        for reader in late:
            del readers[reader.connection]
            reader.process.kill()
            yield Outcome(str(reader.case), f"took more than {SECONDS:g} seconds")
            start(_Reader(make, reader.folder, memory))


class _Reader:
    def __init__(self, make: Make, folder: Path, memory: int) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.connection, end = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=_serve, args=(end, make, folder, memory), daemon=True)
        self.process.start()
        end.close()
        self.case: Any = None
        self.since = 0.0

    def give(self, case: Any) -> None:
        self.case, self.since = case, time.monotonic()
        self.connection.send(case)


def _serve(end: Connection, make: Make, folder: Path, memory: int) -> None:
    warnings.simplefilter("ignore")  # pydicom says of each damage what it is
    limit_memory(memory)
    while True:
        name, path = make(end.recv(), folder)
        end.send(_outcome(name, path))


def _outcome(name: str, path: Path) -> Outcome:
    try:
        image = read_image(path)
    except ImageError as error:
        message = str(error)
        clear = (
            message.startswith(f"{path}: ") and len(message.splitlines()) == 1 and len(message) < len(str(path)) + 300
        )
        return Outcome(name, "" if clear else f"its error is not one clear line: {message!r}", message)
    except BaseException as error:  # noqa: BLE001  that is what the test is for
        return Outcome(name, f"raised {type(error).__name__}: {str(error)[:200]}")
    sane = image.ndim == 2 and image.dtype == np.uint8 and min(image.shape) >= MIN_SIDE and image.size <= MAX_PIXELS
    return Outcome(name, "" if sane else f"gave {image.dtype} {image.shape}")
