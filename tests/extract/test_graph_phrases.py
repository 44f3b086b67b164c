"""RadGraph annotation -> RadGraph phrases."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarrg.extract.graph_phrases import radgraph_phrases

LABELS = [
    "OBS-DP",
    "OBS-DA",
    "OBS-U",
    "ANAT-DP",
    "Observation::definitely present",
    "Observation::definitely absent",
    "Observation::uncertain",
    "Observation::measurement::definitely present",
    "Observation::measurement::definitely absent",
    "Observation::measurement::uncertain",
    "Anatomy::definitely present",
    "Anatomy::measurement::definitely present",
]


def annotate(text: str, *entities: tuple[str, str, str] | tuple[str, str, str, str]) -> dict[str, Any]:
    """An annotation from rows of id, words of the text, label and, if any, relations as "modify 2, located_at 3".

    A "|" in the words stands for the place in the text: the words after it are the entity, those before it lead there.
    """
    tokens = text.split()
    table = {}
    for name, words, label, *relations in entities:
        lead, _, words = words.rpartition("|")
        wanted, before = words.split(), lead.split()
        sought = before + wanted
        starts = [n for n in range(len(tokens)) if tokens[n : n + len(sought)] == sought]
        start = starts[0] + len(before)
        table[name] = {
            "tokens": " ".join(wanted),
            "label": label,
            "start_ix": start,
            "end_ix": start + len(wanted) - 1,
            "relations": [pair.split() for pair in "".join(relations).split(", ") if pair],
        }
    return {"text": text, "entities": table, "data_source": None, "data_split": "inference"}


FIGURE_7 = annotate(
    "Cardiomegaly is accompanied by improving pulmonary vascular congestion and decreasing pulmonary edema . "
    "Left retrocardiac opacity has substantially improved , likely a combination of atelectasis and effusion . "
    "A more confluent opacity at the right lung base persists , and could be due to asymmetrically resolving edema , "
    "but pneumonia should be considered in the appropriate clinical setting . "
    "Small right pleural effusion is likely unchanged , with pigtail pleural catheter remaining in place and "
    "no visible pneumothorax .",
    ("1", "Cardiomegaly", "OBS-DP"),
    ("2", "improving", "OBS-DP", "modify 5"),
    ("3", "improving|pulmonary", "ANAT-DP", "modify 4"),
    ("4", "vascular", "ANAT-DP"),
    ("5", "congestion", "OBS-DP", "located_at 4"),
    ("6", "decreasing", "OBS-DP", "modify 8"),
    ("7", "decreasing|pulmonary", "ANAT-DP"),
    ("8", "pulmonary|edema", "OBS-DP", "located_at 7"),
    ("9", "Left", "ANAT-DP", "modify 10"),
    ("10", "retrocardiac", "ANAT-DP"),
    ("11", "retrocardiac|opacity", "OBS-DP", "located_at 10, suggestive_of 14"),
    ("12", "substantially", "OBS-DP", "modify 13"),
    ("13", "improved", "OBS-DP", "modify 11"),
    ("14", "atelectasis", "OBS-U"),
    ("15", "atelectasis and|effusion", "OBS-U"),
    ("16", "more", "OBS-DP", "modify 17"),
    ("17", "confluent", "OBS-DP", "modify 18"),
    ("18", "confluent|opacity", "OBS-DP", "suggestive_of 24, suggestive_of 25"),
    ("19", "the|right", "ANAT-DP", "modify 21"),
    ("20", "lung", "ANAT-DP", "modify 21"),
    ("21", "base", "ANAT-DP"),
    ("22", "asymmetrically", "OBS-U"),
    ("23", "resolving", "OBS-U", "modify 24"),
    ("24", "resolving|edema", "OBS-U"),
    ("25", "pneumonia", "OBS-U"),
    ("26", "Small", "OBS-DP", "modify 29"),
    ("27", "Small|right", "ANAT-DP", "modify 28"),
    ("28", "right|pleural", "ANAT-DP"),
    ("29", "pleural|effusion", "OBS-DP", "located_at 28"),
    ("30", "unchanged", "OBS-U", "modify 29"),
    ("31", "pigtail", "OBS-DP", "modify 33"),
    ("32", "pigtail|pleural", "ANAT-DP"),
    ("33", "catheter", "OBS-DP", "located_at 32"),
    ("34", "in place", "OBS-DP", "modify 33"),
    ("35", "pneumothorax", "OBS-DA"),
)


def test_the_papers_example():
    assert radgraph_phrases(FIGURE_7) == [
        "cardiomegaly",
        "improving pulmonary vascular congestion",
        "decreasing pulmonary edema",
        "left retrocardiac opacity substantially improved",
        "maybe opacity substantially improved suggestive of atelectasis",
        "maybe effusion",
        "maybe more confluent opacity suggestive of resolving edema",
        "maybe more confluent opacity suggestive of pneumonia",
        "right lung base",
        "maybe asymmetrically",
        "maybe small right pleural effusion unchanged",
        "pigtail pleural catheter in place",
        "no pneumothorax",
    ]


@pytest.mark.parametrize(
    ("annotation", "phrases"),
    [
        pytest.param(annotate("heart"), [], id="no entities"),
        pytest.param(annotate("Normal heart .", ("1", "heart", "ANAT-DP")), ["heart"], id="anatomy alone"),
        pytest.param(
            annotate("No mild edema", ("1", "mild", "OBS-U", "modify 2"), ("2", "edema", "OBS-DA")),
            ["no mild edema"],
            id="absent goes before uncertain",
        ),
        pytest.param(
            annotate(
                "opacity pneumonia atelectasis",
                ("1", "opacity", "OBS-DP", "suggestive_of 3, suggestive_of 2"),
                ("2", "pneumonia", "OBS-U"),
                ("3", "atelectasis", "OBS-DP"),
            ),
            ["maybe opacity suggestive of pneumonia", "opacity suggestive of atelectasis"],
            id="one phrase for each that is suggested, each with its own prefix",
        ),
        pytest.param(
            annotate(
                "apex and base show small opacities",
                ("1", "opacities", "OBS-DP", "located_at 3, located_at 2"),
                ("2", "apex", "ANAT-DP"),
                ("3", "base", "ANAT-DP"),
                ("4", "small", "OBS-DP", "modify 1"),
            ),
            ["apex small opacities", "base small opacities"],
            id="one phrase for each place, in the order of the report",
        ),
        pytest.param(
            annotate(
                "consolidation after opacity in base",
                ("1", "opacity", "OBS-DP", "suggestive_of 2, located_at 3"),
                ("2", "consolidation", "OBS-U"),
                ("3", "base", "ANAT-DP"),
            ),
            ["maybe opacity suggestive of consolidation", "opacity base"],
            id="what suggests comes first, and takes no place along",
        ),
        pytest.param(
            annotate(
                "left lower lobe opacity",
                ("1", "left lower", "ANAT-DP", "modify 2"),
                ("2", "lower lobe", "ANAT-DP"),
                ("3", "lobe opacity", "OBS-DP", "located_at 2"),
            ),
            ["left lower lobe opacity"],
            id="overlapping spans",
        ),
        pytest.param(
            annotate(
                "left opacity pneumonia",
                ("1", "left opacity", "OBS-DP", "suggestive_of 2"),
                ("2", "opacity pneumonia", "OBS-U"),
            ),
            ["maybe left opacity suggestive of pneumonia"],
            id="overlapping spans of what suggests and what is suggested",
        ),
        pytest.param(
            annotate(
                "patchy opacity", ("1", "patchy opacity", "OBS-DP", "suggestive_of 2"), ("2", "opacity", "OBS-DP")
            ),
            ["patchy opacity"],
            id="nothing is left to suggest",
        ),
        pytest.param(
            annotate(
                "mild right edema",
                ("1", "mild", "OBS-DP", "modify 3"),
                ("2", "right", "ANAT-DP", "modify 1"),
                ("3", "edema", "OBS-DP", "modify 2, modify 3"),
            ),
            ["mild right edema"],
            id="cycle",
        ),
        pytest.param(
            annotate(
                "mild edema of lung",
                ("1", "mild", "OBS-DP", "modify 2"),
                ("2", "edema", "OBS-DP", "located_at 3"),
                ("3", "lung", "ANAT-DP", "located_at 2"),
            ),
            ["mild edema lung"],
            id="a relation both ways gives one phrase",
        ),
        pytest.param(
            annotate("mild edema", ("1", "mild", "OBS-DP", "modify 2, located_at 2"), ("2", "edema", "OBS-DP")),
            ["mild edema"],
            id="a relation inside a group",
        ),
        pytest.param(
            annotate("edema", ("1", "edema", "OBS-U", "modify 7, located_at 8, suggestive_of 9")),
            ["maybe edema"],
            id="unknown targets",
        ),
        pytest.param(
            annotate("Edema . edema", ("1", "Edema", "OBS-DP"), ("2", ".|edema", "OBS-DP")),
            ["edema"],
            id="equal phrases",
        ),
        pytest.param(
            annotate(
                "No 5 cm mass . Possible 3 mm nodule at the apex",
                ("1", "5 cm", "Observation::measurement::definitely absent", "modify 2"),
                ("2", "mass", "Observation::definitely present"),
                ("3", "3 mm", "Observation::measurement::uncertain", "modify 4"),
                ("4", "nodule", "Observation::definitely present", "located_at 5"),
                ("5", "apex", "Anatomy::definitely present"),
            ),
            ["no 5 cm mass", "maybe 3 mm nodule apex"],
            id="labels of RadGraph-XL",
        ),
    ],
)
def test_each_clause_of_the_rule(annotation, phrases):
    assert radgraph_phrases(annotation) == phrases


def test_anatomy_gives_no_prefix():
    annotation = annotate("heart", ("1", "heart", "Anatomy::measurement::uncertain"))
    assert radgraph_phrases(annotation) == ["heart"]


ONE = {"tokens": "mild edema", "label": "OBS-DP", "start_ix": 0, "end_ix": 1, "relations": []}


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (None, "annotation: must be an object, got None"),
        ({"entities": {}}, "annotation: text must be a text, got None"),
        ({"text": "edema"}, "annotation: entities must be an object, got None"),
        ({"text": "edema", "entities": []}, r"annotation: entities must be an object, got \[\]"),
        ({"text": "edema", "entities": {"3": "edema"}}, "entity 3: must be an object, got 'edema'"),
        *(
            ({"text": "mild edema", "entities": {"4": {**ONE, **change}}}, f"entity 4: {message}")
            for change, message in [
                ({"end_ix": 2}, "start_ix and end_ix must be token numbers from 0 to 1 in rising order, got 0 and 2"),
                ({"start_ix": 1, "end_ix": 0}, "start_ix and end_ix .* got 1 and 0"),
                ({"start_ix": -1}, "start_ix and end_ix .* got -1 and 1"),
                ({"start_ix": "0"}, "start_ix and end_ix .* got '0' and 1"),
                ({"start_ix": True}, "start_ix and end_ix .* got True and 1"),
                ({"label": None}, "label must be as OBS-DA or Observation::definitely absent, got None"),
                ({"label": "OBS-XX"}, "label must be .* got 'OBS-XX'"),
                ({"label": "DA"}, "label must be .* got 'DA'"),
                ({"relations": None}, "relations must be a list of pairs .* got None"),
                ({"relations": [["modify"]]}, "relations must be a list of pairs"),
                ({"relations": [["modify", 2]]}, "relations must be a list of pairs"),
                ({"relations": [["causes", "2"]]}, "relations must be .* of modify, located_at, suggestive_of"),
                ({"relations": [[["modify"], "2"]]}, "relations must be a list of pairs"),
            ]
        ),
    ],
)
def test_a_malformed_annotation_is_refused(annotation, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        radgraph_phrases(annotation)


@st.composite
def annotations(draw) -> dict[str, Any]:
    """Any graph over a text whose words all differ and are none of the rule's own."""
    length = draw(st.integers(1, 12))
    number = st.integers(0, length - 1)
    names = [str(name) for name in range(1, draw(st.integers(0, 8)) + 1)]
    relation = st.tuples(st.sampled_from(["modify", "located_at", "suggestive_of"]), st.sampled_from([*names, "99"]))
    entities = {}
    for name in names:
        start, end = sorted([draw(number), draw(number)])
        entities[name] = {
            "tokens": " ".join(f"T{n}" for n in range(start, end + 1)),
            "label": draw(st.sampled_from(LABELS)),
            "start_ix": start,
            "end_ix": end,
            "relations": [list(pair) for pair in draw(st.lists(relation, max_size=3))],
        }
    return {"text": " ".join(f"T{n}" for n in range(length)), "entities": entities}


def bare(phrase: str) -> list[str]:
    """The words of a phrase that come from the report."""
    words = phrase.removeprefix("no ").removeprefix("maybe ").split()
    if "suggestive" in words:
        place = words.index("suggestive")
        assert words[place + 1] == "of"
        del words[place : place + 2]
    return words


@settings(deadline=None)
@given(annotations())
def test_every_entity_is_in_a_phrase(annotation):
    found = [set(bare(phrase)) for phrase in radgraph_phrases(annotation)]
    for entity in annotation["entities"].values():
        assert any(set(entity["tokens"].lower().split()) <= words for words in found)


@settings(deadline=None)
@given(annotations())
def test_no_phrase_has_a_token_twice_or_a_word_from_elsewhere(annotation):
    for phrase in radgraph_phrases(annotation):
        words = bare(phrase)
        assert words
        assert len(words) == len(set(words))
        assert set(words) <= set(annotation["text"].lower().split())


@settings(deadline=None)
@given(annotations())
def test_phrases_are_different_and_absence_comes_from_an_absent_observation(annotation):
    phrases = radgraph_phrases(annotation)
    labels = [entity["label"] for entity in annotation["entities"].values()]
    assert len(phrases) == len(set(phrases))
    assert any(phrase.startswith("no ") for phrase in phrases) == any(
        label.endswith(("DA", "definitely absent")) for label in labels
    )


@settings(deadline=None)
@given(annotations(), st.randoms(use_true_random=False))
def test_the_order_of_the_tables_does_not_matter(annotation, random):
    shuffled = json.loads(json.dumps(annotation))
    names = list(shuffled["entities"])
    random.shuffle(names)
    shuffled["entities"] = {name: shuffled["entities"][name] for name in names}
    for entity in shuffled["entities"].values():
        random.shuffle(entity["relations"])
    assert radgraph_phrases(shuffled) == radgraph_phrases(annotation)


@settings(deadline=None)
@given(annotations())
def test_the_annotation_is_left_as_it_was(annotation):
    before = json.dumps(annotation)
    radgraph_phrases(annotation)
    assert json.dumps(annotation) == before
