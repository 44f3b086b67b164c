"""Errors that a user can mend: one line that says what was wrong, where, and what to do."""

from __future__ import annotations


class RarrgError(Exception):
    """A user's mistake or a broken input. The command line prints its message alone and exits with status 2."""


class ImageError(RarrgError):
    """A file that cannot be read as one grey radiograph. The message names the file."""
