"""Frozen-encoder features of images, computed once and read from memory-mapped arrays ever after.

A cache folder belongs to one fused encoder (its weights, preprocessing and sizes, by fingerprint) and one type. It
holds shards (:mod:`rarrg.data.shards`) of features ``[images, channels, height, width]``, in float16 or in int8 beside
the ``scale`` of each channel of an image, float32 ``[images, channels]``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from rarrg.data.images import read_image
from rarrg.data.shards import SHARD_BYTES, ShardFolder
from rarrg.devices import encoder_threads
from rarrg.errors import RarrgError
from rarrg.models.vision import FusedEncoder
from rarrg.overlapping import ahead
from rarrg.types import View


def compress(features: Tensor) -> tuple[Tensor, Tensor]:
    """Features in a byte each: every channel of an image is divided by a scale of its own and rounded.

    Args:
        features: ``[..., channels, height, width]``, finite.

    Returns:
        int8 of the same shape, from -127 to 127, and the scale, float32 ``[..., channels]``; their product is within
        half a scale, the 254th part of the channel's largest magnitude.
    """
    scale = features.float().abs().amax(dim=(-2, -1)) / 127
    divisor = torch.where(scale > 0, scale, torch.ones_like(scale))[..., None, None]
    return (features.float() / divisor).round().to(torch.int8), scale


def expand(stored: Sequence[Tensor]) -> Tensor:
    """Features as the retriever takes them, from what a cache holds of one image or of a batch.

    Args:
        stored: Features in float16; or those of :func:`compress` and their scale.

    Returns:
        ``[..., channels, height, width]``, float32.
    """
    features = stored[0].float()
    return features if len(stored) == 1 else features * stored[1][..., None, None]


class FeatureCache:
    """Features of images under one fused encoder.

    Args:
        root: Folder of all caches; this encoder's lies in ``root/features/FINGERPRINT``, with ``-int8`` behind it
            where they are so kept.
        encoder: The frozen encoders; run for images that the cache lacks.
        dtype: How features are kept.

    Raises:
        RarrgError: The folder holds something else.
    """

    def __init__(self, root: Path, encoder: FusedEncoder, dtype: Literal["float16", "int8"] = "float16") -> None:
        self.encoder = encoder
        self.dtype = dtype
        self.shape = (encoder.channels, *encoder.grid)
        self.folder = root / "features" / (encoder.fingerprint + ("" if dtype == "float16" else f"-{dtype}"))
        details = {"encoders": encoder.references(), "shape": list(self.shape), "dtype": dtype}
        parts = ["features"] if dtype == "float16" else ["features", "scale"]
        self._shards = ShardFolder(self.folder, "feature-cache", details, parts)

    def build(self, views: Sequence[View], device: torch.device, batch_size: int = 8) -> None:
        """Compute what is missing, shard by shard; the next images are read while others are encoded.

        Args:
            views: Readable images.
            device: Where the encoders run.
            batch_size: Images a forward pass on a GPU. A processor takes each by itself: a batch's activations leave
                its cache, which costs a sixth of the time of a DINOv2-B.

        Raises:
            ImageError: An image cannot be read.
        """
        pending = self._shards.missing(views)
        if not pending:
            return
        together = 1 if device.type == "cpu" else batch_size
        size = (2 if self.dtype == "float16" else 1) * int(np.prod(self.shape)) * together
        batches_a_shard = max(1, SHARD_BYTES // size)
        self.encoder.to(device)

        def read(key: str) -> tuple[str, tuple[Tensor, ...]]:
            return key, self.encoder.preprocess(read_image(pending[key]))

        def encode(given: list[tuple[str, tuple[Tensor, ...]]]) -> tuple[list[str], tuple[Tensor, ...]]:
            batch = [key for key, _ in given]
            pixels = [torch.stack(tensors).to(device) for tensors in zip(*(images for _, images in given), strict=True)]
            stored = self._stored(batch, self.encoder(pixels))
            bar.update(len(batch))
            return batch, stored

        with (
            encoder_threads(device) as (encoders, alone),
            tqdm(total=len(pending), desc="computing image features", unit="image") as bar,
        ):
            readers = os.cpu_count() or 1
            resized = ahead(read, pending, readers, readers + together, alone)
            batches = iter(lambda: list(islice(resized, together)), [])
            encoded = ahead(encode, batches, encoders, encoders + 1, alone)
            while shard := list(islice(encoded, batches_a_shard)):
                keys = [key for batch, _ in shard for key in batch]
                parts = zip(*(tensors for _, tensors in shard), strict=True)
                self._shards.write(keys, [torch.cat(part).numpy() for part in parts])

    def _stored(self, keys: Sequence[str], features: Tensor) -> tuple[Tensor, ...]:
        computed = features.half().cpu() if self.dtype == "float16" else features.cpu()
        for key, row in zip(keys, computed, strict=True):
            if not torch.isfinite(row).all():
                raise RarrgError(
                    f"{key.split('|')[0]}: its features are not finite in {self.dtype}; set data.cache_features to "
                    "false, or take other encoders"
                )
        return (computed,) if self.dtype == "float16" else compress(computed)

    def stored(self, path: Path) -> tuple[Tensor, ...]:
        """What the cache holds of an image, as it lies on disk; :func:`expand` makes features of it, or of a batch.

        Args:
            path: An image that :meth:`build` was given.

        Raises:
            RarrgError: The image is not in the cache, or has changed since.
        """
        return self._shards.read(path)

    def files_of(self, path: str | Path) -> tuple[Path, ...]:
        """The files that hold an image's features; errors are those of :meth:`stored`."""
        return self._shards.files_of(path)

    def read(self, path: Path) -> Tensor:
        """Features of one image.

        Args:
            path: An image that :meth:`build` was given.

        Returns:
            ``[channels, height, width]``, float16.

        Raises:
            RarrgError: The image is not in the cache, or has changed since.
        """
        return expand(self.stored(path)).half()

    def pooled(self, views: Sequence[View]) -> np.ndarray:
        """Mean of each image's feature map, float32 ``[images, channels]``."""
        return np.stack([expand(self.stored(view.path)).flatten(1).mean(dim=1).numpy() for view in views])
