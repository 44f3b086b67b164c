from __future__ import annotations

from pathlib import Path

import torch

from rarrg.config import DataConfig
from rarrg.data.datamodule import PhraseDataModule
from rarrg.data.studies import Example
from rarrg.types import View

IDS = {"clear lungs": 0, "cardiomegaly": 1, "nodule": 2}


def example(name: str, *phrases: str) -> Example:
    return Example(View(name, "frontal", name), name, phrases)


def read(path: Path) -> tuple[torch.Tensor, ...]:
    return (torch.full((3,), float(path.name)),)


def module(train: list[Example], limit: int | None = None) -> PhraseDataModule:
    return PhraseDataModule(train, train[:1], IDS, read, DataConfig(batch_size=2), None, 0, limit)


def test_a_batch_pads_phrases_and_counts_them() -> None:
    data = module([example("1", "clear lungs"), example("2", "nodule", "cardiomegaly", "clear lungs")])
    batch = next(iter(data.train_dataloader()))
    images = batch.images[0][:, 0].tolist()
    rows = dict(zip(images, zip(batch.phrases, batch.counts, strict=True), strict=True))
    assert rows[1.0][0].tolist() == [0, 0, 0]
    assert rows[1.0][1] == 1
    assert rows[2.0][0].tolist() == [2, 1, 0]
    assert rows[2.0][1] == 3


def test_test_images_need_no_known_phrase() -> None:
    data = module([example("1", "clear lungs")])
    batch = next(iter(data.test_loader([example("7", "never seen in training"), example("8")])))
    assert batch.counts.tolist() == [0, 0]
    assert batch.phrases.shape == (2, 0)
    assert batch.images[0][:, 0].tolist() == [7, 8]


def test_steps_per_epoch() -> None:
    examples = [example(str(i), "nodule") for i in range(5)]
    assert module(examples).steps_per_epoch == 3
    assert module(examples, limit=2).steps_per_epoch == 2
