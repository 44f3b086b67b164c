"""Agreement of retrieved with reference key phrases, and how varied a system's output is."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np

from rarrg.metrics.bootstrap import ratio

COSINE = 0.8
"""Cosine from which two phrases count as saying the same."""


def phrase_hits(predicted: np.ndarray, reference: np.ndarray, cosine: float = COSINE) -> tuple[int, int, int, int]:
    """Phrases of one sample that have a counterpart on the other side.

    A phrase may be the counterpart of several. A phrase given twice counts twice.

    Args:
        predicted: Embeddings of the retrieved phrases, unit length, ``[predicted, dim]``; 0 rows are allowed.
        reference: Embeddings of the reference phrases, unit length, ``[reference, dim]``; 0 rows are allowed.
        cosine: Cosine from which a phrase is a counterpart, in [-1, 1].

    Returns:
        Retrieved phrases with a counterpart among the reference, all retrieved phrases, reference phrases with a
        counterpart among the retrieved, all reference phrases.
    """
    same = predicted @ reference.T >= cosine
    return int(same.any(axis=1).sum()), len(predicted), int(same.any(axis=0).sum()), len(reference)


def precision(sums: np.ndarray) -> np.ndarray:
    """Share of retrieved phrases that hit: sums of :func:`phrase_hits` ``[..., 4]`` to ``[...]``; 0/0 is 0."""
    return ratio(sums[..., 0], sums[..., 1])


def recall(sums: np.ndarray) -> np.ndarray:
    """Share of reference phrases that are hit: sums of :func:`phrase_hits` ``[..., 4]`` to ``[...]``; 0/0 is 0."""
    return ratio(sums[..., 2], sums[..., 3])


def f1(sums: np.ndarray) -> np.ndarray:
    """Harmonic mean of :func:`precision` and :func:`recall`, ``[..., 4]`` to ``[...]``; 0 where both are 0."""
    found, covered = precision(sums), recall(sums)
    return ratio(2 * found * covered, found + covered)


def distinct(items: Iterable[Hashable]) -> int:
    """Number of different items (phrases, or whole reports)."""
    return len(set(items))
