"""Bootstrap intervals of measures that are functions of sums over samples.

Each sample (a study, a view) has a row of terms; a measure is a function of the terms' sums. A resample of the samples
then is a vector of counts, and all resamples of a measure are one matrix product. Systems that are measured with the
same weights are resampled alike, so their draws can be compared one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Estimate(NamedTuple):
    """A measure and its interval.

    Attributes:
        value: The measure on the samples as they are.
        low: Lower end of the percentile interval.
        high: Upper end of the percentile interval.
    """

    value: float
    low: float
    high: float


def ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Numerator by denominator, element by element in float64; 0 where the denominator is 0."""
    numerator, denominator = np.broadcast_arrays(numerator, denominator)
    quotient = np.zeros(numerator.shape)
    np.divide(numerator, denominator, out=quotient, where=denominator != 0)
    return quotient


def resampling_weights(samples: int, draws: int, seed: int) -> np.ndarray:
    """How often each sample occurs in each resample with replacement.

    Args:
        samples: Number of samples, at least 1.
        draws: Number of resamples, at least 1.
        seed: Seed of the random draws; the same seed gives the same weights.

    Returns:
        int64 ``[draws, samples]``; each row is a multinomial draw and sums to ``samples``.

    Raises:
        ValueError: ``samples`` or ``draws`` is below 1.
    """
    if samples < 1 or draws < 1:
        raise ValueError(f"needs at least 1 sample and 1 draw, got {samples} and {draws}")
    picked = np.random.default_rng(seed).integers(samples, size=(draws, samples))
    picked += samples * np.arange(draws)[:, None]
    return np.bincount(picked.ravel(), minlength=draws * samples).reshape(draws, samples)


def estimate(
    per_sample: np.ndarray,
    statistic: Callable[[np.ndarray], np.ndarray],
    weights: np.ndarray,
    level: float = 0.95,
) -> Estimate:
    """A measure with its percentile bootstrap interval.

    Args:
        per_sample: Terms of each sample ``[samples, k]``.
        statistic: The measure as a function of the terms' sums, ``[..., k]`` to ``[...]``.
        weights: Resamples ``[draws, samples]``, of :func:`resampling_weights`.
        level: Share of the draws that the interval holds, in (0, 1).

    Returns:
        The measure on the plain sums, and the percentiles of the measure over the draws.

    Raises:
        ValueError: The shapes do not fit, or ``level`` is out of range.
    """
    if per_sample.ndim != 2 or weights.ndim != 2 or weights.shape[1] != len(per_sample):
        raise ValueError(f"weights {weights.shape} do not fit terms {per_sample.shape}: [draws, samples], [samples, k]")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    terms = per_sample.astype(np.float64)  # integers are multiplied without BLAS
    drawn = statistic(weights.astype(np.float64) @ terms)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(statistic(terms.sum(axis=0))), float(low), float(high))
