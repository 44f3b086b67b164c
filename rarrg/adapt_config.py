"""How image encoders are adapted to the training images: the section ``vision.adapt`` of a configuration."""

from __future__ import annotations

from dataclasses import dataclass

from rarrg.errors import require

_LEAST = 15  # a group for each of the 13 findings, and two for the rest


@dataclass
class AdaptConfig:
    """Training of the encoders, each alone, to tell what training images show; afterwards they are frozen.

    Args:
        epochs: Passes over the training images; 0 takes the encoders as they are, as the paper.
        batch_size: Images a step.
        learning_rate: Peak learning rate of the encoder; that of its classifier is five times as high.
        weight_decay: Decoupled weight decay.
        dropout: Dropout before the classifier.
        groups: Groups that the key phrases are divided into, as a retriever's with so many queries is; the encoder
            learns to tell those that affirm something, beside the findings. 0: the findings alone.
        keep: Keep the encoders as they were too, before the adapted ones in the order of encoders.
        seed: Seed of order, augmentation and classifier. Runs that differ in their own seed alone share the encoders.
    """

    epochs: int = 0
    batch_size: int = 32
    learning_rate: float = 3e-4
    weight_decay: float = 0.05
    dropout: float = 0.3
    groups: int = 0
    keep: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.epochs >= 0, "vision.adapt.epochs", "at least 0", self.epochs)
        require(self.batch_size >= 2, "vision.adapt.batch_size", "at least 2", self.batch_size)
        require(self.learning_rate > 0, "vision.adapt.learning_rate", "above 0", self.learning_rate)
        require(self.weight_decay >= 0, "vision.adapt.weight_decay", "at least 0", self.weight_decay)
        require(0 <= self.dropout < 1, "vision.adapt.dropout", "in [0, 1)", self.dropout)
        require(
            self.groups == 0 or self.groups >= _LEAST, "vision.adapt.groups", f"0 or at least {_LEAST}", self.groups
        )
        require(self.seed >= 0, "vision.adapt.seed", "at least 0", self.seed)
