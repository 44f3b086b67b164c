"""Agreement of predicted with true finding labels.

Measures are functions of sums of per-sample terms, so that :func:`rarrg.metrics.bootstrap.estimate` resamples them as a
matrix product. A measure whose denominator is 0 is 0, and macro averages run over all labels, those that never occur
included, as in CheXbert's evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rarrg.metrics.bootstrap import ratio


@dataclass(frozen=True)
class LabelScore:
    """How well one label is predicted.

    Attributes:
        label: Its name.
        support: Samples that have it.
        predicted: Samples it is predicted for.
        tp: True positives.
        fp: False positives.
        fn: False negatives.
        precision: tp / (tp + fp), 0 where it is never predicted.
        recall: tp / (tp + fn), 0 where no sample has it.
        f1: 2 tp / (2 tp + fp + fn), 0 where it neither occurs nor is predicted.
        specificity: Share of the samples without it that it is not predicted for, 0 where every sample has it.
    """

    label: str
    support: int
    predicted: int
    tp: int
    fp: int
    fn: int
    precision: float
    recall: float
    f1: float
    specificity: float


def _as_labels(truth: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    truth, predicted = np.asarray(truth, dtype=bool), np.asarray(predicted, dtype=bool)
    if truth.ndim != 2 or truth.shape != predicted.shape:
        raise ValueError(f"truth {truth.shape} and prediction {predicted.shape} must be [samples, labels] alike")
    return truth, predicted


def confusion(truth: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """True positives, false positives and false negatives of each sample.

    Args:
        truth: Labels that hold, bool ``[samples, labels]``.
        predicted: Labels that are predicted, bool ``[samples, labels]``.

    Returns:
        int64 ``[samples, 3 * labels]``: the true positives of all labels, then their false positives, then their false
        negatives.

    Raises:
        ValueError: The shapes differ.
    """
    truth, predicted = _as_labels(truth, predicted)
    return np.concatenate([truth & predicted, ~truth & predicted, truth & ~predicted], axis=1).astype(np.int64)


def _counts(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split ``[..., 3 * labels]`` into tp, fp and fn ``[..., labels]``."""
    tp, fp, fn = np.split(sums, 3, axis=-1)
    return tp, fp, fn


def _f1(tp: np.ndarray, fp: np.ndarray, fn: np.ndarray) -> np.ndarray:
    return ratio(2 * tp, 2 * tp + fp + fn)


def micro_f1(sums: np.ndarray) -> np.ndarray:
    """F1 over all decisions of all labels: sums of :func:`confusion` ``[..., 3 * labels]`` to ``[...]``, in [0, 1]."""
    tp, fp, fn = _counts(sums)
    return _f1(tp.sum(axis=-1), fp.sum(axis=-1), fn.sum(axis=-1))


def macro_f1(sums: np.ndarray) -> np.ndarray:
    """Mean F1 of the labels: sums of :func:`confusion` ``[..., 3 * labels]`` to ``[...]``, in [0, 1]."""
    return _f1(*_counts(sums)).mean(axis=-1)


def example_f1_terms(truth: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """F1 of each sample's own label set, to be averaged with :func:`mean`.

    A sample without labels and without predictions has F1 0, so mostly normal studies keep the mean low for any system.

    Args:
        truth: Labels that hold, bool ``[samples, labels]``.
        predicted: Labels that are predicted, bool ``[samples, labels]``.

    Returns:
        float64 ``[samples, 2]``: the sample's F1, and 1.

    Raises:
        ValueError: The shapes differ.
    """
    tp, fp, fn = (counts.sum(axis=1) for counts in _counts(confusion(truth, predicted)))
    return np.stack([_f1(tp, fp, fn), np.ones(len(tp))], axis=1)


def mean(sums: np.ndarray) -> np.ndarray:
    """Mean of a per-sample value: sums of (value, 1) ``[..., 2]`` to ``[...]``."""
    return ratio(sums[..., 0], sums[..., 1])


def per_label(truth: np.ndarray, predicted: np.ndarray, labels: Sequence[str]) -> list[LabelScore]:
    """Counts and scores of each label.

    Args:
        truth: Labels that hold, bool ``[samples, labels]``.
        predicted: Labels that are predicted, bool ``[samples, labels]``.
        labels: Names of the columns.

    Returns:
        A score for each label, in the order of ``labels``.

    Raises:
        ValueError: The shapes differ, or there are more or fewer names than columns.
    """
    tp, fp, fn = _counts(confusion(truth, predicted).sum(axis=0))
    tn = len(truth) - tp - fp - fn
    precision, recall, specificity = ratio(tp, tp + fp), ratio(tp, tp + fn), ratio(tn, tn + fp)
    f1 = _f1(tp, fp, fn)
    return [
        LabelScore(
            label=label,
            support=int(tp[i] + fn[i]),
            predicted=int(tp[i] + fp[i]),
            tp=int(tp[i]),
            fp=int(fp[i]),
            fn=int(fn[i]),
            precision=float(precision[i]),
            recall=float(recall[i]),
            f1=float(f1[i]),
            specificity=float(specificity[i]),
        )
        for label, i in zip(labels, range(len(tp)), strict=True)
    ]
