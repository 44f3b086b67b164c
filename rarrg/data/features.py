"""Frozen-encoder features of images, computed once and read from memory-mapped arrays ever after.

A cache folder belongs to one fused encoder (its weights, preprocessing and sizes, by fingerprint). It holds shards,
``NAME.npy`` of shape [images, channels, height, width] in float16 beside ``NAME.json`` with the images' keys, and a
manifest. A shard counts once its ``.json`` is there, which is written last: a killed run loses at most the shard in
flight and goes on from the others.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from rarrg.artifacts import MANIFEST, Manifest, atomic_write, read_json, write_json
from rarrg.data.images import read_image
from rarrg.data.screening import image_key
from rarrg.errors import RarrgError
from rarrg.models.vision import FusedEncoder
from rarrg.types import View

SHARD_BYTES = 256 * 2**20


class FeatureCache:
    """Features of images under one fused encoder.

    Args:
        root: Folder of all caches; this encoder's lies in ``root/features/FINGERPRINT``.
        encoder: The frozen encoders; run for images that the cache lacks.

    Raises:
        RarrgError: The folder holds something else.
    """

    def __init__(self, root: Path, encoder: FusedEncoder) -> None:
        self.encoder = encoder
        self.folder = root / "features" / encoder.fingerprint
        self.shape = (encoder.channels, *encoder.grid)
        self._rows: dict[str, tuple[str, int]] = {}
        self._arrays: dict[str, np.ndarray] = {}
        if (self.folder / MANIFEST).is_file():
            details = Manifest.load(self.folder, "feature-cache", 1).details
            if details["shape"] != list(self.shape):
                raise RarrgError(f"{self.folder}: holds features of shape {details['shape']}, expected {self.shape}")
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            details = {"encoders": encoder.references(), "shape": list(self.shape), "dtype": "float16"}
            Manifest.of(self.folder, "feature-cache", 1, [], details).save(self.folder)
        for index in sorted(self.folder.glob("*.json")):
            if index.name != MANIFEST:
                self._index(index.stem, read_json(index))

    def _index(self, shard: str, keys: Sequence[str]) -> None:
        self._rows.update({key: (shard, row) for row, key in enumerate(keys)})

    def build(self, views: Sequence[View], device: torch.device, batch_size: int = 8) -> None:
        """Compute what is missing, shard by shard.

        Args:
            views: Readable images.
            device: Where the encoders run.
            batch_size: Images a forward pass.

        Raises:
            ImageError: An image cannot be read.
        """
        pending = {key: view for view in views if (key := image_key(view.path)) not in self._rows}
        if not pending:
            return
        keys = list(pending)
        rows = max(1, SHARD_BYTES // (2 * int(np.prod(self.shape))))
        self.encoder.to(device)
        with (
            ThreadPoolExecutor(os.cpu_count()) as pool,
            tqdm(total=len(keys), desc="computing image features", unit="image") as bar,
        ):
            for start in range(0, len(keys), rows):
                shard = keys[start : start + rows]
                features = np.empty((len(shard), *self.shape), np.float16)
                for first in range(0, len(shard), batch_size):
                    batch = shard[first : first + batch_size]
                    images = pool.map(self._pixels, (pending[key].path for key in batch))
                    pixels = [torch.stack(tensors).to(device) for tensors in zip(*images, strict=True)]
                    computed = self.encoder(pixels).half().cpu()
                    self._refuse_infinite(batch, computed)
                    features[first : first + len(batch)] = computed.numpy()
                    bar.update(len(batch))
                self._write(shard, features)

    def _pixels(self, path: Path) -> tuple[Tensor, ...]:
        return self.encoder.preprocess(read_image(path))

    def _refuse_infinite(self, keys: Sequence[str], features: Tensor) -> None:
        for key, row in zip(keys, features, strict=True):
            if not torch.isfinite(row).all():
                raise RarrgError(
                    f"{key.split('|')[0]}: its features are not finite in float16; set data.cache_features to false, "
                    "or take other encoders"
                )

    def _write(self, keys: Sequence[str], features: np.ndarray) -> None:
        # Named by content: two processes that fill one cache cannot overwrite each other's shard with another's rows.
        name = hashlib.sha256("\n".join(keys).encode()).hexdigest()[:16]
        with atomic_write(self.folder / f"{name}.npy") as temporary, temporary.open("wb") as file:
            np.save(file, features)
        write_json(self.folder / f"{name}.json", list(keys))
        self._index(name, keys)

    def read(self, path: Path) -> Tensor:
        """Features of one image.

        Args:
            path: An image that :meth:`build` was given.

        Returns:
            ``[channels, height, width]``, float16.

        Raises:
            RarrgError: The image is not in the cache, or has changed since.
        """
        try:
            shard, row = self._rows[image_key(path)]
        except (KeyError, OSError) as error:
            raise RarrgError(f"{path}: changed or vanished while training, its features are not cached") from error
        if shard not in self._arrays:
            self._arrays[shard] = np.load(self.folder / f"{shard}.npy", mmap_mode="r")
        return torch.from_numpy(np.array(self._arrays[shard][row]))

    def pooled(self, views: Sequence[View]) -> np.ndarray:
        """Mean of each image's feature map, float32 ``[images, channels]``."""
        return np.stack([self.read(view.path).float().flatten(1).mean(dim=1).numpy() for view in views])
