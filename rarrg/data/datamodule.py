"""Batches of images and their phrases for Lightning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import lightning as L
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from rarrg.config import DataConfig
from rarrg.data.sampling import ResumableLoader, StepwiseBatches, shared_batches
from rarrg.data.studies import Example
from rarrg.data.windows import Shards
from rarrg.errors import RarrgError

Reader = Callable[[Path], tuple[Tensor, ...]]
"""Gives the tensors of an image: its features as they are cached, or its uint8 pixels for each encoder."""


class Batch(NamedTuple):
    """Images and the key phrases of their studies.

    Attributes:
        images: One uint8 tensor ``[batch, 1, side, side]`` an encoder, or what the feature cache holds.
        phrases: Rows of the phrase table, ``[batch, most phrases]``, padded with 0 past ``counts``.
        counts: Number of phrases of each image, ``[batch]``.
    """

    images: tuple[Tensor, ...]
    phrases: Tensor
    counts: Tensor


class ExampleDataset(Dataset[tuple[tuple[Tensor, ...], Tensor]]):
    """Images with the ids of their phrases.

    Args:
        examples: The images.
        phrase_ids: Phrase -> row of the phrase table.
        reader: Reads an image's tensors.
    """

    def __init__(self, examples: Sequence[Example], phrase_ids: Mapping[str, int], reader: Reader) -> None:
        self.examples = examples
        self.phrase_ids = phrase_ids
        self.reader = reader

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: int) -> tuple[tuple[Tensor, ...], Tensor]:
        example = self.examples[index]
        ids = torch.tensor([self.phrase_ids[phrase] for phrase in example.phrases], dtype=torch.long)
        return self.reader(example.view.path), ids


def collate(items: Sequence[tuple[tuple[Tensor, ...], Tensor]]) -> Batch:
    """Stack images and pad phrase ids."""
    images, ids = zip(*items, strict=True)
    return Batch(
        # torch's own collation stacks into shared memory in a worker; what is mapped from disk is copied here alone.
        images=tuple(default_collate(list(tensors)) for tensors in zip(*images, strict=True)),
        phrases=torch.nn.utils.rnn.pad_sequence(list(ids), batch_first=True),
        counts=torch.tensor([len(row) for row in ids]),
    )


class PhraseDataModule(L.LightningDataModule):
    """Training and validation batches.

    Args:
        train: Training images, each with at least one phrase.
        val: Validation images, each with at least one phrase.
        phrase_ids: Phrase -> row of the phrase table.
        reader: Reads an image's tensors.
        config: Batch size and workers.
        weights: Sampling weights of the training images, ``[images]``; None draws each once an epoch.
        seed: Seed of the order of images.
        limit_batches: Most batches an epoch; None takes all.
        devices: Processes that share each training batch.
        shards: Where training images lie, for an order in windows.
    """

    def __init__(
        self,
        train: Sequence[Example],
        val: Sequence[Example],
        phrase_ids: Mapping[str, int],
        reader: Reader,
        config: DataConfig,
        weights: Tensor | None,
        seed: int,
        limit_batches: int | None,
        devices: int = 1,
        shards: Shards | None = None,
    ) -> None:
        super().__init__()
        self.train = ExampleDataset(train, phrase_ids, reader)
        self.val = ExampleDataset(val, phrase_ids, reader)
        self.reader = reader
        self.config = config
        self.weights = weights
        self.seed = seed
        self.limit_batches = limit_batches
        self.devices = devices
        self.shards = shards

    @property
    def steps_per_epoch(self) -> int:
        """Optimiser steps of one pass over the training images."""
        return len(self._batches((0, self.devices)))

    def _part(self) -> tuple[int, int]:
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer is not None else (0, 1)

    def _batches(self, part: tuple[int, int]) -> StepwiseBatches:
        return StepwiseBatches(
            len(self.train),
            self.config.batch_size,
            self.seed,
            lambda: self.trainer.global_step if self.trainer is not None else 0,
            self.weights,
            self.limit_batches,
            part,
            self.shards,
        )

    def state_dict(self) -> dict[str, Any]:
        """What the order of images follows from besides seed and step; Lightning keeps it in checkpoints."""
        return {"shards": None if self.shards is None else self.shards.digest}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Refuse to go on in another order.

        Raises:
            RarrgError: The cache holds the images in other shards than when the run began.
        """
        if state != self.state_dict():
            raise RarrgError(
                "data.cache: holds the images in other shards than when the run began, so that its order of images "
                "cannot go on; resume with that cache, or start anew in another --out folder"
            )

    def train_dataloader(self) -> ResumableLoader:
        """Training batches in the order of the seed and step."""
        return ResumableLoader(
            self.train,
            batch_sampler=self._batches(self._part()),
            collate_fn=collate,
            num_workers=self.config.num_workers,
            pin_memory=torch.cuda.is_available(),
        )

    def val_dataloader(self) -> DataLoader[tuple[tuple[Tensor, ...], Tensor]]:
        """Validation batches in the order of the data set."""
        return self._in_order(self.val)

    def test_loader(self, examples: Sequence[Example]) -> DataLoader[tuple[tuple[Tensor, ...], Tensor]]:
        """Images alone, in their order; their phrases may be unknown to the table and are left out."""
        return self._in_order(ExampleDataset([replace(example, phrases=()) for example in examples], {}, self.reader))

    def _in_order(self, dataset: ExampleDataset) -> DataLoader[tuple[tuple[Tensor, ...], Tensor]]:
        rank, processes = self._part()
        options: dict[str, Any] = {"batch_size": self.config.batch_size}
        if processes > 1:
            places = range(len(dataset))
            batches = shared_batches(len(dataset), self.config.batch_size, processes)
            options = {"batch_sampler": [places[batch][rank::processes] for batch in batches]}
        return DataLoader(
            dataset,
            collate_fn=collate,
            num_workers=self.config.num_workers,
            pin_memory=torch.cuda.is_available(),
            **options,
        )
