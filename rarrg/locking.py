"""One run at a time where two would write into the same file or folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from rarrg.artifacts import writing
from rarrg.errors import RarrgError

LOCK = ".lock"
"""The lock of a folder, in it."""


@contextmanager
def held(lock: Path, place: Path, seconds: float = 0) -> Iterator[None]:
    """Hold a place for this run while the block runs; the system lets go of it however the process ends.

    Args:
        lock: File of the lock; it stays behind, empty. Its folder must exist.
        place: The file or folder that it stands for.
        seconds: How long to wait for another run.

    Raises:
        RarrgError: Another run holds the place, or nothing can be written there.
    """
    file = FileLock(lock)
    with writing(place):
        try:
            file.acquire(timeout=seconds)
        except Timeout as error:
            raise RarrgError(f"{place}: another run writes there; wait for it, or name another place") from error
    try:
        yield
    finally:
        file.release()
