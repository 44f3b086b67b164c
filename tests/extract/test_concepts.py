from __future__ import annotations

import pytest

from rarrg.extract.concepts import concept, implied, one_spelling
from rarrg.extract.terms import IMPLIED, NAMES, ORGANS, PAIRED, PLACES, QUALITIES, STATES


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("opacities", "opacification"),
        ("densities", "opacity"),
        ("atelectatic", "atelectasis"),
        ("calcified", "calcifications"),
        ("widened", "widening"),
        ("hyperexpanded", "hyperinflation"),
        ("osseous", "bony"),
        ("basilar", "bases"),
        ("line", "catheter"),
        ("deformities", "deformity"),
        ("wires", "wire"),
        ("obscuration", "obscuring"),
        ("underpenetration", "underpenetrated"),
        ("humeral", "humerus"),
        ("lingular", "lingula"),
    ],
)
def test_words_that_say_the_same_have_one_name(one: str, other: str) -> None:
    assert concept(one) == concept(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("pneumonia", "pneumothorax"),
        ("pneumothorax", "pneumonectomy"),
        ("vertebral", "vertebroplasty"),
        ("port", "portable"),
        ("opacity", "consolidation"),
        ("scoliosis", "dextroscoliosis"),
    ],
)
def test_words_that_say_different_things_have_different_names(one: str, other: str) -> None:
    assert concept(one) != concept(other)


def test_names_are_named_as_they_are() -> None:
    names = {*NAMES.values(), *ORGANS, *PAIRED, *PLACES, *QUALITIES, *STATES}
    assert [name for name in sorted(names) if concept(name) != name] == []


def test_a_consolidation_is_an_opacity_and_not_the_other_way_round() -> None:
    assert "opacity" in implied(frozenset({"consolidation"}))
    assert "consolidation" not in implied(frozenset({"opacity"}))


def test_what_is_implied_is_named_like_any_word() -> None:
    for word, also in IMPLIED.items():
        assert implied(frozenset({concept(word)})) >= set(map(concept, also))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a 4-cm mass", "a 4_cm mass"),
        ("4.0 cm above the carina", "4_cm above the carina"),
        ("tip in the superior vena cava", "tip in the svc"),
        ("lll opacity", "left lower lobe opacity"),
        ("right atrial lead", "right_atrium lead"),
        ("swan-ganz catheter", "swanganz catheter"),
        ("leftward shift", "left shift"),
        ("cardiomediastinal silhouette", "cardiac mediastinal silhouette"),
        ("right greater than left", "right_greater"),
        ("larger on the right than on the left", "right_greater"),
        ("heart size at the upper limits of normal", "heart size borderline"),
        ("within normal limits", "normal"),
        ("most severe in the right lung", "right_greater"),
        ("behind the heart", "retrocardiac"),
        ("the t8 vertebral body", "the t8"),
        ("minor fissure", "minor_fissure"),
        ("free air under the right hemidiaphragm", "pneumoperitoneum right"),
        ("evaluation is limited by rotation", " rotation"),
    ],
)
def test_names_of_several_words_have_one_spelling(text: str, expected: str) -> None:
    assert one_spelling(text) == expected
