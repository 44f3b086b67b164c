"""The report within a reply that is still being written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

_OPENING = re.compile(r'"report"\s*:\s*"')
# Half of a surrogate pair waits for the other half: no terminal takes it alone.
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_CHARACTER = re.compile(rf'{_HIGH}{_LOW}|(?!{_HIGH}|{_LOW})\\u[0-9a-fA-F]{{4}}|\\["\\/bfnrt]|[^"\\]')


class DraftStream:
    """Takes a reply piece by piece and passes on the text of its report.

    Args:
        say: Gets each new part of the text, and a heading where a draft begins.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._waiting = ""
        self._within = False
        self._drafts = 0

    def hear(self, piece: str) -> None:
        """Take the next piece of a reply; an empty one begins a reply."""
        if not piece:
            self._drafts += 1
            self._waiting, self._within = "", False
            self._say(f"{chr(10) if self._drafts > 1 else ''}draft {self._drafts}: ")
            return
        self._waiting += piece
        if not self._within:
            opening = _OPENING.search(self._waiting)
            if opening is None:
                return
            self._waiting, self._within = self._waiting[opening.end() :], True
        # What is no whole character waits for the next piece; the closing quote ends the report.
        end = 0
        while found := _CHARACTER.match(self._waiting, end):
            end = found.end()
        text = self._waiting[:end]
        if self._waiting[end : end + 1] == '"':
            self._waiting, self._within = "", False
        else:
            self._waiting = self._waiting[end:]
        if text:
            self._say(json.loads(f'"{text}"', strict=False))
