from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import f1_score

from rarrg.metrics.bootstrap import Estimate, resampling_weights
from rarrg.metrics.systems import COUNTS, MEASURES, SystemOutput, lead, measure, phrase_terms

RNG = np.random.default_rng(0)
EMBEDDINGS = {"a": np.array([1.0, 0.0]), "a too": np.array([0.9, np.sqrt(0.19)]), "b": np.array([0.0, 1.0])}


def outputs(studies: int = 40) -> tuple[SystemOutput, SystemOutput]:
    truth, said = RNG.random((2, studies, 5)) < 0.3
    return SystemOutput(said, [("a",)] * studies), SystemOutput(truth, [("a too", "b")] * studies)


def test_values_are_those_of_scikit_learn_and_of_the_phrases_by_hand() -> None:
    ours, reference = outputs()
    measured = measure(ours, reference, EMBEDDINGS, resampling_weights(40, 200, 0))
    assert tuple(measured) == MEASURES
    for name, average in (("micro", "micro"), ("macro", "macro"), ("example", "samples")):
        expected = f1_score(reference.findings, ours.findings, average=average, zero_division=0)
        estimate = measured[f"findings_{name}_f1"]
        assert estimate is not None
        assert estimate.value == pytest.approx(expected)
        assert estimate.low < estimate.value < estimate.high
    # "a" finds "a too" (cosine 0.9), "b" stays unsaid: precision 1, recall 1/2, F1 2/3
    for name, expected in (("precision", 1.0), ("recall", 0.5), ("f1", 2 / 3)):
        assert measured[f"phrase_{name}"] == pytest.approx((expected, expected, expected))


def test_counts_are_of_the_studies_at_hand_and_know_no_order() -> None:
    findings = np.zeros((3, 1), dtype=bool)
    ours = SystemOutput(findings, [("a", "b"), ("b", "a"), ("a",)])
    measured = measure(ours, ours, EMBEDDINGS, resampling_weights(3, 10, 0))
    assert [measured[name] for name in COUNTS] == [Estimate(2, 2, 2), Estimate(2, 2, 2)]


def test_a_system_without_phrases_has_findings_alone() -> None:
    ours, reference = outputs()
    measured = measure(SystemOutput(ours.findings, None), reference, EMBEDDINGS, resampling_weights(40, 10, 0))
    assert [name for name in MEASURES if measured[name] is None] == [*MEASURES[3:]]


def test_a_study_that_says_nothing_hits_nothing() -> None:
    assert phrase_terms([()], [("a",)], EMBEDDINGS).tolist() == [[0, 0, 0, 1]]
    assert phrase_terms([("a",)], [()], EMBEDDINGS).tolist() == [[0, 1, 0, 0]]


def test_a_lead_is_paired() -> None:
    ours, reference = outputs(60)
    weights = resampling_weights(60, 500, 1)
    assert all(value == (0, 0, 0) for value in lead(ours, ours, reference, weights).values())
    perfect = SystemOutput(reference.findings, None)
    ahead = lead(perfect, ours, reference, weights)
    alone = measure(ours, reference, EMBEDDINGS, weights)
    for name, value in ahead.items():
        theirs = alone[name]
        assert theirs is not None
        # the perfect system has F1 1 in every draw, so the lead is 1 - theirs draw by draw
        assert value == pytest.approx((1 - theirs.value, 1 - theirs.high, 1 - theirs.low))
