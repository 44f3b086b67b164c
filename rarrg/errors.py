"""Errors that a user can mend: one line that says what was wrong, where, and what to do."""

from __future__ import annotations


class RarrgError(Exception):
    """A user's mistake or a broken input. The command line prints its message alone and exits with status 2."""


class ImageError(RarrgError):
    """A file that cannot be read as one grey radiograph. The message names the file."""


class Terminated(Exception):
    """Work was ended from outside, as by a scheduler. The message says how it goes on; the status is 143."""


def require(holds: bool, key: str, wanted: str, value: object) -> None:
    """Check a value that a user set.

    Args:
        holds: Whether the value is as it must be.
        key: The key, as the user writes it.
        wanted: What it must be.
        value: What it is.

    Raises:
        RarrgError: ``holds`` is false.
    """
    if not holds:
        raise RarrgError(f"{key}: must be {wanted}, got {value!r}")
