"""RadGraph F1 worked out by hand, and its entity part against the package's own simple reward."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarrg.metrics.radgraph_f1 import entities_and_relations, radgraph_measures

XL = {
    "OBS-DP": "Observation::definitely present",
    "OBS-DA": "Observation::definitely absent",
    "ANAT-DP": "Anatomy::definitely present",
}


def annotate(*rows: tuple[str, str] | tuple[str, str, str], labels: dict[str, str] | None = None) -> dict[str, Any]:
    """An annotation from rows of tokens, label and, if any, relations as "modify 2, located_at 3"."""
    entities = {
        str(number): {
            "tokens": tokens,
            "label": labels[label] if labels else label,
            "start_ix": number,
            "end_ix": number,
            "relations": [pair.split() for pair in "".join(relations).split(", ") if pair],
        }
        for number, (tokens, label, *relations) in enumerate(rows, start=1)
    }
    return {"text": "any", "entities": entities, "data_source": None, "data_split": "inference"}


REFERENCE = (
    ("small", "OBS-DP", "modify 3, modify 2"),
    ("pleural", "ANAT-DP"),
    ("effusion", "OBS-DP", "located_at 2"),
    ("pneumothorax", "OBS-DA"),
)
HYPOTHESIS = (
    ("effusion", "OBS-DP", "located_at 2, suggestive_of 3"),
    ("pleural", "ANAT-DP"),
    ("Pneumothorax", "OBS-DA"),
)


@pytest.mark.parametrize("labels", [None, XL], ids=["radgraph", "radgraph-xl"])
def test_figures_worked_out_by_hand(labels):
    measured = radgraph_measures([annotate(*REFERENCE, labels=labels)], [annotate(*HYPOTHESIS, labels=labels)])
    # Entities: effusion and pleural of 3 said and of 4 wanted, since case counts.
    # Relations: effusion located_at pleural of 2 said and of 3 wanted.
    expected = {
        "radgraph_entity_precision": 2 / 3,
        "radgraph_entity_recall": 2 / 4,
        "radgraph_entity_f1": 4 / 7,
        "radgraph_relation_precision": 1 / 2,
        "radgraph_relation_recall": 1 / 3,
        "radgraph_relation_f1": 2 / 5,
        "radgraph_f1": (4 / 7 + 2 / 5) / 2,
    }
    assert measured.values() == pytest.approx(expected)
    assert {name: float(scores[0]) for name, scores in measured.per_sample().items()} == pytest.approx(expected)


def test_a_relation_goes_from_its_source_to_its_target():
    clear, lungs = ("clear", "OBS-DP"), ("lungs", "ANAT-DP")
    found = entities_and_relations(annotate((*clear, "located_at 2"), lungs))
    assert found == ({clear, lungs}, {(clear, lungs, "located_at")})


def test_entities_are_a_set_and_places_do_not_count():
    twice = annotate(("heart", "ANAT-DP"), ("clear", "OBS-DP", "located_at 1"), ("heart", "ANAT-DP"))
    once = annotate(("clear", "OBS-DP", "located_at 2"), ("heart", "ANAT-DP"))
    assert entities_and_relations(twice) == entities_and_relations(once)
    assert radgraph_measures([twice], [once]).values()["radgraph_f1"] == 1


def test_direction_kind_and_labels_of_a_relation_count():
    def f1(*said: tuple[str, str] | tuple[str, str, str]) -> float:
        wanted = annotate(("left", "ANAT-DP", "modify 2"), ("lung", "ANAT-DP"))
        return radgraph_measures([wanted], [annotate(*said)]).values()["radgraph_relation_f1"]

    assert f1(("lung", "ANAT-DP"), ("left", "ANAT-DP", "modify 1")) == 1
    assert f1(("left", "ANAT-DP"), ("lung", "ANAT-DP", "modify 1")) == 0
    assert f1(("left", "ANAT-DP", "located_at 2"), ("lung", "ANAT-DP")) == 0
    assert f1(("left", "OBS-DP", "modify 2"), ("lung", "ANAT-DP")) == 0


def test_the_mean_is_over_reports_and_nothing_on_both_sides_is_zero():
    same = annotate(("clear", "OBS-DP", "located_at 2"), ("lungs", "ANAT-DP"))
    bare = annotate(("clear", "OBS-DP"))
    values = radgraph_measures([same, bare, annotate()], [same, bare, annotate()]).values()
    assert values["radgraph_entity_f1"] == pytest.approx(2 / 3)
    assert values["radgraph_relation_f1"] == pytest.approx(1 / 3)
    assert values["radgraph_f1"] == pytest.approx(1 / 2)


def test_a_missing_annotation_is_not_measured():
    same = annotate(("clear", "OBS-DP", "located_at 2"), ("lungs", "ANAT-DP"))
    measured = radgraph_measures([same, same, None, None], [same, None, same, None])
    assert measured.present.tolist() == [True, False, False, False]
    assert measured.values()["radgraph_f1"] == 1
    scores = measured.per_sample()["radgraph_f1"]
    assert scores[0] == 1
    assert np.isnan(scores[1:]).all()
    # The original's reading of a missing hypothesis is there for who asks for it.
    assert radgraph_measures([same, same], [same, {"entities": {}}]).values()["radgraph_f1"] == 0.5


def test_targets_that_are_no_entity_are_passed_over():
    assert entities_and_relations(annotate(("clear", "OBS-DP", "located_at 9")))[1] == set()


def test_labels_of_two_models_are_refused():
    with pytest.raises(ValueError, match="never match"):
        radgraph_measures([annotate(*REFERENCE)], [annotate(*HYPOTHESIS, labels=XL)])


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ({"text": "clear"}, "report 0: a RadGraph annotation needs entities"),
        ({"entities": [1]}, "entities by id"),
        ({"entities": {"1": {"tokens": "clear", "relations": []}}}, "report 0: entity 1"),
        ({"entities": {"7": {"tokens": ["clear"], "label": "OBS-DP", "relations": []}}}, "entity 7"),
        ({"entities": {"1": {"tokens": "clear", "label": "OBS-DP", "relations": [["modify"]]}}}, "entity 1"),
    ],
)
def test_what_is_no_annotation_is_refused(annotation, message):
    with pytest.raises(ValueError, match=message):
        radgraph_measures([annotate()], [annotation])


ROWS = st.lists(
    st.tuples(st.sampled_from(["left", "lung", "clear"]), st.sampled_from(["OBS-DP", "ANAT-DP"])), max_size=6
)


@given(ROWS, ROWS)
@settings(deadline=None)
def test_entity_f1_is_the_packages_simple_reward(wanted, said):
    package = importlib.util.find_spec("radgraph")
    if package is None or not package.submodule_search_locations:
        pytest.skip("radgraph is not installed")
    # Its file of rewards alone, without the networks that the package imports.
    spec = importlib.util.spec_from_file_location("rewards", f"{package.submodule_search_locations[0]}/rewards.py")
    assert spec is not None
    assert spec.loader is not None
    rewards = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rewards)
    reference, hypothesis = annotate(*wanted), annotate(*said)
    expected = rewards.exact_entity_token_match_reward(hypothesis, reference)
    found = radgraph_measures([reference], [hypothesis]).values()
    assert found["radgraph_entity_f1"] == pytest.approx(expected)
