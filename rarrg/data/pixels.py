"""Images at the sizes that encoders take, kept as bytes: what is left of decoding where encoders run in every step.

For each size and interpolation a folder of shards (:mod:`rarrg.data.shards`), uint8 ``[images, 1, side, side]``. They
are the pixels that reading the file would give, whatever the encoder's weights and normalisation.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import Tensor
from tqdm.auto import tqdm

from rarrg.data.images import read_image
from rarrg.data.shards import SHARD_BYTES, ShardFolder
from rarrg.models.vision import FusedEncoder
from rarrg.types import View


class PixelCache:
    """Resized images for one fused encoder; encoders of the same size and interpolation share them.

    Args:
        root: Folder of all caches; images lie in ``root/pixels/SIDE-INTERPOLATION``.
        encoder: The encoders that want them.

    Raises:
        RarrgError: A folder holds something else.
    """

    def __init__(self, root: Path, encoder: FusedEncoder) -> None:
        self.encoder = encoder
        self._names = [f"{each.size}-{each.interpolation}" for each in encoder.preprocessing]
        self._folders = {
            name: ShardFolder(
                root / "pixels" / name,
                "pixel-cache",
                {"shape": [1, each.size, each.size], "dtype": "uint8", "interpolation": each.interpolation},
                ["pixels"],
            )
            for name, each in zip(self._names, encoder.preprocessing, strict=True)
        }
        self._rows = max(1, SHARD_BYTES // max(each.size**2 for each in encoder.preprocessing))

    def build(self, views: Sequence[View]) -> None:
        """Decode and resize what is missing, shard by shard.

        Args:
            views: Readable images.

        Raises:
            ImageError: An image cannot be read.
        """
        lacking = {name: folder.missing(views) for name, folder in self._folders.items()}
        pending = {key: path for missing in lacking.values() for key, path in missing.items()}
        keys = list(pending)
        if not keys:
            return
        with (
            ThreadPoolExecutor(os.cpu_count()) as pool,
            tqdm(total=len(keys), desc="resizing images", unit="image") as bar,
        ):
            for start in range(0, len(keys), self._rows):
                shard = keys[start : start + self._rows]
                resized: dict[str, tuple[Tensor, ...]] = {}
                for key, squares in zip(shard, pool.map(self._resized, (pending[key] for key in shard)), strict=True):
                    resized[key] = squares
                    bar.update()
                for name, folder in self._folders.items():
                    place = self._names.index(name)
                    mine = [key for key in shard if key in lacking[name]]
                    if mine:
                        folder.write(mine, [torch.stack([resized[key][place] for key in mine]).numpy()])

    def _resized(self, path: Path) -> tuple[Tensor, ...]:
        return self.encoder.resize(read_image(path))

    def read(self, path: Path) -> tuple[Tensor, ...]:
        """The squares of an image, one for each encoder, as they lie on disk.

        Args:
            path: An image that :meth:`build` was given.

        Returns:
            uint8 ``[1, side, side]`` for each encoder.

        Raises:
            RarrgError: The image is not in the cache, or has changed since.
        """
        squares = {name: folder.read(path)[0] for name, folder in self._folders.items()}
        return tuple(squares[name] for name in self._names)

    def files_of(self, path: str | Path) -> tuple[Path, ...]:
        """The files that hold an image's squares; errors are those of :meth:`read`."""
        return tuple(file for folder in self._folders.values() for file in folder.files_of(path))
