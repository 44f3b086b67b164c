"""The training step of the phrase retriever, and what Lightning does around it."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback, TQDMProgressBar
from torch import Tensor

from rarrg.artifacts import atomic_write
from rarrg.config import OptimConfig
from rarrg.data.datamodule import Batch
from rarrg.data.features import expand
from rarrg.errors import RarrgError
from rarrg.losses.criterion import Criterion
from rarrg.losses.matching import Matches
from rarrg.models.retriever import PhraseRetriever, RetrieverOutput, select_queries
from rarrg.models.text import add_noise
from rarrg.models.vision import FusedEncoder
from rarrg.monitoring import PhraseTable, Validation, figures, matched_cosine
from rarrg.store.phrase_store import PhraseStore

# Key of the run's configuration in its checkpoints.
SETTINGS = "rarrg_settings"
# Key of the fingerprint of the image encoders.
ENCODER = "rarrg_encoder"
# Key of the fingerprint of images and phrases.
DATA = "rarrg_data"
LAST, BEST = "last.ckpt", "best.ckpt"


def warmup_cosine(step: int, warmup: int, total: int) -> float:
    """Factor of the peak learning rate at a step: linear over the warm-up, then half a cosine down to 0.

    The first step is taken at ``1 / (warmup + 1)`` of the peak, not at 0, so that it is not lost.

    Args:
        step: Optimiser steps taken.
        warmup: Steps of warm-up.
        total: Steps of the whole run.

    Returns:
        A factor in [0, 1].
    """
    if step < warmup:
        return (step + 1) / (warmup + 1)
    progress = min(1.0, (step - warmup) / max(1, total - warmup))
    return 0.5 * (1 + math.cos(math.pi * progress))


class RetrieverModule(L.LightningModule):
    """Trains a :class:`PhraseRetriever` on images and their key phrases.

    Args:
        retriever: The model; its parameters are all that is trained.
        criterion: Matching and loss terms.
        phrases: Every phrase of training and validation.
        groups: Query that each phrase may be matched to, int64 ``[phrases]``; None: any.
        store: Training phrases, which validation retrieves from.
        encoder: Frozen encoders to run in every step; None where batches hold cached features.
        optim: Optimiser settings.
        total_steps: Steps of the whole run, for the cosine.
        threshold: Selection probability above which a query retrieves its phrase.
        noise: Add noise to phrase embeddings in training.
        seed: Seed of noise and dropout.
        settings: The run's configuration as plain values, kept in checkpoints.
        fingerprint: Of the image encoders, kept in checkpoints.
        data_fingerprint: Of images and phrases, kept in checkpoints.

    Attributes:
        validation: What the queries did in the last validation, image by image in the order of the data.

    Where several processes share the batches, each matches its own images; the contrastive term, the logged figures
    and ``validation`` are of all of them.
    """

    phrase_table: Tensor
    groups: Tensor | None
    validation: Validation

    def __init__(
        self,
        retriever: PhraseRetriever,
        criterion: Criterion,
        phrases: PhraseTable,
        groups: Tensor | None,
        store: PhraseStore,
        encoder: FusedEncoder | None,
        optim: OptimConfig,
        total_steps: int,
        threshold: float,
        noise: bool,
        seed: int,
        settings: dict[str, Any],
        fingerprint: str,
        data_fingerprint: str,
    ) -> None:
        super().__init__()
        self.retriever = retriever
        self.criterion = criterion
        self.register_buffer("phrase_table", torch.from_numpy(phrases.embeddings), persistent=False)
        self.register_buffer("groups", groups, persistent=False)
        self.phrases = phrases
        self.store = store
        rows = {text: row for row, text in enumerate(phrases.texts)}
        self._stored = np.array([rows[phrase.text] for phrase in store.phrases])
        # In a list, so that the frozen weights are no part of this module: not trained, not moved to checkpoints.
        self._encoder = [encoder]
        self.optim = optim
        self.total_steps = total_steps
        self.threshold = threshold
        self.noise = noise
        self.seed = seed
        self.settings = settings
        self.fingerprint = fingerprint
        self.data_fingerprint = data_fingerprint
        self._validated: list[Validation] = []
        # Of the last step; looked at where it costs no waiting for the device.
        self._last_terms: tuple[int, dict[str, Tensor]] = (0, {})

    @property
    def _shared(self) -> bool:
        return self.trainer.world_size > 1

    def setup(self, stage: str) -> None:
        """Bring the frozen encoders to the device."""
        if self._encoder[0] is not None:
            # Not self.device: Lightning moves this module after setup, and never what it does not see.
            self._encoder[0].to(self.trainer.strategy.root_device)

    def forward(self, batch: Batch) -> RetrieverOutput:
        """Logits and semantic embeddings of a batch."""
        output: RetrieverOutput = self.retriever(self._features(batch))
        return output

    def _features(self, batch: Batch) -> Tensor:
        encoder = self._encoder[0]
        return encoder(batch.images) if encoder is not None else expand(batch.images)

    def _terms(self, batch: Batch, output: RetrieverOutput, noise: bool) -> tuple[dict[str, Tensor], Matches]:
        phrases = self.phrase_table[batch.phrases]
        if noise:
            phrases = add_noise(phrases)
        groups = self.groups[batch.phrases] if self.groups is not None else None
        terms: dict[str, Tensor]
        matches: Matches
        terms, matches = self.criterion(output.logits, output.embeddings, phrases, batch.counts, groups, self._shared)
        return terms, matches

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Make noise and dropout a function of the seed and the step, so that a resumed run repeats them.

        With the order of batches, that makes resuming exact on a CPU; on a GPU, as exact as its kernels are. Processes
        that share a batch draw apart.
        """
        torch.manual_seed(self.seed * 1_000_003 + self.global_step + (self.global_rank << 48))

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The weighted sum of the loss terms (Eq. 7), the mean over the members, each with noise of its own.

        Waits for the device once for each member, in the matching.

        Raises:
            RarrgError: A term of the step before was not finite, which has made the weights so.
        """
        outputs = self.retriever.each(self._features(batch))
        try:
            of_members = [self._terms(batch, output, self.noise)[0] for output in outputs]
        except RarrgError:
            self._refuse_infinite()
            raise
        terms = {name: torch.stack([each[name] for each in of_members]).mean() for name in of_members[0]}
        self._last_terms = self.global_step, {name: term.detach() for name, term in terms.items()}
        loss = self.criterion.total(terms)
        self.log("train/loss", loss, prog_bar=True, sync_dist=self._shared)
        self.log_dict({f"train/{name}": term for name, term in terms.items()}, sync_dist=self._shared)
        return loss

    def _refuse_infinite(self) -> None:
        # Asked at every step, it would hold up the device; the weights that it ruins end the next step's matching.
        step, terms = self._last_terms
        for name, term in terms.items():
            if not torch.isfinite(term):
                raise RarrgError(
                    f"loss term '{name}' is {term.item()} at step {step}: lower optim.learning_rate or look for broken "
                    "images; --ckpt_path last resumes from the last good checkpoint"
                )

    def on_validation_start(self) -> None:
        """The last step of an epoch has no next one that would find its loss wanting."""
        self._refuse_infinite()

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Log the gradient norm before clipping."""
        norms = [p.grad.norm() for p in self.retriever.parameters() if p.grad is not None]
        self.log("train/grad_norm", torch.stack(norms).norm())

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: int | float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip the norm, as Lightning would, which refuses fused optimisers under any mixed precision."""
        assert gradient_clip_val is not None
        torch.nn.utils.clip_grad_norm_(self.retriever.parameters(), gradient_clip_val)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Loss terms against clean phrase embeddings, and what the queries retrieve."""
        output = self(batch)
        terms, matches = self._terms(batch, output, noise=False)
        size = len(batch.counts)
        self.log("val/loss", self.criterion.total(terms), batch_size=size, sync_dist=self._shared)
        self.log_dict({f"val/{name}": term for name, term in terms.items()}, batch_size=size, sync_dist=self._shared)
        self._validated.append(self._observe(batch, output, matches))

    def predict_step(self, batch: Batch, batch_idx: int) -> list[np.ndarray]:
        """Rows of the store that each image retrieves."""
        ids, _ = self._search(self(batch), self.threshold)
        return [np.unique(row[row >= 0]) for row in ids]

    def _search(self, output: RetrieverOutput, threshold: float) -> tuple[np.ndarray, np.ndarray]:
        """Id and cosine, ``[batch, queries]``, of the stored phrase nearest to each selected query; else -1 and 0."""
        selected = select_queries(output.logits.cpu(), threshold).numpy()
        ids, cosines = np.full(selected.shape, -1), np.zeros(selected.shape, np.float32)
        found, nearest = self.store.search(output.embeddings.cpu().numpy()[selected])
        ids[selected], cosines[selected] = nearest[:, 0], found[:, 0]
        return ids, cosines

    def _observe(self, batch: Batch, output: RetrieverOutput, matches: Matches) -> Validation:
        # Of every query: views that share their probabilities select queries that one of them alone would not.
        ids, similarities = self._search(output, 0.0)
        cosines = torch.full(output.logits.shape, torch.nan, device=output.logits.device)
        own = self.phrase_table[batch.phrases[matches.image, matches.phrase]]
        cosines[matches.image, matches.query] = (own * output.embeddings[matches.image, matches.query]).sum(dim=1)
        return Validation(
            output.logits.float().cpu(),
            cosines.cpu().numpy(),
            np.where(ids < 0, -1, self._stored[ids]),
            similarities,
            [rows[:count].numpy() for rows, count in zip(batch.phrases.cpu(), batch.counts.tolist(), strict=True)],
        )

    def on_validation_epoch_end(self) -> None:
        """Log how queries select and retrieve; the figures that betray a collapse stand on the progress bar."""
        self.validation = Validation.join(self._of_all_processes(self._validated))
        self._validated = []
        found = {"matched_cosine": matched_cosine(self.validation)}
        found |= figures(self.validation, self.phrases, self.threshold)
        shown = ("distinct_phrases", "phrases_per_image", "findings_micro_f1")
        for name, value in found.items():
            self.log(f"val/{name}", value, prog_bar=name in shown, sync_dist=self._shared)

    def _of_all_processes(self, batches: list[Validation]) -> list[Validation]:
        if not self._shared:
            return batches
        gathered: list[list[Validation]] = [[] for _ in range(self.trainer.world_size)]
        torch.distributed.all_gather_object(gathered, batches)
        # Images of a batch are dealt in turn.
        return [Validation.dealt(parts) for parts in zip(*gathered, strict=True)]

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep configuration and encoders with the weights, for whoever resumes from them."""
        self._refuse_infinite()
        checkpoint[SETTINGS] = self.settings
        checkpoint[ENCODER] = self.fingerprint
        checkpoint[DATA] = self.data_fingerprint

    def configure_optimizers(self) -> Any:
        """AdamW with warm-up and cosine, both by step (RA-RRG appendix D)."""
        optimizer = torch.optim.AdamW(
            self.retriever.parameters(),
            lr=self.optim.learning_rate,
            weight_decay=self.optim.weight_decay,
            # One pass over the weights, a fifth of the time on a CPU. With float16 gradients must be unscaled before
            # they are clipped, which this one does itself and later.
            fused=self.trainer.precision != "16-mixed",
        )
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: warmup_cosine(step, self.optim.warmup_steps, self.total_steps)
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


class ProgressBar(TQDMProgressBar):
    """Lightning's bar without the number of the log folder."""

    def get_metrics(
        self, trainer: L.Trainer, pl_module: L.LightningModule
    ) -> dict[str, int | str | float | dict[str, float]]:
        """What stands behind the bar."""
        return {name: value for name, value in super().get_metrics(trainer, pl_module).items() if name != "v_num"}


class Checkpoints(Callback):
    """Keeps ``last.ckpt``, after every epoch and every few steps within one, and ``best.ckpt`` of the lowest val/loss.

    Lightning's ModelCheckpoint does one or the other, forgets on resuming what it found best where a run was killed
    within an epoch or moved, and copies into the folder where the temporary one is on another disk.

    Args:
        folder: Gets the files, each written in one step.
        every: Steps between checkpoints within an epoch.
        best: Keep ``best.ckpt``.
    """

    def __init__(self, folder: Path, every: int, best: bool) -> None:
        self.last, self.best = folder / LAST, folder / BEST if best else None
        self.every = every
        self.lowest: float | None = None

    def state_dict(self) -> dict[str, Any]:
        """The lowest validation loss, which a resumed run goes on from."""
        return {"lowest": self.lowest}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what :meth:`state_dict` gave."""
        self.lowest = state_dict["lowest"]

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Tensor | Mapping[str, Any] | None,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Save within an epoch; its last step is left to the end of the epoch."""
        if trainer.global_step % self.every == 0 and not trainer.is_last_batch:
            self._save(trainer, self.last)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Save after the epoch and its validation: the best first, which the last then knows of."""
        if self.best is not None:
            loss = float(trainer.callback_metrics["val/loss"])
            if self.lowest is None or loss < self.lowest:
                self.lowest = loss
                self._save(trainer, self.best)
        self._save(trainer, self.last)

    def _save(self, trainer: L.Trainer, path: Path) -> None:
        if not trainer.is_global_zero:
            trainer.save_checkpoint(path)  # writes nothing here, but the process that writes waits for it
            return
        # Lightning writes to the system's temporary folder and moves, which is a copy where that is another disk.
        with atomic_write(path) as temporary:
            trainer.save_checkpoint(temporary)
            # Lightning says nothing of a folder that it may not write to.
            if not temporary.exists():
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(temporary))
