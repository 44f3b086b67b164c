"""Agreement of predicted with true finding labels.

Measures are functions of sums of per-sample terms, so that :func:`rarrg.metrics.bootstrap.estimate` resamples them as a
matrix product. A measure whose denominator is 0 is 0, and macro averages run over all labels, those that never occur
included, as in CheXbert's evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from rarrg.metrics.bootstrap import Statistic, ratio
from rarrg.metrics.measured import Measured, column_mean


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
        accuracy: Share of the samples for which it is said rightly whether they have it, 0 without samples.
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
    accuracy: float


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


def _over_labels(scores: np.ndarray) -> np.ndarray:
    mean: np.ndarray = scores.mean(axis=-1)
    return mean


def micro_f1(sums: np.ndarray) -> np.ndarray:
    """F1 over all decisions of all labels: sums of :func:`confusion` ``[..., 3 * labels]`` to ``[...]``, in [0, 1]."""
    tp, fp, fn = _counts(sums)
    return _f1(tp.sum(axis=-1), fp.sum(axis=-1), fn.sum(axis=-1))


def macro_f1(sums: np.ndarray) -> np.ndarray:
    """Mean F1 of the labels: sums of :func:`confusion` ``[..., 3 * labels]`` to ``[...]``, in [0, 1]."""
    return _over_labels(_f1(*_counts(sums)))


def micro_precision(sums: np.ndarray) -> np.ndarray:
    """Precision over all decisions: sums of :func:`confusion` ``[..., 3 * labels]`` to ``[...]``, in [0, 1]."""
    tp, fp, _ = _counts(sums)
    return ratio(tp.sum(axis=-1), (tp + fp).sum(axis=-1))


def micro_recall(sums: np.ndarray) -> np.ndarray:
    """Recall over all decisions: sums of :func:`confusion` ``[..., 3 * labels]`` to ``[...]``, in [0, 1]."""
    tp, _, fn = _counts(sums)
    return ratio(tp.sum(axis=-1), (tp + fn).sum(axis=-1))


def macro_precision(sums: np.ndarray) -> np.ndarray:
    """Mean precision of the labels: sums of :func:`confusion` ``[..., 3 * labels]`` to ``[...]``, in [0, 1]."""
    tp, fp, _ = _counts(sums)
    return _over_labels(ratio(tp, tp + fp))


def macro_recall(sums: np.ndarray) -> np.ndarray:
    """Mean recall of the labels: sums of :func:`confusion` ``[..., 3 * labels]`` to ``[...]``, in [0, 1]."""
    tp, _, fn = _counts(sums)
    return _over_labels(ratio(tp, tp + fn))


def micro_specificity(sums: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Share of the decisions without the label that do not predict it.

    Args:
        sums: Sums of :func:`confusion`, ``[..., 3 * labels]``.
        samples: Number of samples in each sum, ``[...]``.

    Returns:
        ``[...]``, in [0, 1]; 0 where every sample has every label.
    """
    tp, fp, fn = _counts(sums)
    tn = samples[..., None] - tp - fp - fn
    return ratio(tn.sum(axis=-1), (tn + fp).sum(axis=-1))


def _example_scores(truth: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Precision, recall and F1 of each sample's own label set, float64 ``[samples, 3]``; 0/0 is 0."""
    tp, fp, fn = (counts.sum(axis=1) for counts in _counts(confusion(truth, predicted)))
    return np.stack([ratio(tp, tp + fp), ratio(tp, tp + fn), _f1(tp, fp, fn)], axis=1)


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
    f1 = _example_scores(truth, predicted)[:, 2]
    return np.stack([f1, np.ones(len(f1))], axis=1)


def mean(sums: np.ndarray) -> np.ndarray:
    """Mean of a per-sample value: sums of (value, 1) ``[..., 2]`` to ``[...]``."""
    return ratio(sums[..., 0], sums[..., 1])


def _of_counts(statistic: Statistic, sums: np.ndarray) -> np.ndarray:
    return statistic(sums[..., :-4])


def _specificity(sums: np.ndarray) -> np.ndarray:
    return micro_specificity(sums[..., :-4], sums[..., -1])


_LABEL_STATISTICS: dict[str, Statistic] = {
    "micro_precision": partial(_of_counts, micro_precision),
    "micro_recall": partial(_of_counts, micro_recall),
    "micro_f1": partial(_of_counts, micro_f1),
    "micro_specificity": _specificity,
    "macro_precision": partial(_of_counts, macro_precision),
    "macro_recall": partial(_of_counts, macro_recall),
    "macro_f1": partial(_of_counts, macro_f1),
    "example_precision": partial(column_mean, column=-4),
    "example_recall": partial(column_mean, column=-3),
    "example_f1": partial(column_mean, column=-2),
}


def label_measures(truth: np.ndarray, predicted: np.ndarray, prefix: str) -> Measured:
    """Micro-, macro- and example-averaged precision, recall and F1, and micro-averaged specificity.

    Example-averaged figures are means over the samples of the sample's own figure, so their F1 is not the harmonic mean
    of their precision and recall.

    Args:
        truth: Labels that hold, bool ``[samples, labels]``.
        predicted: Labels that are predicted, bool ``[samples, labels]``.
        prefix: Goes before the names of the measures.

    Raises:
        ValueError: The shapes differ.
    """
    counts = confusion(truth, predicted)
    terms = np.concatenate([counts, _example_scores(truth, predicted), np.ones((len(counts), 1))], axis=1)
    return Measured(
        terms=terms,
        statistics={prefix + name: statistic for name, statistic in _LABEL_STATISTICS.items()},
        single=tuple(f"{prefix}example_{name}" for name in ("precision", "recall", "f1")),
        present=np.ones(len(terms), dtype=bool),
    )


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
    f1, accuracy = _f1(tp, fp, fn), ratio(tp + tn, np.array(len(truth)))
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
            accuracy=float(accuracy[i]),
        )
        for label, i in zip(labels, range(len(tp)), strict=True)
    ]
