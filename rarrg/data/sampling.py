"""Which images each step sees: a pure function of the seed and the step, so that a killed run resumes exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from rarrg.data.windows import ReadAhead, Shards, Window
from rarrg.errors import RarrgError


def rarity_weights(labels: np.ndarray, exponent: float) -> Tensor:
    """Sampling weights that draw images with rare findings more often.

    The weight of an image is the largest ``count(finding) ** -exponent`` of its findings; no finding at all counts as
    one more finding. With exponent 1 every finding is drawn about equally often.

    Args:
        labels: Findings of each training image, bool ``[images, findings]``.
        exponent: 0 gives equal weights.

    Returns:
        ``[images]``, float64, mean 1.
    """
    labels = np.concatenate([labels, ~labels.any(axis=1, keepdims=True)], axis=1)
    rarity = labels.sum(axis=0).clip(min=1) ** -float(exponent)
    weights = torch.from_numpy((labels * rarity).max(axis=1))
    return weights / weights.mean()


def shared_batches(images: int, batch_size: int, processes: int = 1) -> list[slice]:
    """Where batches begin and end; a last one with fewer images than processes joins the one before.

    Args:
        images: Number of images.
        batch_size: Images a batch.
        processes: Processes that share each batch.

    Raises:
        RarrgError: There are fewer images than processes, in all or in a batch.
    """
    if min(images, batch_size) < processes:
        raise RarrgError(f"trainer.devices: must be at most the {min(images, batch_size)} images of a batch")
    batches = [slice(start, min(start + batch_size, images)) for start in range(0, images, batch_size)]
    if len(batches) > 1 and batches[-1].stop - batches[-1].start < processes:
        batches[-2:] = [slice(batches[-2].start, images)]
    return batches


class StepwiseBatches(Sampler[list[int]]):
    """Batches of image indices, counted from the number of steps already taken.

    Every epoch is a permutation of all images or, with weights, as many draws with replacement. Its order depends on
    ``(seed, epoch)`` alone, with shards on how they hold the images as well. Iterating starts at the batch after the
    last step taken, so that a run resumed in the middle of an epoch sees the batches that the killed one had left.

    With shards, images are shuffled within windows of them (:mod:`rarrg.data.windows`), which are read ahead.

    Several processes may share each batch; a last one with fewer images than processes joins the one before.

    Args:
        images: Number of images.
        batch_size: Images a batch; the last one may be smaller.
        seed: Seed of the order.
        steps_taken: Gives the number of optimiser steps since the run began.
        weights: ``[images]``, sampling weights; None draws each image once an epoch.
        limit: Most batches an epoch; None takes all.
        part: Rank of this process, and number of processes that share each batch.
        shards: Where images lie, for an order in windows; not together with weights.

    Raises:
        RarrgError: There are fewer images than processes.
    """

    def __init__(
        self,
        images: int,
        batch_size: int,
        seed: int,
        steps_taken: Callable[[], int],
        weights: Tensor | None = None,
        limit: int | None = None,
        part: tuple[int, int] = (0, 1),
        shards: Shards | None = None,
    ) -> None:
        self.images = images
        self.seed = seed
        self.steps_taken = steps_taken
        self.weights = weights
        self.part = part
        self.shards = shards
        self.batches = shared_batches(images, batch_size, part[1])
        self.length = len(self.batches) if limit is None else min(len(self.batches), limit)

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[list[int]]:
        epoch, first = divmod(self.steps_taken(), self.length)
        # One odd multiplier keeps (seed, epoch) pairs apart for any run length in use.
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
        windows: list[Window] = []
        if self.shards is not None:
            order, windows = self.shards.order(generator)
        elif self.weights is None:
            order = torch.randperm(self.images, generator=generator)
        else:
            order = torch.multinomial(self.weights, self.images, replacement=True, generator=generator)
        ahead = ReadAhead(windows)
        rank, processes = self.part
        for batch in self.batches[first : self.length]:
            ahead.before(batch)
            yield order[batch][rank::processes].tolist()


class ResumableLoader(DataLoader[Any]):
    """A loader over :class:`StepwiseBatches`.

    Its position follows from the step count of the run, so its own state is empty; having the two methods tells
    Lightning that resuming within an epoch is sound.
    """

    def state_dict(self) -> dict[str, Any]:
        """Nothing: see the class."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing: see the class."""
