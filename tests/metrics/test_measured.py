"""Measures over parts of the samples, and paired differences."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from rarrg.metrics.measured import Measured, column_mean


def measured(values: list[float]) -> Measured:
    """The mean of values; NaN is a sample that is not measured."""
    present = ~np.isnan(values)
    terms = np.where(present[:, None], np.stack([values, np.ones(len(values))], axis=1), 0)
    return Measured(terms, {"mean": partial(column_mean, column=0)}, ("mean",), present)


def test_what_is_not_measured_enters_nothing():
    nan = float("nan")
    found = measured([1.0, nan, 3.0, 8.0])
    assert found.values() == {"mean": 4}
    assert np.array_equal(found.per_sample()["mean"], [1, nan, 3, 8], equal_nan=True)
    where = np.array([True, True, True, False])
    assert found.estimates(where, "abcd", 200, 0)["mean"] == (2, 1, 3)
    with pytest.raises(ValueError, match="at least 1 sample"):
        found.estimates(np.array([False, True, False, False]), "abcd", 10, 0)


def test_differences_are_over_what_both_have():
    nan = float("nan")
    ours, theirs = measured([1.0, 2.0, nan, 9.0, 5.0]), measured([0.0, 2.0, 7.0, nan, 50.0])
    where = np.array([True, True, True, True, False])
    ahead = ours.differences(theirs, where, "abcde", 500, 0)["mean"]
    assert (ahead.value, ahead.low, ahead.high) == (0.5, 0, 1)
    with pytest.raises(ValueError, match="not of the same samples"):
        ours.differences(measured([1.0]), where, "abcde", 10, 0)


def test_samples_of_one_group_are_resampled_together():
    """Ten copies of each sample say no more than one."""
    generator = np.random.default_rng(0)
    values, others = generator.random(40), generator.random(40)
    names = list(map(str, range(40)))
    once = measured(values).estimates(np.ones(40, dtype=bool), names, 400, 0)["mean"]
    copies, all_of_them = measured(np.repeat(values, 10)), np.ones(400, dtype=bool)
    copied = copies.estimates(all_of_them, np.repeat(names, 10).tolist(), 400, 0)["mean"]
    np.testing.assert_allclose(copied, once, rtol=1e-12)
    apart = copies.estimates(all_of_them, list(map(str, range(400))), 400, 0)["mean"]
    assert apart.high - apart.low < 0.5 * (once.high - once.low)

    ahead = measured(values).differences(measured(others), np.ones(40, dtype=bool), names, 400, 0)["mean"]
    groups = np.repeat(names, 10).tolist()
    of_copies = copies.differences(measured(np.repeat(others, 10)), all_of_them, groups, 400, 0)["mean"]
    np.testing.assert_allclose(of_copies, ahead, rtol=1e-9, atol=1e-12)


def test_no_samples_have_mean_zero():
    assert column_mean(np.zeros((2, 3)), 1).tolist() == [0, 0]
