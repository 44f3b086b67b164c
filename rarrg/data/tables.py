"""CSV tables of the data sources, plain or gzipped, with errors that name the file and the line."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from tqdm import tqdm

from rarrg.errors import RarrgError


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Read the named columns of a CSV table, in the order they are named.

    Args:
        path: A UTF-8 table with a header; gzipped where the name ends in ``.gz``.
        columns: Names of the columns wanted; others are passed over.

    Yields:
        The number of the row's last line in the file, and the row's values. Blank lines are passed over.

    Raises:
        RarrgError: The file cannot be read or is no CSV, a column is missing, or a row has another number of fields
            than the header.
    """
    try:
        with _open(path) as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, [])
            missing = [column for column in columns if column not in header]
            if missing:
                raise RarrgError(f"{path}: has no column {missing[0]!r} (columns: {', '.join(header) or 'none'})")
            places = [header.index(column) for column in columns]
            for row in tqdm(reader, desc=path.name, unit=" rows", delay=2, leave=False):
                if not row:
                    continue
                if len(row) != len(header):
                    raise RarrgError(
                        f"{path}, line {reader.line_num}: has {len(row)} fields, the header has {len(header)}"
                    )
                yield reader.line_num, [row[place] for place in places]
    except OSError as error:
        raise RarrgError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (EOFError, zlib.error) as error:
        raise RarrgError(f"{path}: is a broken gzip file ({error})") from error
    except UnicodeDecodeError as error:
        raise RarrgError(f"{path}: is not UTF-8 text") from error
    except csv.Error as error:
        raise RarrgError(f"{path}: is not a valid CSV table ({error})") from error


def _open(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")
