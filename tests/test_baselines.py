"""Baselines against brute force, scikit-learn used directly, and numbers worked out by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

from rarrg import baselines
from rarrg.baselines import LinearProbe, average_by_study, choose_thresholds, frequent_phrases, nearest_phrases
from rarrg.errors import RarrgError

STUDIES = [("clear lungs", "no effusion"), ("no effusion", "normal heart", "clear lungs"), ("no effusion", "rib")]


def test_the_most_frequent_phrases_as_many_as_a_study_has():
    assert frequent_phrases(STUDIES) == ("no effusion", "clear lungs")  # 7 phrases in 3 studies
    assert frequent_phrases([*STUDIES, ("a", "b", "c", "d")]) == ("no effusion", "clear lungs", "a")  # 11 in 4
    assert frequent_phrases([("rare",), (), ()]) == ("rare",)


def test_a_count_may_be_given_and_ties_are_alphabetical():
    assert frequent_phrases(STUDIES, count=4) == ("no effusion", "clear lungs", "normal heart", "rib")
    assert frequent_phrases(STUDIES[::-1], count=4) == frequent_phrases(STUDIES, count=4)
    assert len(frequent_phrases(STUDIES, count=100)) == 4


def test_a_phrase_counts_once_for_a_study():
    assert frequent_phrases([("rib", "rib", "rib"), ("clear",), ("clear",)], count=1) == ("clear",)


def test_no_phrases_are_refused():
    with pytest.raises(ValueError, match="no training study"):
        frequent_phrases([(), ()])


def images(seed: int, train: int = 40, test: int = 15, channels: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    # Channels of very different scale and offset, one of them constant.
    scale, offset = 10.0 ** rng.integers(-2, 3, channels), rng.normal(size=channels) * 50
    scale[0] = 0
    draw = rng.normal(size=(train + test, channels)) * scale + offset
    return draw[:train].astype(np.float32), draw[train:].astype(np.float32)


@pytest.mark.parametrize("block", [1, 7, 40, 8192])
def test_the_nearest_image_is_that_of_a_plain_loop(block, monkeypatch):
    monkeypatch.setattr(baselines, "BLOCK", block)
    train, test = images(3)
    # The constant channel tells nothing, so the loop leaves it out.
    mean, deviation = train[:, 1:].astype(float).mean(axis=0), train[:, 1:].astype(float).std(axis=0)
    names = [(f"phrase {i}", "shared") for i in range(len(train))]
    expected = []
    for image in test:
        query = (image[1:] - mean) / deviation
        cosines = []
        for other in train:
            key = (other[1:] - mean) / deviation
            cosines.append(query @ key / np.linalg.norm(query) / np.linalg.norm(key))
        expected.append(names[int(np.argmax(cosines))])
    assert nearest_phrases(train, names, test) == expected
    assert len(set(expected)) > 3


@pytest.mark.parametrize("block", [2, 8192])
def test_of_equally_near_images_the_first_is_taken(block, monkeypatch):
    monkeypatch.setattr(baselines, "BLOCK", block)
    train = np.array([[-1, -1], [1, 0.5], [1, 0.5], [-1, 0.2], [1, 0.5]], dtype=np.float32)
    assert nearest_phrases(train, [("0",), ("1",), ("2",), ("3",), ("4",)], train[[4, 3]]) == [("1",), ("3",)]


def test_features_in_half_precision_do():
    train = np.random.default_rng(0).normal(300, 1, size=(50, 8)).astype(np.float16)
    names = [(str(i),) for i in range(50)]
    assert nearest_phrases(train, names, train[:5]) == names[:5]


def test_an_image_without_phrases_list_is_refused():
    train, test = images(0)
    with pytest.raises(ValueError, match="40 training images and 39"):
        nearest_phrases(train, [()] * 39, test)


def test_views_are_averaged_by_study():
    values = np.array([[1, 0], [0.5, 0.2], [0, 0.4], [0.2, 0.6]])
    averaged = average_by_study(values, np.array([1, 0, 1, 1]))
    assert averaged == pytest.approx(np.array([[0.5, 0.2], [0.4, 1 / 3]]))
    with pytest.raises(ValueError, match="study 1 has no view"):
        average_by_study(values, np.array([0, 2, 2, 0]))
    with pytest.raises(ValueError, match="4 rows"):
        average_by_study(values, np.array([0, 1]))


def micro(labels, predicted) -> float:
    """F1 of all decisions, 0/0 being 0."""
    return 2 * (labels & predicted).sum() / max(labels.sum() + predicted.sum(), 1)


@given(seed=st.integers(0, 10**6), samples=st.integers(1, 12), labels=st.integers(2, 4))
@settings(max_examples=80, deadline=None)
def test_thresholds_are_as_good_as_any_of_their_kind(seed, samples, labels):
    rng = np.random.default_rng(seed)
    probabilities = rng.integers(0, 6, (samples, labels)) / 5  # with ties and zeros
    truth = rng.random((samples, labels)) < 0.4
    thresholds = choose_thresholds(probabilities, truth)

    tries = [*np.unique(probabilities[probabilities > 0]), np.inf]
    common = max(micro(truth, probabilities >= threshold) for threshold in tries)
    single = np.empty(labels)
    for label in range(labels):
        scores = [micro(truth[:, label], probabilities[:, label] >= threshold) for threshold in tries]
        # The highest of the best; where no threshold hits, never.
        single[label] = max(t for t, s in zip(tries, scores, strict=True) if s == max(scores))
    alone = micro(truth, probabilities >= single)
    assert micro(truth, probabilities >= thresholds) == max(common, alone)
    if alone > common:
        assert thresholds.tolist() == single.tolist()
    else:
        assert len(set(thresholds)) == 1


def test_labels_on_different_scales_get_thresholds_of_their_own():
    probabilities = np.array([[0.9, 0.04], [0.8, 0.03], [0.6, 0.01], [0.5, 0.01]])
    labels = np.array([[1, 1], [1, 1], [0, 0], [0, 0]], dtype=bool)
    assert choose_thresholds(probabilities, labels).tolist() == [0.8, 0.03]


def test_a_label_that_is_hard_to_see_does_not_cost_the_others():
    rng = np.random.default_rng(0)
    seen = np.arange(200) < 60
    hard = rng.permutation(np.arange(200) < 4)
    # Its one hit of its own needs some dozens of false positives.
    probabilities = np.stack([np.where(seen, 0.9, 0.1), 0.02 + 0.01 * rng.random(200)], axis=1)
    thresholds = choose_thresholds(probabilities, np.stack([seen, hard], axis=1))
    assert thresholds.tolist() == [0.9, 0.9]


def test_what_no_validation_sample_has_is_never_predicted_alone():
    probabilities = np.array([[0.9, 0.02, 0.95], [0.2, 0.01, 0.95], [0.1, 0.0, 0.95]])
    labels = np.array([[1, 1, 0], [0, 0, 0], [0, 0, 0]], dtype=bool)
    assert choose_thresholds(probabilities, labels).tolist() == [0.9, 0.02, np.inf]
    assert choose_thresholds(probabilities, np.zeros_like(labels)).tolist() == [np.inf] * 3


def test_probability_zero_is_never_predicted():
    probabilities, labels = np.zeros((5, 2)), np.ones((5, 2), dtype=bool)
    assert not (probabilities >= choose_thresholds(probabilities, labels)).any()


def findings(seed: int = 0, train: int = 300, val: int = 150, channels: int = 20):
    """Features whose first channels tell the first labels; label 3 is noise and rare."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(train + val, channels)).astype(np.float32)
    truth = np.zeros((train + val, 4), dtype=bool)
    for label in range(3):
        truth[:, label] = features[:, label] + 0.5 * rng.normal(size=train + val) > 0.6 + 0.3 * label
    truth[:, 3] = rng.random(train + val) < 0.05
    features = features * 3 + 7
    return features[:train], truth[:train], features[train:], truth[train:]


@pytest.fixture(scope="module")
def data():
    return findings()


@pytest.fixture(scope="module")
def probe(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # ConvergenceWarning among them
        return LinearProbe.fit(*data)


def test_the_probe_is_scikit_learn_with_the_penalty_best_on_validation(data, probe):
    train, train_labels, val, val_labels = data
    mean, deviation = train.astype(float).mean(axis=0), train.astype(float).std(axis=0)
    by_penalty = {}
    for penalty in baselines.INVERSE_PENALTIES:
        columns = []
        for label in range(4):
            model = LogisticRegression(C=penalty, max_iter=5000, tol=1e-8)
            model.fit((train - mean) / deviation, train_labels[:, label])
            columns.append(model.predict_proba((val - mean) / deviation)[:, 1])
        by_penalty[penalty] = np.stack(columns, axis=1)
    precision = {
        penalty: average_precision_score(val_labels.ravel(), probabilities.ravel())
        for penalty, probabilities in by_penalty.items()
    }
    assert probe.inverse_penalty == max(precision, key=precision.get)
    assert probe.predict_proba(val) == pytest.approx(by_penalty[probe.inverse_penalty], abs=2e-3)


def test_the_probe_finds_what_the_features_tell(data, probe):
    _, _, val, val_labels = data
    predicted = probe.predict(val)
    assert predicted.dtype == bool
    assert (predicted == (probe.predict_proba(val) >= probe.thresholds)).all()
    assert probe.thresholds.tolist() == choose_thresholds(probe.predict_proba(val), val_labels).tolist()
    _, _, fresh, truth = findings(seed=1)
    assert micro(truth[:, :3], probe.predict(fresh)[:, :3]) > 0.7


def test_the_probe_does_not_depend_on_the_scale_of_a_channel(data, probe):
    train, train_labels, val, val_labels = data
    scale = np.logspace(-2, 2, train.shape[1], dtype=np.float32)
    scaled = LinearProbe.fit(train * scale, train_labels, val * scale, val_labels)
    assert scaled.predict_proba(val * scale) == pytest.approx(probe.predict_proba(val), abs=2e-3)


def test_a_finding_without_training_images_is_never_predicted(data):
    train, train_labels, val, val_labels = data
    train_labels = train_labels.copy()
    train_labels[:, 2] = False
    probe = LinearProbe.fit(train, train_labels, val, val_labels)
    assert val_labels[:, 2].any()
    assert (probe.predict_proba(val)[:, 2] == 0).all()
    assert not probe.predict(val)[:, 2].any()
    assert probe.predict(val).any()


def test_a_finding_of_every_training_image_is_always_probable(data):
    train, train_labels, val, val_labels = data
    probe = LinearProbe.fit(train, train_labels | [True, False, False, False], val, val_labels)
    assert (probe.predict_proba(val)[:, 0] == 1).all()


def test_validation_without_findings_is_refused(data):
    train, train_labels, val, val_labels = data
    with pytest.raises(RarrgError, match="none of the 150 validation images") as raised:
        LinearProbe.fit(train, train_labels, val, np.zeros_like(val_labels))
    assert "\n" not in str(raised.value)


def test_study_level_thresholds_come_from_averaged_probabilities(data, probe):
    _, _, val, val_labels = data
    study = np.arange(len(val)) // 2
    averaged = average_by_study(probe.predict_proba(val), study)
    labels = average_by_study(val_labels, study) > 0
    assert averaged[3] == pytest.approx(probe.predict_proba(val)[6:8].mean(axis=0))
    thresholds = choose_thresholds(averaged, labels)
    # Those of single views would do worse: here an average is flatter than what it averages.
    assert micro(labels, averaged >= thresholds) > micro(labels, averaged >= probe.thresholds)
