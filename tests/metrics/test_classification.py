"""Label measures against scikit-learn and numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import f1_score, multilabel_confusion_matrix, precision_score, recall_score

from rarrg.metrics.classification import confusion, example_f1_terms, macro_f1, mean, micro_f1, per_label

TRUTH = np.array([[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]], dtype=bool)
PREDICTED = np.array([[1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]], dtype=bool)

label_pairs = st.tuples(st.integers(1, 12), st.integers(2, 6)).flatmap(
    lambda shape: st.tuples(arrays(bool, shape), arrays(bool, shape))
)


def test_counts_stand_as_tp_fp_fn_of_each_sample():
    assert confusion(TRUTH, PREDICTED).tolist() == [
        [1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0],
        [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ]


def test_scores_worked_out_by_hand():
    sums = confusion(TRUTH, PREDICTED).sum(axis=0)
    # tp 2 1 0 0, fp 0 1 1 0, fn 0 1 0 0: F1 by label 1, 1/2, 0 and 0/0.
    assert micro_f1(sums) == pytest.approx(6 / 9)
    assert macro_f1(sums) == pytest.approx((1 + 0.5 + 0 + 0) / 4)
    terms = example_f1_terms(TRUTH, PREDICTED)
    assert terms[:, 0] == pytest.approx([2 / 4, 2 / 3, 0, 1])
    assert mean(terms.sum(axis=0)) == pytest.approx((2 / 4 + 2 / 3 + 0 + 1) / 4)


def test_nothing_true_and_nothing_predicted_scores_zero():
    nothing = np.zeros((3, 2), dtype=bool)
    sums = confusion(nothing, nothing).sum(axis=0)
    assert micro_f1(sums) == 0
    assert macro_f1(sums) == 0
    assert mean(example_f1_terms(nothing, nothing).sum(axis=0)) == 0
    assert mean(np.zeros(2)) == 0
    (score, _) = per_label(nothing, nothing, ["a", "b"])
    assert (score.precision, score.recall, score.f1, score.specificity, score.accuracy) == (0, 0, 0, 1, 1)


@given(label_pairs)
@settings(max_examples=100, deadline=None)
def test_f1_agrees_with_scikit_learn(pair):
    truth, predicted = pair
    sums = confusion(truth, predicted).sum(axis=0)
    assert float(micro_f1(sums)) == pytest.approx(f1_score(truth, predicted, average="micro", zero_division=0))
    assert float(macro_f1(sums)) == pytest.approx(f1_score(truth, predicted, average="macro", zero_division=0))
    example = mean(example_f1_terms(truth, predicted).sum(axis=0))
    assert float(example) == pytest.approx(f1_score(truth, predicted, average="samples", zero_division=0))


@given(label_pairs)
@settings(max_examples=100, deadline=None)
def test_label_scores_agree_with_scikit_learn(pair):
    truth, predicted = pair
    names = [f"label {i}" for i in range(truth.shape[1])]
    scores = per_label(truth, predicted, names)
    assert [score.label for score in scores] == names
    precision = precision_score(truth, predicted, average=None, zero_division=0)
    recall = recall_score(truth, predicted, average=None, zero_division=0)
    f1 = f1_score(truth, predicted, average=None, zero_division=0)
    # The specificity of a label is the recall of its absence.
    specificity = recall_score(~truth, ~predicted, average=None, zero_division=0)
    accuracy = (truth == predicted).mean(axis=0)
    for i, ((tn, fp), (fn, tp)) in enumerate(multilabel_confusion_matrix(truth, predicted)):
        score = scores[i]
        assert (score.tp, score.fp, score.fn) == (tp, fp, fn)
        assert (score.support, score.predicted) == (truth[:, i].sum(), predicted[:, i].sum())
        assert (score.precision, score.recall, score.f1) == pytest.approx((precision[i], recall[i], f1[i]))
        assert (score.specificity, score.accuracy) == pytest.approx((specificity[i], accuracy[i]))
        assert len(truth) - score.tp - score.fp - score.fn == tn


def test_scores_take_any_leading_shape():
    stacked = np.stack([confusion(TRUTH, PREDICTED).sum(axis=0), confusion(TRUTH, TRUTH).sum(axis=0)])[None]
    assert micro_f1(stacked) == pytest.approx(np.array([[6 / 9, 1]]))
    assert macro_f1(stacked) == pytest.approx(np.array([[1.5 / 4, 2 / 4]]))
    assert mean(np.array([[[1.0, 4.0], [3.0, 4.0]]])) == pytest.approx(np.array([[0.25, 0.75]]))


def test_labels_as_zeros_and_ones_count_alike():
    assert (confusion(TRUTH.astype(int), PREDICTED.astype(int)) == confusion(TRUTH, PREDICTED)).all()


def test_shapes_that_differ_are_refused():
    with pytest.raises(ValueError, match="alike"):
        confusion(TRUTH, PREDICTED[:, :3])
    with pytest.raises(ValueError, match="alike"):
        example_f1_terms(TRUTH[0], PREDICTED[0])
    with pytest.raises(ValueError, match="argument 2"):
        per_label(TRUTH, PREDICTED, ["too", "few"])
