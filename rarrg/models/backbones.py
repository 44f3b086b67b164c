"""What an image network is to its users: the network, how its map is had, and what its pixels went through."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor, nn

from rarrg.artifacts import read_json
from rarrg.errors import RarrgError
from rarrg.models.preprocessing import Preprocessing

TIMM_CONFIG = "config.json"
"""The file that tells a timm model's folder, by timm's name."""


class Backbone(NamedTuple):
    """A network and what it takes to use it.

    Attributes:
        network: The network, with its weights, float32.
        features: Maps the network and pixels ``[batch, 3, size, size]`` to ``[batch, channels, height, width]``.
        channels: Channels of the map.
        grid: Height and width of the map.
        preprocessing: What the pixels must have gone through.
        revision: Commit of a hub model, None elsewhere.
        architecture: What the output depends on besides weights and preprocessing, as JSON can hold it.
    """

    network: nn.Module
    features: Callable[[nn.Module, Tensor], Tensor]
    channels: int
    grid: tuple[int, int]
    preprocessing: Preprocessing
    revision: str | None
    architecture: dict[str, Any]


def is_timm_folder(folder: Path) -> bool:
    """Whether a folder holds a timm model: a ``config.json`` that names timm's architecture."""
    config = folder / TIMM_CONFIG
    if not config.is_file():
        return False
    held = read_json(config)
    return isinstance(held, dict) and "architecture" in held


def to_map(tokens: Tensor, grid: tuple[int, int]) -> Tensor:
    """``[batch, height * width, channels]``, row by row, to ``[batch, channels, height, width]``."""
    return tokens.transpose(1, 2).unflatten(2, grid)


def patch_grid(spec: str, size: int, patch: int) -> tuple[int, int]:
    """Rows and columns of patches.

    Args:
        spec: The encoder's name in messages.
        size: Input side in pixels.
        patch: Side of a patch in pixels.

    Raises:
        RarrgError: ``size`` is not a multiple of ``patch``.
    """
    if size % patch:
        below, above = size // patch * patch, (size // patch + 1) * patch
        raise RarrgError(
            f"{spec}: size {size} is not a multiple of its patch of {patch} pixels; "
            f"take {f'{below} or ' if below else ''}{above}"
        )
    return size // patch, size // patch


def three(values: Any) -> tuple[float, float, float]:
    """A number for each of three channels.

    Raises:
        TypeError: A value is no number, or ``values`` is no sequence.
        ValueError: There are more or fewer than three.
    """
    red, green, blue = map(float, values)
    return red, green, blue
