"""What a linear classifier reads in a map: the mean and maximum of each channel, weighed and summed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

READING = "classifier.safetensors"
"""The file of a linear reading."""


class LinearReading(NamedTuple):
    """Logits of classes from the pooled channels of a map.

    Attributes:
        weight: float32 ``[classes, channels]``.
        bias: float32 ``[classes]``.
    """

    weight: Tensor
    bias: Tensor

    @classmethod
    def of(cls, normalisation: nn.BatchNorm1d, linear: nn.Linear, classes: int) -> LinearReading:
        """The first classes of a linear layer, taken together with the batch norm before it as it is in evaluation.

        Args:
            normalisation: Batch norm with running statistics, a scale and an offset.
            linear: Linear layer over the same channels.
            classes: How many of its outputs.
        """
        mean, variance = normalisation.running_mean, normalisation.running_var
        assert mean is not None
        assert variance is not None
        weight, bias = linear.weight.detach().double()[:classes], linear.bias.detach().double()[:classes]
        scale = normalisation.weight.detach().double() / (variance.double() + normalisation.eps).sqrt()
        offset = normalisation.bias.detach().double() - mean.double() * scale
        return cls((weight * scale).float().cpu(), (weight @ offset + bias).float().cpu())

    @classmethod
    def mean(cls, readings: Sequence[LinearReading], before: int = 0) -> LinearReading:
        """The mean of the logits of several readings, each of the channels of an encoder of its own.

        Args:
            readings: In the order of the encoders' channels.
            before: Channels before the first, which none reads.
        """
        weight = torch.cat([reading.weight for reading in readings], dim=1) / len(readings)
        bias = torch.stack([reading.bias for reading in readings]).mean(dim=0)
        return cls(nn.functional.pad(weight, (before, 0)), bias)

    def save(self, folder: Path) -> str:
        """Write the reading into a folder, and return the name of its file.

        Raises:
            OSError: It cannot be written.
        """
        (folder / READING).write_bytes(save(self._asdict()))
        return READING

    @classmethod
    def load(cls, folder: Path) -> LinearReading:
        """Read what :meth:`save` wrote."""
        return cls(**load_file(folder / READING))


def pooled(features: Tensor) -> Tensor:
    """Mean of each channel's mean and maximum: ``[batch, channels, height, width]`` to ``[batch, channels]``."""
    return (features.mean(dim=(2, 3)) + features.amax(dim=(2, 3))) / 2
