"""What the dashboards show beside the figures of the training module: speed, threshold sweep, queries, images."""

from __future__ import annotations

import csv
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import lightning as L
import numpy as np
import wandb
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import WandbLogger
from PIL import Image
from torch import Tensor

from rarrg.artifacts import atomic_write
from rarrg.data.datamodule import Batch
from rarrg.data.images import read_image
from rarrg.data.studies import Example
from rarrg.monitoring import PhraseTable, Validation, query_usage, sweep
from rarrg.training import RetrieverModule

SWEEP = "sweep.csv"
QUERIES = "queries.csv"
Shown = Literal["images", "phrases"] | None
SHOWN_IMAGES = 16
SHOWN_SIDE = 256


class Throughput(Callback):
    """Logs ``train/images_per_second`` and ``train/data_wait``, the share of the time in which no step was running.

    Both are taken over the steps since they were last logged. Validation and checkpoints at the end of an epoch are
    left out.

    Args:
        every: Steps between logged figures, as the trainer's.
    """

    def __init__(self, every: int) -> None:
        self.every = every
        self._mark = 0.0
        self._images = 0
        self._seconds = 0.0
        self._waited = 0.0

    def _lap(self) -> float:
        now = time.perf_counter()
        passed, self._mark = now - self._mark, now
        self._seconds += passed
        return passed

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Start the clock; a run that resumes within an epoch has no start of that epoch."""
        self._mark = time.perf_counter()

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Start the clock again, after the last epoch's validation."""
        self._mark = time.perf_counter()

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Batch, batch_idx: int
    ) -> None:
        """What has passed since the last step was spent waiting for this batch."""
        self._waited += self._lap()

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Tensor | Mapping[str, Any] | None,
        batch: Batch,
        batch_idx: int,
    ) -> None:
        """Count the step; log where Lightning writes this step's figures."""
        self._lap()
        self._images += len(batch.counts) * trainer.world_size
        if trainer.global_step % self.every == 0:
            pl_module.log("train/images_per_second", self._images / self._seconds)
            pl_module.log("train/data_wait", self._waited / self._seconds)
            self._images, self._seconds, self._waited = 0, 0.0, 0.0


class Dashboard(Callback):
    """After each validation: ``sweep.csv`` and ``queries.csv`` in the run folder, and the same as charts in W&B.

    Args:
        out: Run folder.
        examples: The validation images, in their order.
        shown: What W&B shows of a fixed sample of them: ``images`` with their own and their retrieved phrases,
            ``phrases`` alone, or None for nothing.
        seed: Seed of the sample.
    """

    def __init__(self, out: Path, examples: Sequence[Example], shown: Shown, seed: int) -> None:
        self.out = out
        self._images = shown == "images"
        sample = np.random.default_rng(seed).permutation(len(examples))[: SHOWN_IMAGES if shown else 0]
        self._shown = {index: examples[index] for index in sorted(sample.tolist())}

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Write the files and, where W&B is on, log the charts and the table of images."""
        if not trainer.is_global_zero:
            return
        assert isinstance(pl_module, RetrieverModule)
        validation, phrases = pl_module.validation, pl_module.phrases
        swept = sweep(validation, phrases)
        usage = query_usage(validation, pl_module.threshold)
        _append(self.out / SWEEP, trainer.current_epoch, swept)
        _append(self.out / QUERIES, trainer.current_epoch, usage)
        for logger in trainer.loggers:
            if isinstance(logger, WandbLogger):
                panels = _charts(swept, usage)
                if self._shown:
                    panels[f"val/{'images' if self._images else 'phrases'}"] = self._shown_table(
                        validation, phrases, pl_module.threshold
                    )
                # The step that Lightning gives this validation's figures.
                logger.log_metrics(panels, step=trainer.global_step - 1)

    def _shown_table(self, validation: Validation, phrases: PhraseTable, threshold: float) -> wandb.Table:
        chosen = validation.retrieves(threshold)
        probabilities = validation.logits.sigmoid().numpy()
        of_image = ["image", "image_id"] if self._images else []
        table = wandb.Table(columns=[*of_image, "view", "reference phrases", "retrieved phrases"])
        for index, example in self._shown.items():
            queries = np.flatnonzero(chosen[index])
            retrieved: dict[str, str] = {}
            for query in queries[np.argsort(-probabilities[index, queries], kind="stable")]:
                text = phrases.texts[validation.retrieved[index, query]]
                probability, similarity = probabilities[index, query], validation.similarities[index, query]
                retrieved.setdefault(text, f"{text} (probability {probability:.2f}, similarity {similarity:.2f})")
            image = [wandb.Image(_thumbnail(example.view.path)), example.view.image_id] if self._images else []
            wording = ["\n".join(example.phrases), "\n".join(retrieved.values())]
            table.add_data(*image, example.view.position, *wording)
        return table


def _thumbnail(path: Path) -> Image.Image:
    image = Image.fromarray(read_image(path))
    image.thumbnail((SHOWN_SIDE, SHOWN_SIDE))
    return image


def _append(path: Path, epoch: int, rows: Sequence[Mapping[str, float]]) -> None:
    """Add an epoch's rows to a file; what a killed run wrote of this epoch or later ones gives way."""
    kept: list[dict[str, Any]] = []
    if path.is_file():
        with path.open(encoding="utf-8", newline="") as file:
            kept = [row for row in csv.DictReader(file) if int(row["epoch"]) < epoch]
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["epoch", *rows[0]])
        writer.writeheader()
        writer.writerows([*kept, *({"epoch": epoch} | dict(row) for row in rows)])


def _charts(swept: Sequence[Mapping[str, float]], usage: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    counts = ("phrases_per_image", "distinct_phrases", "distinct_reports")
    shares = [name for name in swept[0] if name not in ("threshold", *counts)]
    charts: dict[str, Any] = {
        "val/sweep": wandb.plot.line_series(
            xs=[row["threshold"] for row in swept],
            ys=[[row[name] for row in swept] for name in shares],
            keys=shares,
            title="Threshold sweep",
            xname="threshold",
        )
    }
    for name in counts:
        title = f"{name.replace('_', ' ').capitalize()} by threshold"
        charts[f"val/sweep_{name}"] = wandb.plot.line(_table(swept), "threshold", name, title=title)
    charts["val/query_selected"] = wandb.plot.bar(
        _table(usage), "query", "selected", title="Share of images in which a query retrieves"
    )
    charts["val/query_distinct_phrases"] = wandb.plot.bar(
        _table(usage), "query", "distinct_phrases", title="Different phrases that a query retrieves"
    )
    return charts


def _table(rows: Sequence[Mapping[str, float]]) -> wandb.Table:
    return wandb.Table(columns=list(rows[0]), data=[list(row.values()) for row in rows])
