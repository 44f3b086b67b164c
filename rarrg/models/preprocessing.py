"""What a vision encoder wants done to a grey image before it sees it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Preprocessing:
    """Resizing and normalisation. The whole image is squashed to a square; nothing is cropped.

    Attributes:
        size: Side in pixels.
        mean: Mean of each channel, for values in [0, 1].
        std: Deviation of each channel.
        interpolation: ``nearest``, ``bilinear`` or ``bicubic``, antialiased.
    """

    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    interpolation: str

    def __call__(self, image: np.ndarray) -> Tensor:
        """Resize, copy the grey channel three times, normalise.

        Args:
            image: uint8 ``[height, width]``.

        Returns:
            float32 ``[3, size, size]``.
        """
        return self.normalised(self.resized(image))

    def resized(self, image: np.ndarray) -> Tensor:
        """The image as a square: uint8 ``[height, width]`` to uint8 ``[1, size, size]``."""
        # Resized as uint8, as the encoders' own processors do: float bicubic would overshoot 0 and 255. torchvision's
        # resize does no more than this, and its import takes as long as torch's.
        return F.interpolate(
            torch.tensor(image)[None, None],
            size=(self.size, self.size),
            mode=self.interpolation,
            antialias=self.interpolation != "nearest",
        )[0]

    def normalised(self, pixels: Tensor) -> Tensor:
        """What the network takes: uint8 ``[..., 1, size, size]`` to float32 ``[..., 3, size, size]``."""
        mean, std = (torch.tensor(values, device=pixels.device).view(3, 1, 1) for values in (self.mean, self.std))
        return (pixels.float() / 255 - mean) / std
