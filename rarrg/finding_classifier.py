"""A linear classifier of findings, and of groups of phrases, on an encoder's map, trained together with the encoder.

It reads the mean and maximum of the very map that the retriever will read. Stages before the first joined one keep
their weights: edges are edges, and there are few images.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, Sampler
from torchmetrics.classification import MultilabelAveragePrecision
from torchvision.transforms import v2

from rarrg.adapt_config import AdaptConfig
from rarrg.data.images import read_image
from rarrg.data.studies import Example
from rarrg.metrics.findings import positive_findings
from rarrg.models.backbones import Backbone
from rarrg.models.linear_reading import LinearReading, pooled
from rarrg.models.preprocessing import Preprocessing
from rarrg.stopping import stoppable

_HEAD = 5.0  # the classifier starts from nothing and learns so many times as fast
_WARMUP = 0.15  # share of the steps
_CLIP = 5.0
_GROUPS = 0.3  # weight of a group of phrases; that of a finding is 1
_LOG_EVERY = 10  # steps
_AUGMENT = v2.Compose(
    [
        # As far as positioning and exposure differ in practice. No flip: the heart is on the left.
        v2.RandomAffine(
            degrees=7, translate=(0.08, 0.08), scale=(0.94, 1.06), interpolation=v2.InterpolationMode.BILINEAR
        ),
        v2.ColorJitter(brightness=0.2, contrast=0.25),
    ]
)


@dataclass(frozen=True)
class Labelled:
    """Images, the findings that their phrases affirm, and the groups that their phrases are of.

    Attributes:
        examples: The images.
        findings: bool ``[images, findings]``.
        groups: bool ``[images, groups]``.
    """

    examples: Sequence[Example]
    findings: np.ndarray
    groups: np.ndarray

    @classmethod
    def of(cls, examples: Sequence[Example], groups: Mapping[str, int]) -> Labelled:
        """Label images by their phrases.

        Args:
            examples: The images.
            groups: Group of a phrase, from 0 without gaps; phrases that are not there are of none.
        """
        texts = sorted({phrase for example in examples for phrase in example.phrases})
        affirmed = dict(zip(texts, positive_findings(texts), strict=True))
        rows = [np.logical_or.reduce([affirmed[text] for text in example.phrases]) for example in examples]
        told = np.zeros((len(examples), len(set(groups.values()))), dtype=bool)
        for row, example in zip(told, examples, strict=True):
            row[[groups[text] for text in example.phrases if text in groups]] = True
        return cls(examples, np.stack(rows), told)

    @property
    def targets(self) -> np.ndarray:
        """Findings and groups side by side, bool ``[images, findings + groups]``."""
        return np.hstack([self.findings, self.groups])


def train_classifier(
    backbone: Backbone,
    stages: Sequence[int] | None,
    config: AdaptConfig,
    sets: tuple[Labelled, Labelled],
    folder: Path,
    device: torch.device,
    num_workers: int,
) -> LinearReading:
    """Train a network with a linear classifier on its map.

    Args:
        backbone: A timm network; it is trained in place and left on the CPU, frozen.
        stages: Its stages that are joined; those before the first of them keep their weights.
        config: How.
        sets: Training and validation images.
        folder: Gets ``logs/metrics.csv``.
        device: Where it is trained.
        num_workers: Processes that read images.

    Returns:
        What the classifier reads of the findings; what it read of the groups is dropped.

    Raises:
        ImageError: An image cannot be read.
    """
    L.seed_everything(config.seed, verbose=False)
    train, val = (_Images(part, backbone.preprocessing) for part in sets)
    loader = DataLoader(
        train,
        config.batch_size,
        sampler=_Shuffled(len(train), config.seed),
        num_workers=num_workers,
        drop_last=len(train) > config.batch_size,
    )
    module = _Classifier(backbone, stages, sets[0], config, config.epochs * len(loader))
    trainer = L.Trainer(
        max_epochs=config.epochs,
        accelerator=device.type,
        devices=1,
        precision="bf16-mixed" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "32-true",
        gradient_clip_val=_CLIP,
        logger=CSVLogger(folder, name="", version="logs"),
        log_every_n_steps=min(_LOG_EVERY, len(loader)),
        enable_checkpointing=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    in_order = [(index, None) for index in range(len(val))]
    with stoppable("the encoder is adapted anew next time"):
        trainer.fit(module, loader, DataLoader(val, config.batch_size, sampler=in_order, num_workers=num_workers))
    # Files hold tensors in the order of their axes.
    backbone.network.cpu().to(memory_format=torch.contiguous_format).eval().requires_grad_(False)
    return module.reading()


class _Shuffled(Sampler[tuple[int, int]]):
    """Every image once an epoch, each with the seed of its augmentation, whatever process reads it."""

    def __init__(self, images: int, seed: int) -> None:
        self.images = images
        self.generator = torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        return self.images

    def __iter__(self) -> Iterator[tuple[int, int]]:
        order = torch.randperm(self.images, generator=self.generator)
        seeds = torch.randint(2**31, (self.images,), generator=self.generator)
        return zip(order.tolist(), seeds.tolist(), strict=True)


class _Images(Dataset[tuple[Tensor, Tensor]]):
    """Pixels ``[3, size, size]`` and targets, float ``[targets]``, of an image, augmented where a seed is given."""

    def __init__(self, labelled: Labelled, preprocessing: Preprocessing) -> None:
        self.examples, self.preprocessing = labelled.examples, preprocessing
        self.targets = torch.from_numpy(labelled.targets).float()

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, drawn: tuple[int, int | None]) -> tuple[Tensor, Tensor]:
        index, seed = drawn
        pixels = self.preprocessing.resized(read_image(self.examples[index].view.path))
        if seed is not None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                pixels = _AUGMENT(pixels)
        return self.preprocessing.normalised(pixels), self.targets[index]


class _Classifier(L.LightningModule):
    """A network with a linear classifier on its map.

    Args:
        backbone: The network.
        stages: Its stages that are joined; those before the first of them stay as they are.
        train: The training images, for the classifier's first guess.
        config: Rates and dropout.
        steps: Optimiser steps in all.
    """

    def __init__(
        self, backbone: Backbone, stages: Sequence[int] | None, train: Labelled, config: AdaptConfig, steps: int
    ) -> None:
        super().__init__()
        self.weights: Tensor
        self.network, self._features = backbone.network, backbone.features
        self._config, self._steps = config, steps
        for parameter in self.network.parameters():
            parameter.requires_grad_(True)
        for parameter in _before(self.network, stages):
            parameter.requires_grad_(False)
        targets = torch.from_numpy(train.targets)
        self._findings = train.findings.shape[1]
        weights = torch.ones(targets.shape[1])
        weights[self._findings :] = _GROUPS
        self.register_buffer("weights", weights, persistent=False)
        self._normalisation = nn.BatchNorm1d(backbone.channels)
        self._linear = nn.Linear(backbone.channels, len(weights))
        nn.init.zeros_(self._linear.weight)
        self._linear.bias.data = torch.logit(targets.float().mean(dim=0).clamp(1e-3, 1 - 1e-3))
        self.classifier = nn.Sequential(self._normalisation, nn.Dropout(config.dropout), self._linear)
        self._precision = MultilabelAveragePrecision(self._findings, average="micro")
        self.to(memory_format=torch.channels_last)
        self.train()  # Lightning keeps the mode in which it gets each layer

    def train(self, mode: bool = True) -> _Classifier:
        """Frozen layers keep their batch statistics."""
        super().train(mode)
        for layer in self.network.modules():
            own = list(layer.parameters(recurse=False))
            if own and not any(parameter.requires_grad for parameter in own):
                layer.eval()
        return self

    def forward(self, pixels: Tensor) -> Tensor:
        """Logits of the targets: ``[batch, 3, size, size]`` to ``[batch, targets]``."""
        features = self._features(self.network, pixels.contiguous(memory_format=torch.channels_last))
        return self.classifier(pooled(features))

    def reading(self) -> LinearReading:
        """The classifier of the findings as it is in evaluation."""
        return LinearReading.of(self._normalisation, self._linear, self._findings)

    def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
        """Cross-entropy, summed over targets: rare ones weigh what they weigh."""
        pixels, targets = batch
        loss = F.binary_cross_entropy_with_logits(self(pixels), targets, self.weights, reduction="none")
        loss = loss.sum(dim=1).mean()
        self.log("train/loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], _: int) -> None:
        """Average precision over all decisions on the findings of validation images."""
        pixels, targets = batch
        findings = slice(self._findings)
        self._precision.update(self(pixels).float()[:, findings], targets[:, findings].long())
        self.log("val/average_precision", self._precision, prog_bar=True)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """AdamW, its rates one cycle from low to high to none (Smith and Topin, 2018)."""
        rate = self._config.learning_rate
        body = [parameter for parameter in self.network.parameters() if parameter.requires_grad]
        groups: list[dict[str, Any]] = [{"params": body}, {"params": list(self.classifier.parameters())}]
        optimizer = torch.optim.AdamW(groups, lr=rate, weight_decay=self._config.weight_decay)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, [rate, _HEAD * rate], total_steps=self._steps, pct_start=_WARMUP, cycle_momentum=False
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def _before(network: Any, stages: Sequence[int] | None) -> list[nn.Parameter]:
    """Parameters of a timm network that the first joined stage stands on: all of the layers up to the stage before."""
    if not stages or stages[0] == 0:
        return []
    boundary = network.feature_info[stages[0] - 1]["module"]
    layers = list(network.named_modules())
    last = max(place for place, (name, _) in enumerate(layers) if f"{name}.".startswith(f"{boundary}."))
    return [parameter for _, layer in layers[: last + 1] for parameter in layer.parameters(recurse=False)]
