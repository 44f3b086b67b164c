"""Figures from CheXbert's classes against scikit-learn, the formulas of PromptMRG, and numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score

from rarrg.metrics.chexbert import chexbert_labels, chexbert_measures, positive
from rarrg.metrics.finding_terms import OBSERVATIONS


def classes(reports: int) -> st.SearchStrategy[np.ndarray]:
    return st.tuples(
        arrays(np.int64, (reports, 13), elements=st.integers(0, 3)),
        arrays(np.int64, (reports, 1), elements=st.integers(0, 1)),
    ).map(lambda parts: np.concatenate(parts, axis=1))


pairs = st.integers(1, 8).flatmap(lambda reports: st.tuples(classes(reports), classes(reports)))


def report(**said: int) -> list[int]:
    """Classes of a report; what is not named is blank."""
    named = {name.replace(" ", "_"): name for name in OBSERVATIONS}
    return [said.get(short, 0) for short in named]


def test_the_observations_are_in_chexberts_order():
    assert OBSERVATIONS == (
        "Enlarged Cardiomediastinum", "Cardiomegaly", "Lung Opacity", "Lung Lesion", "Edema", "Consolidation",
        "Pneumonia", "Atelectasis", "Pneumothorax", "Pleural Effusion", "Pleural Other", "Fracture", "Support Devices",
        "No Finding",
    )  # fmt: skip


def test_figures_worked_out_by_hand():
    references = np.array([
        report(Cardiomegaly=1, Edema=1, Pneumonia=3),
        report(Cardiomegaly=2, No_Finding=1),
        report(Edema=3),
    ])  # fmt: skip
    hypotheses = np.array([
        report(Cardiomegaly=1, Edema=2, Pneumonia=1),
        report(Cardiomegaly=1, No_Finding=1),
        report(Edema=1),
    ])  # fmt: skip
    # TP: cardiomegaly 1, no finding 1; FP: pneumonia, cardiomegaly, edema; FN: edema. 42 decisions.
    values = chexbert_measures(references, hypotheses).values()
    assert values["chexbert_micro_precision"] == pytest.approx(2 / 5)
    assert values["chexbert_micro_recall"] == pytest.approx(2 / 3)
    assert values["chexbert_micro_f1"] == pytest.approx(4 / 8)
    assert values["chexbert_micro_specificity"] == pytest.approx((42 - 6) / (42 - 3))
    # cardiomegaly P 1/2 R 1 F1 2/3; edema 0; pneumonia 0; no finding 1; the ten others 0/0
    assert values["chexbert_macro_f1"] == pytest.approx((2 / 3 + 1) / 14)
    assert values["chexbert_macro_precision"] == pytest.approx((1 / 2 + 1) / 14)
    assert values["chexbert_macro_recall"] == pytest.approx((1 + 1) / 14)
    # reports: P 1/2 R 1/2 F1 1/2; P 1/2 R 1 F1 2/3; P 0 (R 0/0)
    assert values["chexbert_example_precision"] == pytest.approx((1 / 2 + 1 / 2 + 0) / 3)
    assert values["chexbert_example_recall"] == pytest.approx((1 / 2 + 1 + 0) / 3)
    assert values["chexbert_example_f1"] == pytest.approx((1 / 2 + 2 / 3 + 0) / 3)
    # Uncertain as positive: pneumonia and the third report's edema become true positives.
    uncertain = chexbert_measures(references, hypotheses, uncertain=True).values()
    assert uncertain["chexbert_uncertain_micro_f1"] == pytest.approx(8 / 10)
    assert uncertain["chexbert_uncertain_example_f1"] == pytest.approx((4 / 5 + 2 / 3 + 1) / 3)


def test_nothing_on_either_side_scores_zero():
    blank = np.zeros((2, 14), dtype=np.int64)
    values = chexbert_measures(blank, blank).values()
    assert values.pop("chexbert_micro_specificity") == 1
    assert set(values.values()) == {0}


@given(pairs)
@settings(max_examples=60, deadline=None)
def test_figures_agree_with_scikit_learn(pair):
    truth, said = ((side == 1) for side in pair)
    measured = chexbert_measures(*pair)
    values = measured.values()
    scores = {"precision": precision_score, "recall": recall_score, "f1": f1_score}
    for average in ("micro", "macro", "example"):
        for name, score in scores.items():
            expected = score(truth, said, average="samples" if average == "example" else average, zero_division=0)
            assert values[f"chexbert_{average}_{name}"] == pytest.approx(expected)
    # The specificity is the recall of what is absent.
    expected = recall_score(~truth.ravel(), ~said.ravel(), zero_division=0)
    assert values["chexbert_micro_specificity"] == pytest.approx(expected)
    each = [f1_score(a, b, zero_division=0) for a, b in zip(truth, said, strict=True)]
    assert measured.per_sample()["chexbert_example_f1"] == pytest.approx(each)


@given(pairs)
@settings(max_examples=30, deadline=None)
def test_uncertain_as_positive_is_the_other_reading(pair):
    truth, said = (np.isin(side, (1, 3)) for side in pair)
    values = chexbert_measures(*pair, uncertain=True).values()
    for average in ("micro", "macro"):
        expected = f1_score(truth, said, average=average, zero_division=0)
        assert values[f"chexbert_uncertain_{average}_f1"] == pytest.approx(expected)


@given(pairs)
@settings(max_examples=30, deadline=None)
def test_labels_have_accuracy_and_specificity(pair):
    truth, said = ((side == 1) for side in pair)
    for column, score in enumerate(chexbert_labels(*pair)):
        assert score.label == OBSERVATIONS[column]
        assert score.accuracy == pytest.approx(accuracy_score(truth[:, column], said[:, column]))
        expected = recall_score(~truth[:, column], ~said[:, column], zero_division=0)
        assert score.specificity == pytest.approx(expected)


def test_draws_agree_with_scikit_learn_on_resampled_reports():
    rng = np.random.default_rng(0)
    sides = rng.integers(0, 2, (2, 30, 14))
    found = chexbert_measures(*sides).estimates(np.ones(30, dtype=bool), list(map(str, range(30))), draws=40, seed=1)
    picks = np.random.default_rng(1).integers(30, size=(40, 30))
    drawn = [recall_score(~(sides[0] == 1)[pick].ravel(), ~(sides[1] == 1)[pick].ravel()) for pick in picks]
    assert found["chexbert_micro_specificity"][1:] == pytest.approx(np.percentile(drawn, [2.5, 97.5]))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.zeros((2, 13), dtype=int), "14"),
        (np.zeros((2, 14)), "integers"),
        (np.zeros(14, dtype=int), "14"),
        (np.full((2, 14), -1), "between 0 and 3"),
        (np.array([[0] * 12 + [4, 0]]), "between 0 and 3"),
        (np.array([[0] * 13 + [2]]), "No Finding"),
    ],
)
def test_what_are_no_classes_is_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        positive(bad)


def test_sides_of_other_lengths_are_refused():
    with pytest.raises(ValueError, match="alike"):
        chexbert_measures(np.zeros((2, 14), dtype=int), np.zeros((3, 14), dtype=int))
