"""A file of completions, so that no question is paid for twice."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from functools import lru_cache
from pathlib import Path
from types import TracebackType

from rarrg.errors import RarrgError
from rarrg.llm.chat import Completion, Request

_KIND = 0x52415252  # "RARR", in the header of the file
_VERSION = 1
_BUSY = 60.0  # seconds to wait for another process's write


def request_sha256(request: Request, model: str) -> str:
    """Hex SHA-256 of all that decides a reply: the model, messages, schema and sampling; not the request's key."""
    # The keys of the whole stand in alphabetical order too, "messages" first.
    messages = ",".join(f'["{message.role}",{_quoted(message.content)}]' for message in request.messages)
    rest = _compact({"model": model, "sampling": vars(request.sampling), "schema": request.schema})
    return hashlib.sha256(f'{{"messages":[{messages}],{rest[1:]}'.encode()).hexdigest()


_compact = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


@lru_cache(maxsize=256)  # the system prompt is the same in all requests, and a request is looked up and then put
def _quoted(text: str) -> str:
    return _compact(text)


class ReplyCache:
    """Completions by what was asked, in an SQLite file with a write-ahead log.

    Every ``put`` is committed on its own: a process that is killed right after it loses nothing. Several processes of
    one machine may use the file at once; a network file system does not carry the write-ahead log. Replies to
    credentialed reports are as confidential as the reports, and so is this file.

    Args:
        path: The file; it and its folder are made where they are missing.

    Raises:
        RarrgError: The file is something else, of another version, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, timeout=_BUSY, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error
        try:
            self._open()
        except sqlite3.Error as error:
            self._database.close()
            raise self._unusable(error) from error
        except RarrgError:
            self._database.close()
            raise

    def get(self, request: Request, model: str) -> Completion | None:
        """The first completion that was put for such a request, or None.

        Raises:
            RarrgError: The file cannot be read.
        """
        try:
            row = self._database.execute(
                "SELECT completion FROM replies WHERE request = ?", (request_sha256(request, model),)
            ).fetchone()
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        try:
            return None if row is None else Completion(**json.loads(row[0]))
        except (ValueError, TypeError) as error:
            raise RarrgError(f"{self.path}: holds a reply that is none ({error}); name another file") from error

    def put(self, request: Request, model: str, completion: Completion) -> None:
        """Keep a completion; one that is there already for such a request stays.

        Raises:
            RarrgError: The file cannot be written.
        """
        try:
            self._database.execute(
                "INSERT OR IGNORE INTO replies (request, completion) VALUES (?, ?)",
                (request_sha256(request, model), json.dumps(vars(completion))),
            )
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def close(self) -> None:
        """Close the file; the cache is of no use afterwards."""
        self._database.close()

    def __enter__(self) -> ReplyCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> None:
        # Whoever comes first makes the table; the others wait for the lock and find it made.
        self._database.execute("BEGIN IMMEDIATE")
        kind, version = self._pragma("application_id"), self._pragma("user_version")
        tables = self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if (kind, version, tables) == (0, 0, 0):
            self._database.execute(f"PRAGMA application_id = {_KIND}")
            self._database.execute(f"PRAGMA user_version = {_VERSION}")
            self._database.execute(
                "CREATE TABLE replies (request TEXT PRIMARY KEY, completion TEXT NOT NULL) WITHOUT ROWID"
            )
        elif kind != _KIND:
            raise RarrgError(f"{self.path}: is a database, but no cache of replies; name another file")
        elif version != _VERSION:
            raise RarrgError(
                f"{self.path}: is a cache of replies of version {version}, expected {_VERSION}; name another file"
            )
        self._database.execute("COMMIT")
        self._write_ahead()
        # With the write-ahead log, NORMAL loses commits to a power cut only, and a commit need not wait for the disk.
        self._database.execute("PRAGMA synchronous = NORMAL")

    def _write_ahead(self) -> None:
        """Keep a write-ahead log; for this change alone SQLite does not wait until others are done."""
        until = time.monotonic() + _BUSY
        while True:
            try:
                self._database.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(0.01)
            else:
                return

    def _pragma(self, name: str) -> int:
        value: int = self._database.execute(f"PRAGMA {name}").fetchone()[0]
        return value

    def _unusable(self, error: Exception) -> RarrgError:
        return RarrgError(f"{self.path}: cannot be used as a cache of replies ({error}); name another file")
