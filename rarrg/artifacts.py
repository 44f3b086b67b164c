"""Files the package writes: atomic writes, JSONL, checksums, and the one manifest format."""

from __future__ import annotations

import csv
import errno
import hashlib
import json
import os
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from rarrg.errors import RarrgError

MANIFEST = "manifest.json"

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CLOSED = (errno.EROFS, errno.EACCES, errno.EPERM)
_IN_THE_WAY = (errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENOTEMPTY, errno.ENAMETOOLONG)
NOT_WRITABLE = (*_FULL, *_CLOSED, *_IN_THE_WAY)
"""Codes of an OSError that a user can mend: make room, or write elsewhere."""


def sha256_of(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def weights_digest(place: Path) -> str:
    """Twelve hex digits that tell model files apart without reading gigabytes: names, sizes, first and last MiB.

    Args:
        place: A file, or a folder. Hidden files and folders, where the hub keeps times of download, do not count.
    """
    inside = (path for path in place.rglob("*") if path.is_file())
    shown = (path for path in inside if not any(part.startswith(".") for part in path.relative_to(place).parts))
    files = sorted(shown) if place.is_dir() else [place]
    digest = hashlib.sha256()
    for path in files:
        size = path.stat().st_size
        digest.update(f"{path.relative_to(place).as_posix()} {size}\n".encode())
        with path.open("rb") as file:
            digest.update(file.read(1 << 20))
            file.seek(max(size - (1 << 20), 0))
            digest.update(file.read())
    return digest.hexdigest()[:12]


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Tell in one line what keeps a file or folder from being written.

    Raises:
        RarrgError: The disk is full or read-only, the folder not the user's to write to, or something in the way. Any
            other OSError goes through, that of another file which is read meanwhile too.
    """
    try:
        yield
    except OSError as error:
        code = error.errno
        if code in _FULL:
            remedy = "make room there or name another place"
        elif code in (*_CLOSED, *_IN_THE_WAY) and _concerns(error, path):
            remedy = "see that you may write there, and that no file is in the way, or name another place"
        else:
            raise
        raise RarrgError(f"{path}: cannot be written ({error.strerror}); {remedy}") from error


def _concerns(error: OSError, path: Path) -> bool:
    """Whether an error is about a path, what lies in it or beside it, or a folder above it."""
    if error.filename is None:
        return True
    named = Path(os.fsdecode(error.filename)).absolute()
    return named in path.absolute().parents or path.absolute().parent in named.parents


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Give a temporary path beside ``path``; on a clean exit it replaces ``path``, on an error it is removed.

    Raises:
        RarrgError: As :func:`writing`; what was there before stays as it was.
    """
    # Processes on several machines that share the folder may have the same number.
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_csv(path: Path, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Write a CSV table with a header, atomically."""
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, columns)
        table.writeheader()
        table.writerows(rows)


def read_json(path: Path, unique: bool = False) -> Any:
    """Read a JSON file.

    Args:
        path: The file.
        unique: Refuse an object that has a key twice, of which JSON takes the last.

    Raises:
        RarrgError: The file is missing or is no JSON, or a key occurs twice.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")  # as some editors save it
        return json.loads(text, object_pairs_hook=partial(_unique, str(path)) if unique else None)
    except OSError as error:
        raise RarrgError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise RarrgError(f"{path}: is not valid JSON ({error})") from error


def _unique(where: str, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        name = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise RarrgError(f"{where}: {name} occurs twice in one object")
    return found


def jsonl_line(row: dict[str, Any]) -> str:
    """A JSON object as a line of a JSONL file."""
    return json.dumps(row, ensure_ascii=False) + "\n"


def write_jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write one JSON object a line, atomically."""
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(jsonl_line(row))


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Read one JSON object a line; blank lines are passed over.

    Raises:
        RarrgError: The file is missing, or a line (named by its number) is no JSON object.
    """
    return list(iterate_jsonl(path))


def iterate_jsonl(path: Path, unique: bool = False) -> Iterator[dict[str, Any]]:
    """Read one JSON object a line as :func:`read_jsonl` does, one at a time; ``unique`` as :func:`read_json` has it."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                where = f"{path}, line {number}"
                try:
                    row = json.loads(line, object_pairs_hook=partial(_unique, where) if unique else None)
                except json.JSONDecodeError as error:
                    raise RarrgError(f"{where}: is not valid JSON ({error})") from error
                if not isinstance(row, dict):
                    raise RarrgError(f"{where}: is not a JSON object")
                yield row
    except OSError as error:
        raise RarrgError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise RarrgError(f"{path}: is not UTF-8 text") from error


@dataclass(frozen=True)
class Manifest:
    """What an artefact folder is and which bytes belong to it.

    Attributes:
        name: What the artefact is, as ``phrase-store``.
        version: Version of the artefact's format.
        sha256: Checksum of each file of the folder, by file name.
        created: UTC time, ISO 8601.
        made_by: The program and its version.
        details: Facts that a loader compares, as the text encoder and its dimension.
    """

    name: str
    version: int
    sha256: dict[str, str]
    created: str
    made_by: str
    details: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, name: str, version: int, files: Iterable[str], details: dict[str, Any]) -> Manifest:
        """Describe the named files of a folder as they are now."""
        from rarrg import __version__

        return cls(
            name=name,
            version=version,
            sha256={file: sha256_of(folder / file) for file in files},
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            made_by=f"rarrg {__version__}",
            details=details,
        )

    def save(self, folder: Path) -> None:
        """Write ``manifest.json`` into the folder, atomically."""
        write_json(folder / MANIFEST, asdict(self))

    @classmethod
    def load(cls, folder: Path, name: str, version: int) -> Manifest:
        """Read a folder's manifest and check that it is of the expected kind.

        Raises:
            RarrgError: No manifest, a malformed one, or one of another artefact or format version.
        """
        path = folder / MANIFEST
        value = read_json(path)
        try:
            manifest = cls(**value)
        except TypeError as error:
            raise RarrgError(f"{path}: is not a manifest ({error})") from error
        if not (isinstance(manifest.sha256, dict) and isinstance(manifest.details, dict)):
            raise RarrgError(f"{path}: is not a manifest (sha256 and details must be objects)")
        if (manifest.name, manifest.version) != (name, version):
            raise RarrgError(
                f"{path}: describes {manifest.name} version {manifest.version}, expected {name} version {version}"
            )
        return manifest

    def verify(self, folder: Path) -> None:
        """Check every file's checksum.

        Raises:
            RarrgError: A file is missing or differs from what the manifest recorded.
        """
        for file, expected in self.sha256.items():
            path = folder / file
            if not path.is_file():
                raise RarrgError(f"{path}: is missing, although {folder / MANIFEST} lists it")
            found = sha256_of(path)
            if found != expected:
                raise RarrgError(
                    f"{path}: changed since it was written (sha256 {found[:12]}, manifest says {expected[:12]})"
                )
