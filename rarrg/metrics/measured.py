"""Measures that share their terms: values over all samples and of each, intervals, and paired tests.

Each sample (a report) has a row of terms; a measure is a function of the rows' sum. The same function of one row alone
is the sample's own score, where that means something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rarrg.metrics.bootstrap import Difference, Estimate, Statistic, differences, estimates, ratio, weights_by_group

__all__ = ["Measured", "column_mean"]


@dataclass(frozen=True)
class Measured:
    """Terms of each sample and the measures that are functions of their sums.

    Attributes:
        terms: ``[samples, k]``; rows of zeros for samples that are not measured.
        statistics: Each measure as a function of sums of terms, ``[..., k]`` to ``[...]``.
        single: The measures that say something of one sample.
        present: Which samples are measured, bool ``[samples]``. The others enter no value, interval or test.
    """

    terms: np.ndarray
    statistics: Mapping[str, Statistic]
    single: tuple[str, ...]
    present: np.ndarray

    def values(self) -> dict[str, float]:
        """Each measure over the measured samples."""
        sums = self.terms[self.present].sum(axis=0)
        return {name: float(statistic(sums)) for name, statistic in self.statistics.items()}

    def per_sample(self) -> dict[str, np.ndarray]:
        """Measures of ``single`` for each sample, float64 ``[samples]``; NaN where it is not measured."""
        return {name: np.where(self.present, self.statistics[name](self.terms), np.nan) for name in self.single}

    def estimates(self, where: np.ndarray, groups: Sequence[str], draws: int, seed: int) -> dict[str, Estimate]:
        """Each measure over the measured samples of ``where``, with its 95 % interval.

        Args:
            where: Samples to take, bool ``[samples]``.
            groups: Group of each sample; those of one are resampled together.
            draws: Number of resamples.
            seed: Seed of the resamples.

        Raises:
            ValueError: No sample of ``where`` is measured.
        """
        taken = self.present & where
        return estimates(self.terms[taken], self.statistics, weights_by_group(_of(taken, groups), draws, seed))

    def differences(
        self, other: Measured, where: np.ndarray, groups: Sequence[str], draws: int, seed: int
    ) -> dict[str, Difference]:
        """By how much each measure is above another system's, over the samples of ``where`` measured for both.

        Args:
            other: The other system on the same samples, measured alike.
            where: Samples to take, bool ``[samples]``.
            groups: Group of each sample; those of one are resampled together.
            draws: Number of resamples; both systems are resampled alike.
            seed: Seed of the resamples.

        Raises:
            ValueError: The two differ in samples or terms, or no sample is measured for both.
        """
        if self.terms.shape != other.terms.shape:
            raise ValueError(f"terms {self.terms.shape} and {other.terms.shape} are not of the same samples")
        both = self.present & other.present & where
        weights = weights_by_group(_of(both, groups), draws, seed)
        return differences(self.terms[both], other.terms[both], self.statistics, weights)


def _of(taken: np.ndarray, groups: Sequence[str]) -> list[str]:
    return [group for group, here in zip(groups, taken, strict=True) if here]


def column_mean(sums: np.ndarray, column: int) -> np.ndarray:
    """Mean of a column, the last column counting the samples: ``[..., k]`` to ``[...]``; 0 without samples."""
    return ratio(sums[..., column], sums[..., -1])
