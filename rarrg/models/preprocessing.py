"""What a vision encoder wants done to a grey image before it sees it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as transforms


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
        # Resized as uint8, as the encoders' own processors do: float bicubic would overshoot 0 and 255.
        pixels: Tensor = transforms.resize(
            torch.tensor(image)[None],
            [self.size, self.size],
            interpolation=InterpolationMode(self.interpolation),
            antialias=True,
        )
        return pixels

    def normalised(self, pixels: Tensor) -> Tensor:
        """What the network takes: uint8 ``[1, size, size]`` to float32 ``[3, size, size]``."""
        scaled = (pixels.float() / 255).expand(3, -1, -1)
        return (scaled - torch.tensor(self.mean).view(3, 1, 1)) / torch.tensor(self.std).view(3, 1, 1)
