"""Images on object storage: an address that fsspec knows (``s3://``, ``gs://``, ``https://``) as a file for a while."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import numpy as np

from rarrg.data.images import read_image
from rarrg.errors import ImageError


def is_remote(path: str | Path) -> bool:
    """Whether a path is an address with a protocol."""
    return "://" in str(path)


@contextmanager
def as_file(path: str | Path) -> Iterator[Path]:
    """Give a path as a file of this machine; one of object storage is copied to a temporary folder and removed again.

    Args:
        path: A path, or an address as https://filesystem-spec.readthedocs.io lists them; what a protocol needs beside
            it, as credentials or the package s3fs, is taken from where that package looks for it.

    Raises:
        ImageError: The address cannot be read.
    """
    if not is_remote(path):
        yield Path(path)
        return
    import fsspec

    address = str(path)
    with tempfile.TemporaryDirectory() as folder:
        # Not its name, which a signature may make longer than a file system takes; a suffix tells DICOM.
        copy = Path(folder) / f"image{PurePosixPath(urlsplit(address).path).suffix}"
        try:
            system, place = fsspec.core.url_to_fs(address)
            system.get_file(place, str(copy))
        except ImportError as error:
            raise ImageError(f"{address}: {error}") from error
        # Every protocol has errors of its own, of no common kind.
        except Exception as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise ImageError(f"{address}: cannot be read ({reason})") from error
        yield copy


def read_located(path: str | Path) -> np.ndarray:
    """Read one radiograph from this machine or from object storage, as :func:`rarrg.data.images.read_image` does.

    Args:
        path: A path, or an address of :func:`as_file`.

    Returns:
        Grey levels, uint8 ``[height, width]``.

    Raises:
        ImageError: The image cannot be had or read; the message names the path as it was given.
    """
    with as_file(path) as file:
        try:
            return read_image(file)
        except ImageError as error:
            raise ImageError(str(error).replace(str(file), str(path))) from error
