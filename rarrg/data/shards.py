"""Arrays of images in memory-mapped shards: written once, read a row at a time without a copy.

A shard is ``NAME.npy`` (one array file for each part, the others ``NAME.PART.npy``), a row an image, beside
``NAME.json`` with the images' keys. It counts once its ``.json`` is there, which is written last: a killed run loses at
most the shard in flight and goes on from the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rarrg.artifacts import MANIFEST, Manifest, atomic_write, read_json, write_json
from rarrg.data.screening import image_key
from rarrg.errors import RarrgError
from rarrg.types import View

SHARD_BYTES = 256 * 2**20


class ShardFolder:
    """A folder of shards and its manifest.

    Args:
        folder: The folder; made where it is not there.
        name: What it is, for its manifest.
        details: What a reader of the manifest wants to know; ``shape``, that of an image's first part, is checked.
        parts: Names of an image's arrays; the first stands in ``NAME.npy``.

    Raises:
        RarrgError: The folder holds something else.
    """

    def __init__(self, folder: Path, name: str, details: Mapping[str, Any], parts: Sequence[str]) -> None:
        self.folder = folder
        self._suffixes = ["", *(f".{part}" for part in parts[1:])]
        self._rows: dict[str, tuple[str, int]] = {}
        self._lengths: dict[str, int] = {}
        self._arrays: dict[str, tuple[Tensor, ...]] = {}
        if (folder / MANIFEST).is_file():
            found = Manifest.load(folder, name, 1).details
            if found.get("shape") != list(details["shape"]):
                expected = tuple(details["shape"])
                raise RarrgError(f"{folder}: holds {parts[0]} of shape {found.get('shape')}, expected {expected}")
        else:
            Manifest.of(folder, name, 1, [], dict(details)).save(folder)
        for index in sorted(folder.glob("*.json")):
            if index.name != MANIFEST:
                self._index(index.stem, read_json(index))

    def _index(self, shard: str, keys: Sequence[str]) -> None:
        self._rows.update({key: (shard, row) for row, key in enumerate(keys)})
        self._lengths[shard] = len(keys)

    def missing(self, views: Sequence[View]) -> dict[str, Path]:
        """Key and path of the images that no shard holds, each once."""
        return {key: view.path for view in views if (key := image_key(view.file)) not in self._rows}

    def write(self, keys: Sequence[str], arrays: Sequence[np.ndarray]) -> None:
        """Write a shard.

        Args:
            keys: The images.
            arrays: One array a part, a row an image.
        """
        # Named by content: two processes that fill one cache cannot overwrite each other's shard with another's rows.
        name = hashlib.sha256("\n".join(keys).encode()).hexdigest()[:16]
        for suffix, array in zip(self._suffixes, arrays, strict=True):
            with atomic_write(self.folder / f"{name}{suffix}.npy") as temporary, temporary.open("wb") as file:
                # Not onto the file itself: there numpy writes past Python, and says nothing of a disk that is full.
                np.lib.format.write_array(SimpleNamespace(write=file.write), array, allow_pickle=False)
        write_json(self.folder / f"{name}.json", list(keys))
        self._index(name, keys)

    def read(self, path: Path) -> tuple[Tensor, ...]:
        """The arrays of an image, as they lie on disk: nothing is read before somebody looks.

        Args:
            path: An image that a shard holds.

        Raises:
            RarrgError: No shard holds it, or it has changed since.
        """
        shard, row = self._place(path)
        if shard not in self._arrays:
            # Mapped for writing to memory alone ("c"): tensors do not know of arrays that cannot be written to.
            self._arrays[shard] = tuple(torch.from_numpy(self._mapped(file, shard)) for file in self._files(shard))
        return tuple(array[row] for array in self._arrays[shard])

    def files_of(self, path: str | Path) -> tuple[Path, ...]:
        """The files that hold an image's arrays; errors are those of :meth:`read`."""
        return self._files(self._place(path)[0])

    def _place(self, path: str | Path) -> tuple[str, int]:
        try:
            return self._rows[image_key(path)]
        except (KeyError, OSError) as error:
            raise RarrgError(f"{path}: changed or vanished while training, it is not in {self.folder}") from error

    def _files(self, shard: str) -> tuple[Path, ...]:
        return tuple(self.folder / f"{shard}{suffix}.npy" for suffix in self._suffixes)

    def _mapped(self, file: Path, shard: str) -> np.ndarray:
        try:
            array = np.lib.format.open_memmap(file, mode="c")
        except (OSError, ValueError, SyntaxError, EOFError) as error:
            raise RarrgError(f"{file}: is no array of a cache; delete {shard}.json beside it and run again") from error
        if len(array) != self._lengths[shard]:
            raise RarrgError(
                f"{file}: has {len(array)} rows, {shard}.json {self._lengths[shard]}; delete both and run again"
            )
        return array
