"""Batches and devices add up to the measures of all reports at once."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

from rarrg.metrics.chexbert import chexbert_measures
from rarrg.metrics.comparison_terms import comparison_measures
from rarrg.metrics.nlg import nlg_measures, tokenise
from rarrg.metrics.radgraph_f1 import radgraph_measures
from rarrg.metrics.streaming import CheXbertMetric, ComparisonTermsMetric, NlgMetric, RadGraphMetric

RNG = np.random.default_rng(0)
WORDS = np.array("No stable pleural effusion , unchanged heart .".split())
TEXTS = [[" ".join(RNG.choice(WORDS, RNG.integers(0, 9))) for _ in range(11)] for _ in range(2)]
CLASSES = np.concatenate([RNG.integers(0, 4, (2, 11, 13)), RNG.integers(0, 2, (2, 11, 1))], axis=2)


def annotation(row: int, side: int) -> dict | None:
    if row % 4 == 3 and side:
        return None
    words = RNG.choice(["heart", "clear", "lung"], 3)
    return {
        "entities": {
            str(n): {"tokens": word, "label": "OBS-DP", "relations": [["modify", "1"]] if n else []}
            for n, word in enumerate(words)
        }
    }


ANNOTATIONS = [[annotation(row, side) for row in range(11)] for side in range(2)]
CASES = {
    "nlg": (NlgMetric, TEXTS, lambda *sides: nlg_measures(*([tokenise(text) for text in side] for side in sides))),
    "comparison": (ComparisonTermsMetric, TEXTS[1:], comparison_measures),
    "chexbert": (CheXbertMetric, CLASSES, chexbert_measures),
    "uncertain": (
        lambda: CheXbertMetric(uncertain=True), CLASSES, lambda *sides: chexbert_measures(*sides, uncertain=True)
    ),
    "radgraph": (RadGraphMetric, ANNOTATIONS, radgraph_measures),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_batches_and_devices_add_up(case):
    build, sides, measure = CASES[case]
    expected = measure(*sides).values()
    assert any(expected.values())
    metric, elsewhere = build(), build()
    for start in range(0, 6, 2):
        metric.update(*(side[start : start + 2] for side in sides))
    elsewhere.update(*(side[6:] for side in sides))
    other = {name: getattr(elsewhere, name) for name in ("sums", "missing")}
    # What torchmetrics does with the states of two devices.
    for name, reduce in metric._reductions.items():
        setattr(metric, name, reduce(torch.stack([getattr(metric, name), other[name]])))
    found = metric.compute()
    assert {name: float(value) for name, value in found.items()} == pytest.approx(expected)
    assert all(value.dtype == torch.float64 for value in found.values())
    assert int(metric.missing) == (2 if case == "radgraph" else 0)


@pytest.mark.parametrize("case", CASES)
def test_a_metric_can_be_reset_copied_and_called(case):
    build, sides, measure = CASES[case]
    metric = build()
    of_batch = metric(*(side[:2] for side in sides))
    assert {name: float(value) for name, value in of_batch.items()} == pytest.approx(
        measure(*(side[:2] for side in sides)).values()
    )
    metric(*(side[2:] for side in sides))
    for same in (metric, copy.deepcopy(metric), pickle.loads(pickle.dumps(metric)), metric.clone()):
        values = {name: float(value) for name, value in same.compute().items()}
        assert values == pytest.approx(measure(*sides).values())
    metric.reset()
    assert not metric.sums.any()
    assert not metric.missing
