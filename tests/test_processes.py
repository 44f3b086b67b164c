"""Two processes that share the batches of a run end where one process does."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

from rarrg.config import TrainConfig
from rarrg.data.sampling import StepwiseBatches, shared_batches
from rarrg.errors import RarrgError
from rarrg.experiment import train
from rarrg.monitoring import Validation

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(("images", "size", "processes"), [(10, 4, 1), (10, 4, 3), (9, 4, 2), (9, 4, 4), (4, 4, 4)])
def test_parts_of_a_batch_are_the_batch_and_none_is_empty(images: int, size: int, processes: int) -> None:
    parts = [list(StepwiseBatches(images, size, 0, lambda: 0, part=(rank, processes))) for rank in range(processes)]
    assert len({len(part) for part in parts}) == 1
    alone = list(StepwiseBatches(images, size, 0, lambda: 0))
    dealt = [[image for rows in batch for image in rows] for batch in zip(*parts, strict=True)]
    assert all(rows for part in parts for rows in part)
    assert sorted(image for batch in dealt for image in batch) == list(range(images))
    for whole, batch in zip(alone[: len(dealt) - 1], dealt, strict=False):
        assert sorted(whole) == sorted(batch)


def test_more_processes_than_images_are_refused() -> None:
    with pytest.raises(RarrgError, match=r"trainer\.devices: must be at most the 3 images of a batch"):
        shared_batches(10, 3, 4)


def test_a_validation_batch_that_was_dealt_is_in_order_again() -> None:
    images = np.arange(7)
    parts = [
        Validation(
            torch.from_numpy(rows[:, None]).float(), rows[:, None] / 10, rows[:, None], rows[:, None] / 7, list(rows)
        )
        for rows in (images[rank::3] for rank in range(3))
    ]
    whole = Validation.dealt(parts)
    assert whole.logits[:, 0].tolist() == whole.retrieved[:, 0].tolist() == whole.references == images.tolist()
    assert whole.cosines[:, 0].tolist() == (images / 10).tolist()
    assert whole.similarities[:, 0].tolist() == (images / 7).tolist()


@pytest.mark.slow
def test_two_processes_train_the_model_that_one_trains(tiny_config: TrainConfig, tmp_path: Path) -> None:
    one = dataclasses.replace(
        tiny_config,
        # Nothing that processes draw apart.
        text=dataclasses.replace(tiny_config.text, noise=False),
        retriever=dataclasses.replace(tiny_config.retriever, dropout=0.0),
        loss=dataclasses.replace(tiny_config.loss, temperature=0.2, contrastive=1.0),
        # Three images for one process, two for the other.
        data=dataclasses.replace(tiny_config.data, batch_size=5),
        trainer=dataclasses.replace(tiny_config.trainer, epochs=1, precision="32-true", limit_batches=6),
    )
    two = dataclasses.replace(
        one, out=str(tmp_path / "two"), trainer=dataclasses.replace(one.trainer, devices=2, checkpoint_every=2)
    )
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(dataclasses.asdict(two)))
    command = [sys.executable, "train.py", "--config", str(tmp_path / "c.yaml")]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    expected, found = (Path(train(one)), Path(two.out))
    kept = [load_file(folder / "model.safetensors") for folder in (expected, found)]
    for name, value in kept[0].items():
        # Attention does not depend on the bias of its keys, whose gradient is rounding alone.
        if "in_proj_bias" not in name:
            torch.testing.assert_close(kept[1][name], value, rtol=1e-3, atol=5e-5, msg=name)
    # Not what queries select: a tie of the matching goes either way.
    names = ("threshold", "val/loss", "val/similarity", "val/contrastive", "val/findings_micro_f1", "test/images")
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in (expected, found)]
    first, second = ({name: summary[name] for name in names} for summary in summaries)
    assert second == pytest.approx(first, abs=2e-3)
    logs = []
    for folder in (expected, found):
        (path,) = folder.glob("logs/version_*/metrics.csv")
        with path.open(newline="") as file:
            logs.append(list(csv.DictReader(file)))
    for column in ("train/loss", "train/selection", "train/similarity", "train/contrastive", "val/findings_micro_f1"):
        values = [[float(row[column]) for row in log if row[column]] for log in logs]
        assert values[1] == pytest.approx(values[0], abs=1e-4), column
    assert (found / "checkpoints" / "last.ckpt").is_file()
