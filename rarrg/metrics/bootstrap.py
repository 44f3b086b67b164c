"""Bootstrap intervals of measures that are functions of sums over samples.

Each sample (a study, a view) has a row of terms; a measure is a function of the terms' sums. A resample of the samples
then is a vector of counts, and all resamples of a measure are one matrix product. Systems that are measured with the
same weights are resampled alike, so their draws can be compared one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

Statistic = Callable[[np.ndarray], np.ndarray]
"""A measure as a function of sums of terms, ``[..., k]`` to ``[...]``."""

_ROUNDING = 1e-12


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


class Difference(NamedTuple):
    """By how much a system is above another in a measure.

    Attributes:
        value: The difference on the samples as they are.
        low: Lower end of the percentile interval.
        high: Upper end of the percentile interval.
        p_value: Two-sided, in (0, 1]: twice the smaller share of draws on one side of 0, draws at 0 counted on both,
            each share as (count + 1) / (draws + 1) (Davison and Hinkley, 1997, section 4.2).
    """

    value: float
    low: float
    high: float
    p_value: float


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


def weights_by_group(groups: Sequence[str], draws: int, seed: int) -> np.ndarray:
    """How often each sample occurs in each resample, where samples of one group are drawn together.

    Images of one patient, or reports against one reference, are not independent: resampled one by one they would give
    intervals that are too narrow (Davison and Hinkley, 1997, section 3.8).

    Args:
        groups: Group of each sample, at least one.
        draws: Number of resamples, at least 1.
        seed: Seed of the random draws.

    Returns:
        int64 ``[draws, samples]``; :func:`resampling_weights` where every sample is a group of its own.

    Raises:
        ValueError: There is no sample, or ``draws`` is below 1.
    """
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    return resampling_weights(len(numbers), draws, seed)[:, [numbers[group] for group in groups]]


def estimate(per_sample: np.ndarray, statistic: Statistic, weights: np.ndarray, level: float = 0.95) -> Estimate:
    """A measure with its percentile bootstrap interval; as :func:`estimates` of one measure."""
    return estimates(per_sample, {"": statistic}, weights, level)[""]


def estimates(
    per_sample: np.ndarray, statistics: Mapping[str, Statistic], weights: np.ndarray, level: float = 0.95
) -> dict[str, Estimate]:
    """Measures over the same terms, each with its percentile bootstrap interval.

    Args:
        per_sample: Terms of each sample ``[samples, k]``.
        statistics: The measures as functions of the terms' sums.
        weights: Resamples ``[draws, samples]``, of :func:`resampling_weights`.
        level: Share of the draws that the interval holds, in (0, 1).

    Returns:
        Each measure on the plain sums, and its percentiles over the draws.

    Raises:
        ValueError: The shapes do not fit, or ``level`` is out of range.
    """
    plain, drawn = _sums(per_sample, weights)
    return {
        name: Estimate(float(statistic(plain)), *_ends(statistic(drawn), level))
        for name, statistic in statistics.items()
    }


def differences(
    ours: np.ndarray,
    theirs: np.ndarray,
    statistics: Mapping[str, Statistic],
    weights: np.ndarray,
    level: float = 0.95,
) -> dict[str, Difference]:
    """Paired differences of two systems, each with its percentile bootstrap interval and two-sided p-value.

    Args:
        ours: Terms of each sample of the one ``[samples, k]``.
        theirs: Terms of the same samples of the other.
        statistics: The measures as functions of the terms' sums.
        weights: Resamples ``[draws, samples]``, of :func:`resampling_weights`; both are resampled alike.
        level: Share of the draws that the interval holds, in (0, 1).

    Returns:
        Each measure of ours minus theirs.

    Raises:
        ValueError: The shapes do not fit, or ``level`` is out of range.
    """
    (our_plain, our_drawn), (their_plain, their_drawn) = _sums(ours, weights), _sums(theirs, weights)
    found = {}
    for name, statistic in statistics.items():
        drawn = statistic(our_drawn) - statistic(their_drawn)
        drawn[np.abs(drawn) < _ROUNDING] = 0  # else equal systems would differ by the order of their sums
        smaller = min((drawn <= 0).sum(), (drawn >= 0).sum())
        found[name] = Difference(
            float(statistic(our_plain) - statistic(their_plain)),
            *_ends(drawn, level),
            p_value=min(1.0, 2 * float(smaller + 1) / (len(drawn) + 1)),
        )
    return found


def _sums(per_sample: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of the terms over the samples ``[k]``, and over each resample ``[draws, k]``."""
    if per_sample.ndim != 2 or weights.ndim != 2 or weights.shape[1] != len(per_sample):
        raise ValueError(f"weights {weights.shape} do not fit terms {per_sample.shape}: [draws, samples], [samples, k]")
    terms = per_sample.astype(np.float64)  # integers are multiplied without BLAS
    return terms.sum(axis=0), weights.astype(np.float64) @ terms


def _ends(drawn: np.ndarray, level: float) -> tuple[float, float]:
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
