"""The bootstrap against a plain loop that picks samples, and against the known interval of a proportion."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rarrg.metrics import classification, phrases
from rarrg.metrics.bootstrap import differences, estimate, estimates, ratio, resampling_weights
from rarrg.metrics.classification import confusion, example_f1_terms


def first_over_second(sums: np.ndarray) -> np.ndarray:
    return ratio(sums[..., 0], sums[..., 1])


def test_each_draw_picks_as_many_samples_as_there_are():
    weights = resampling_weights(samples=7, draws=5000, seed=0)
    assert weights.shape == (5000, 7)
    assert np.issubdtype(weights.dtype, np.integer)
    assert (weights >= 0).all()
    assert (weights.sum(axis=1) == 7).all()
    # Multinomial(n, 1/n): mean 1, variance 1 - 1/n, covariance -1/n.
    expected = np.eye(7) - 1 / 7
    assert np.allclose(weights.mean(axis=0), 1, atol=0.06)
    assert np.allclose(np.cov(weights, rowvar=False), expected, atol=0.08)


def test_weights_follow_the_seed():
    assert (resampling_weights(20, 10, 3) == resampling_weights(20, 10, 3)).all()
    assert (resampling_weights(20, 10, 3) != resampling_weights(20, 10, 4)).any()


def test_one_sample_has_no_spread():
    assert (resampling_weights(1, 4, 0) == 1).all()
    assert estimate(np.array([[3, 4]]), first_over_second, resampling_weights(1, 4, 0)) == (0.75, 0.75, 0.75)


@pytest.mark.parametrize(("samples", "draws"), [(0, 5), (5, 0)])
def test_no_samples_or_draws_are_refused(samples, draws):
    with pytest.raises(ValueError, match="at least 1"):
        resampling_weights(samples, draws, 0)


def random_labels(samples: int = 60, labels: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    truth = rng.random((samples, labels)) < [0.5, 0.3, 0.1, 0.02, 0.0]
    return truth, truth ^ (rng.random((samples, labels)) < 0.2)


@pytest.mark.parametrize(
    ("terms", "statistic"),
    [
        (confusion(*random_labels()), classification.micro_f1),
        (confusion(*random_labels()), classification.macro_f1),
        (example_f1_terms(*random_labels()), classification.mean),
        (np.random.default_rng(2).integers(0, 4, (60, 1)) + np.array([[0, 4, 0, 4]]), phrases.f1),
    ],
    ids=["micro", "macro", "example", "phrases"],
)
def test_the_matrix_product_equals_a_loop_that_picks_rows(terms, statistic):
    weights = resampling_weights(len(terms), draws=300, seed=5)
    drawn = []
    for counts in weights:
        resample = [terms[index] for index, count in enumerate(counts) for _ in range(count)]
        drawn.append(float(statistic(np.sum(resample, axis=0))))
    value, low, high = estimate(terms, statistic, weights, level=0.9)
    assert value == pytest.approx(float(statistic(terms.sum(axis=0))))
    assert low == pytest.approx(np.percentile(drawn, 5))
    assert high == pytest.approx(np.percentile(drawn, 95))
    assert low < value < high


def test_the_interval_of_a_proportion_is_the_known_one():
    hits = np.arange(1000) < 300
    terms = np.stack([hits, np.ones(1000)], axis=1)
    value, low, high = estimate(terms, first_over_second, resampling_weights(1000, 10_000, 0))
    half = 1.959964 * np.sqrt(0.3 * 0.7 / 1000)
    assert value == 0.3
    assert low == pytest.approx(0.3 - half, abs=0.002)
    assert high == pytest.approx(0.3 + half, abs=0.002)


def test_a_wider_level_gives_a_wider_interval():
    terms = confusion(*random_labels())
    weights = resampling_weights(len(terms), 500, 0)
    _, low_90, high_90 = estimate(terms, classification.micro_f1, weights, level=0.9)
    _, low_99, high_99 = estimate(terms, classification.micro_f1, weights, level=0.99)
    assert low_99 < low_90 < high_90 < high_99


def test_weights_of_another_number_of_samples_are_refused():
    with pytest.raises(ValueError, match="do not fit"):
        estimate(np.ones((5, 2)), first_over_second, resampling_weights(6, 10, 0))
    with pytest.raises(ValueError, match="do not fit"):
        estimate(np.ones(5), first_over_second, resampling_weights(5, 10, 0))


@pytest.mark.parametrize("level", [0, 1, 95])
def test_a_level_that_is_no_share_is_refused(level):
    with pytest.raises(ValueError, match="level"):
        estimate(np.ones((5, 2)), first_over_second, resampling_weights(5, 10, 0), level=level)


def test_measures_over_the_same_terms_are_estimated_as_each_alone():
    terms = confusion(*random_labels())
    weights = resampling_weights(len(terms), 200, 0)
    both = estimates(terms, {"micro": classification.micro_f1, "macro": classification.macro_f1}, weights)
    assert both == {
        "micro": estimate(terms, classification.micro_f1, weights),
        "macro": estimate(terms, classification.macro_f1, weights),
    }


def test_a_difference_equals_a_loop_that_picks_the_same_rows_of_both():
    truth, ours = random_labels()
    theirs = truth ^ (np.random.default_rng(9).random(truth.shape) < 0.3)
    terms = confusion(truth, ours), confusion(truth, theirs)
    weights = resampling_weights(len(truth), draws=400, seed=2)
    drawn = []
    for counts in weights:
        rows = np.repeat(np.arange(len(truth)), counts)
        drawn.append(float(np.subtract(*(classification.micro_f1(side[rows].sum(axis=0)) for side in terms))))
    value, low, high, p_value = differences(*terms, {"f1": classification.micro_f1}, weights)["f1"]
    assert value == pytest.approx(float(np.subtract(*(classification.micro_f1(side.sum(axis=0)) for side in terms))))
    assert (low, high) == pytest.approx(tuple(np.percentile(drawn, [2.5, 97.5])))
    below = sum(difference <= 0 for difference in drawn)
    assert 0 < below < 40  # ours is ahead, though not in every draw
    assert p_value == pytest.approx(2 * (below + 1) / 401)
    behind = differences(*terms[::-1], {"f1": classification.micro_f1}, weights)["f1"]
    assert behind == pytest.approx((-value, -high, -low, p_value))


def test_the_p_value_of_a_mean_is_about_that_of_a_z_test():
    rng = np.random.default_rng(0)
    gain = rng.normal(size=400)
    gain += 2.2 / np.sqrt(400) - gain.mean()  # z is 2.2 by its standard deviation of about 1
    theirs = rng.normal(size=400)
    sides = (np.stack([values, np.ones(400)], axis=1) for values in (theirs + gain, theirs))
    found = differences(*sides, {"mean": first_over_second}, resampling_weights(400, 10_000, 0))["mean"]
    z = 2.2 / gain.std()
    assert found.p_value == pytest.approx(math.erfc(z / math.sqrt(2)), abs=0.006)
    assert found.low > 0


def test_equal_systems_differ_by_nothing():
    terms = np.stack([np.random.default_rng(0).random(50), np.ones(50)], axis=1)
    found = differences(terms, terms.copy(), {"mean": first_over_second}, resampling_weights(50, 300, 0))["mean"]
    assert found == (0, 0, 0, 1)
    # 0.1 + 0.2 is not 0.3 in floating point
    parts, whole = np.array([[0.1, 0.2]]), np.array([[0.3, 0.0]])
    found = differences(parts, whole, {"sum": lambda sums: sums.sum(axis=-1)}, resampling_weights(1, 300, 0))["sum"]
    assert found == pytest.approx((0, 0, 0, 1), abs=1e-12)


def test_no_p_value_is_zero():
    ones = np.ones((20, 2))
    ahead = differences(ones, ones * [0, 1], {"mean": first_over_second}, resampling_weights(20, 99, 0))["mean"]
    assert ahead == (1, 1, 1, 2 / 100)


def test_a_ratio_without_denominator_is_zero():
    assert ratio(np.array([1, 0, 3]), np.array([2, 0, 4])).tolist() == [0.5, 0, 0.75]
    assert ratio(np.array([[1.0], [2.0]]), np.array([2.0, 0.0])).tolist() == [[0.5, 0], [1, 0]]
