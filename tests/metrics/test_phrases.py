"""Phrase measures against a plain loop and numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarrg.metrics.phrases import COSINE, distinct, f1, phrase_hits, precision, recall

# Unit vectors of the plane at angles in degrees; cos 36.9 = 0.8 nearly.
ANGLES = {"a": 0, "near a": 30, "b": 90, "near b": 120, "c": 200}


def at(*names: str) -> np.ndarray:
    angles = np.radians([ANGLES[name] for name in names])
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).reshape(len(names), 2)


@pytest.mark.parametrize(
    ("predicted", "reference", "expected"),
    [
        (["a", "b"], ["near a", "c"], (1, 2, 1, 2)),
        (["a", "near a", "a"], ["a"], (3, 3, 1, 1)),  # each counts for itself
        (["a"], ["a", "near a", "b"], (1, 1, 2, 3)),
        (["a", "near b"], ["c"], (0, 2, 0, 1)),
        ([], ["a", "b"], (0, 0, 0, 2)),
        (["a", "b"], [], (0, 2, 0, 0)),
        ([], [], (0, 0, 0, 0)),
    ],
)
def test_hits_counted_by_hand(predicted, reference, expected):
    assert phrase_hits(at(*predicted), at(*reference)) == expected


def test_the_cosine_itself_is_a_hit():
    one, other = np.array([[1.0, 0.0]]), np.array([[COSINE, 0.6]])
    assert phrase_hits(one, other) == (1, 1, 1, 1)
    assert phrase_hits(one, other, cosine=0.81) == (0, 1, 0, 1)


@given(seed=st.integers(0, 10**6), predicted=st.integers(0, 6), reference=st.integers(0, 6))
@settings(max_examples=60, deadline=None)
def test_hits_agree_with_a_loop(seed, predicted, reference):
    rng = np.random.default_rng(seed)
    left, right = rng.normal(size=(predicted, 3)), rng.normal(size=(reference, 3))
    left /= np.linalg.norm(left, axis=1, keepdims=True)
    right /= np.linalg.norm(right, axis=1, keepdims=True)
    hits = sum(any(float(np.dot(one, other)) >= 0.5 for other in right) for one in left)
    covered = sum(any(float(np.dot(one, other)) >= 0.5 for one in left) for other in right)
    assert phrase_hits(left, right, cosine=0.5) == (hits, predicted, covered, reference)


def test_scores_worked_out_by_hand():
    sums = np.array([(1, 2, 1, 2), (3, 3, 1, 1), (0, 0, 0, 2)]).sum(axis=0)
    assert precision(sums) == pytest.approx(4 / 5)
    assert recall(sums) == pytest.approx(2 / 5)
    assert f1(sums) == pytest.approx(2 / (5 / 4 + 5 / 2))  # harmonic mean


def test_scores_are_zero_where_there_is_nothing():
    sums = np.array([[0, 0, 0, 3], [0, 3, 0, 0], [0, 0, 0, 0], [0, 3, 0, 3]])
    for score in (precision, recall, f1):
        assert score(sums).tolist() == [0, 0, 0, 0]


def test_distinct_counts_different_items():
    assert distinct(["no effusion", "clear lungs", "no effusion"]) == 2
    assert distinct(frozenset(report) for report in (["a", "b"], ["b", "a"], ["a"])) == 2
    assert distinct([]) == 0
