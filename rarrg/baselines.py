"""What the retriever is compared with: frequent phrases, the nearest training image, a linear probe of the features.

All of it is functions of arrays and phrase lists. Features are the frozen encoders' tokens, mean-pooled over the image,
and are standardised here by the mean and deviation of the training images.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.preprocessing import StandardScaler
from tqdm.auto import tqdm

from rarrg.errors import RarrgError
from rarrg.metrics.classification import confusion, micro_f1

BLOCK = 8192
"""Training images that are standardised and compared at a time."""

INVERSE_PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""Inverse L2 penalties (scikit-learn's C) that validation chooses from, strongest penalty first."""


def frequent_phrases(train_phrases: Sequence[Sequence[str]], count: int | None = None) -> tuple[str, ...]:
    """The phrases that most training studies have; the same report for every image.

    Args:
        train_phrases: Phrases of each training study.
        count: Number of phrases; by default as many as a training study has on average, rounded, at least 1.

    Returns:
        The phrases, most frequent first, ties in alphabetical order.

    Raises:
        ValueError: No study has a phrase.
    """
    studies = Counter(phrase for phrases in train_phrases for phrase in set(phrases))
    if not studies:
        raise ValueError("no training study has a phrase")
    if count is None:
        count = max(1, round(studies.total() / len(train_phrases)))
    return tuple(sorted(studies, key=lambda phrase: (-studies[phrase], phrase))[:count])


def _standardiser(features: np.ndarray) -> StandardScaler:
    """Mean and deviation of each channel, block by block: the whole in float64 would be a second copy of the set."""
    scaler = StandardScaler()
    for start in range(0, len(features), BLOCK):
        scaler.partial_fit(features[start : start + BLOCK].astype(np.float64))
    return scaler


def _standardised(scaler: StandardScaler, features: np.ndarray) -> np.ndarray:
    return scaler.transform(features.astype(np.float32), copy=False)


def _unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths == 0, 1, lengths)


def nearest_phrases(
    train_features: np.ndarray, train_phrases: Sequence[tuple[str, ...]], test_features: np.ndarray
) -> list[tuple[str, ...]]:
    """The phrases of the training image nearest to each test image, by cosine of standardised features.

    Args:
        train_features: Pooled features ``[train images, channels]``.
        train_phrases: Phrases of each training image.
        test_features: Pooled features ``[test images, channels]``.

    Returns:
        Phrases for each test image; of training images equally near, those of the first.

    Raises:
        ValueError: There are more or fewer phrase lists than training images, or no training images.
    """
    if len(train_features) != len(train_phrases) or not len(train_features):
        raise ValueError(f"got {len(train_features)} training images and {len(train_phrases)} lists of phrases")
    scaler = _standardiser(train_features)
    queries = _unit(_standardised(scaler, test_features)).T
    best = np.full(len(test_features), -np.inf, dtype=np.float32)
    nearest = np.zeros(len(test_features), dtype=np.int64)
    for start in tqdm(range(0, len(train_features), BLOCK), desc="nearest training images", unit="block"):
        cosines = _unit(_standardised(scaler, train_features[start : start + BLOCK])) @ queries
        here = cosines.argmax(axis=0)
        cosine = np.take_along_axis(cosines, here[None], axis=0)[0]
        closer = cosine > best
        best[closer], nearest[closer] = cosine[closer], start + here[closer]
    return [train_phrases[image] for image in nearest.tolist()]


def average_by_study(values: np.ndarray, study_index: np.ndarray) -> np.ndarray:
    """Average what the views of each study got.

    Args:
        values: A row for each view, such as label probabilities, ``[views, k]``.
        study_index: Study of each view, int ``[views]``; the studies are 0 to their number less 1.

    Returns:
        float64 ``[studies, k]``.

    Raises:
        ValueError: The lengths differ, or a study between 0 and the largest has no view.
    """
    if len(values) != len(study_index):
        raise ValueError(f"got {len(values)} rows and the studies of {len(study_index)}")
    views = np.bincount(study_index)
    if not views.all():
        raise ValueError(f"study {int(np.argmin(views))} has no view")
    sums = np.zeros((len(views), values.shape[1]))
    np.add.at(sums, study_index, values)
    return sums / views[:, None]


def _best_threshold(probabilities: np.ndarray, truth: np.ndarray) -> float:
    """The threshold with the largest F1; the highest of equals, infinity where no threshold hits a true one."""
    order = np.argsort(-probabilities, kind="stable")
    candidates = probabilities[order]
    f1 = 2 * truth[order].cumsum() / (np.arange(1, len(order) + 1) + truth.sum())
    # Equal probabilities are predicted together, so only the last of them counts; probability 0 is never predicted.
    f1 *= np.append(candidates[1:] < candidates[:-1], True) & (candidates > 0)
    best = f1.argmax()
    return float(candidates[best]) if f1[best] > 0 else float("inf")


def choose_thresholds(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Thresholds from validation: one for each label, or one for all, whichever has the larger micro-F1 there.

    The threshold of a label alone is the one with its largest F1, which for a label that is hard to see is low and
    costs many false positives; the common one is that with the largest micro-F1. Equal micro-F1 goes to the common
    one, which has less to fit.

    Args:
        probabilities: Of the validation images, or of the studies' averages, ``[samples, labels]``.
        labels: What holds, bool ``[samples, labels]``.

    Returns:
        float64 ``[labels]``; a label is predicted where its probability reaches its threshold. Infinity: never.
    """
    labels = np.asarray(labels, dtype=bool)
    single = np.array([_best_threshold(*columns) for columns in zip(probabilities.T, labels.T, strict=True)])
    common = np.full(len(single), _best_threshold(probabilities.ravel(), labels.ravel()))
    scores = [micro_f1(confusion(labels, probabilities >= rule).sum(axis=0)) for rule in (common, single)]
    return common if scores[0] >= scores[1] else single


@dataclass(frozen=True)
class LinearProbe:
    """L2-regularised logistic regression of each finding label on standardised pooled features. Made by :meth:`fit`.

    Attributes:
        scaler: Mean and deviation of the training features.
        weights: ``[labels, channels]``.
        biases: ``[labels]``; minus infinity for a label that no training image has.
        inverse_penalty: The one of ``INVERSE_PENALTIES`` that validation chose, for all labels.
        thresholds: ``[labels]``, of :func:`choose_thresholds` on the validation images.
    """

    scaler: StandardScaler
    weights: np.ndarray
    biases: np.ndarray
    inverse_penalty: float
    thresholds: np.ndarray

    @classmethod
    def fit(
        cls,
        train_features: np.ndarray,
        train_labels: np.ndarray,
        val_features: np.ndarray,
        val_labels: np.ndarray,
    ) -> LinearProbe:
        """Fit each label under each penalty and keep the penalty that validation likes best.

        The penalty with the largest average precision over the decisions of all labels together wins. Like micro-F1,
        and unlike a log loss, it looks at the positives and leaves the threshold open; a mean over labels would hang on
        findings that validation has a handful of.

        Args:
            train_features: Pooled features ``[train images, channels]``.
            train_labels: bool ``[train images, labels]``.
            val_features: Pooled features ``[validation images, channels]``.
            val_labels: bool ``[validation images, labels]``.

        Raises:
            RarrgError: No validation image has a label.
        """
        train_labels, val_labels = np.asarray(train_labels, dtype=bool), np.asarray(val_labels, dtype=bool)
        if not val_labels.any():
            raise RarrgError(
                f"linear probe: none of the {len(val_labels)} validation images has a finding to choose thresholds by; "
                "take another validation split"
            )
        scaler = _standardiser(train_features)
        weights, biases = _fit_all(_standardised(scaler, train_features), train_labels)
        features = _standardised(scaler, val_features)
        probabilities = [_probabilities(features, *model) for model in zip(weights, biases, strict=True)]
        chosen = int(np.argmax([average_precision_score(val_labels.ravel(), each.ravel()) for each in probabilities]))
        thresholds = choose_thresholds(probabilities[chosen], val_labels)
        return cls(scaler, weights[chosen], biases[chosen], INVERSE_PENALTIES[chosen], thresholds)

    def predict_proba(self, features: np.ndarray) -> np.ndarray:
        """Probability of each label: pooled features ``[images, channels]`` to float64 ``[images, labels]``."""
        return _probabilities(_standardised(self.scaler, features), self.weights, self.biases)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Labels whose probability reaches the threshold, image by image: bool ``[images, labels]``."""
        return self.predict_proba(features) >= self.thresholds


def _fit_all(features: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights ``[penalties, labels, channels]`` and biases ``[penalties, labels]``."""
    shape = (len(INVERSE_PENALTIES), labels.shape[1])
    weights = np.zeros((*shape, features.shape[1]), dtype=np.float32)
    # A label that all training images have, or none, has nothing to be fitted: its probability is 1 or 0.
    biases = np.where(labels.any(axis=0), np.inf, -np.inf) * np.ones(shape)
    for label in tqdm(range(shape[1]), desc="linear probe", unit="label"):
        if labels[:, label].all() or not labels[:, label].any():
            continue
        model = LogisticRegression(solver="lbfgs", max_iter=1000, warm_start=True)
        for penalty, value in enumerate(INVERSE_PENALTIES):
            model.set_params(C=value).fit(features, labels[:, label])
            weights[penalty, label], biases[penalty, label] = model.coef_[0], model.intercept_[0]
    return weights, biases


def _probabilities(features: np.ndarray, weights: np.ndarray, biases: np.ndarray) -> np.ndarray:
    return expit((features @ weights.T).astype(np.float64) + biases)
