"""What sentences claim. All texts are made up."""

from __future__ import annotations

import pytest

from rarrg.extract.claims import Claim, read_claims


def states(text: str) -> list[tuple[str, str]]:
    """Each claim's words and state."""
    return [(claim.text.removeprefix("no ").removeprefix("possible "), state(claim)) for claim in read_claims(text)]


def state(claim: Claim) -> str:
    if claim.normal:
        return "normal"
    if claim.general:
        return "denied"
    return {True: "possible", False: "sure", None: "open"}[claim.hedged]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("No pleural effusion or pneumothorax.", [("pleural effusion", "denied"), ("pneumothorax", "denied")]),
        (
            "There is no edema, effusion, or pneumothorax.",
            [("edema", "denied"), ("effusion", "denied"), ("pneumothorax", "denied")],
        ),
        ("Neither effusion nor pneumothorax is seen.", [("effusion", "denied"), ("pneumothorax", "denied")]),
        ("Effusion and pneumothorax are not seen.", [("effusion", "denied"), ("pneumothorax", "denied")]),
        ("The pleural spaces are free of effusion.", [("pleural spaces are effusion", "denied")]),
        ("No effusion, and the heart is enlarged.", [("effusion", "denied"), ("heart is enlarged", "sure")]),
        ("No pneumothorax and a small effusion.", [("pneumothorax", "denied"), ("small effusion", "sure")]),
        ("No effusion in addition to a mass.", [("effusion", "denied"), ("mass", "sure")]),
        ("The heart is not enlarged.", [("heart is enlarged", "denied")]),
    ],
)
def test_negation_reaches_over_its_list(text: str, expected: list[tuple[str, str]]) -> None:
    assert states(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Opacity which may represent pneumonia.", [("opacity", "sure"), ("pneumonia", "possible")]),
        ("Opacity suggestive of likely atelectasis", [("opacity", "sure"), ("atelectasis", "possible")]),
        ("Pneumonia cannot be excluded.", [("pneumonia", "possible")]),
        ("A nodule, and an effusion cannot be excluded.", [("nodule", "sure"), ("effusion", "possible")]),
        ("Edema versus pneumonia.", [("edema", "possible"), ("pneumonia", "possible")]),
        ("Opacity, atelectasis versus scar.", [("opacity", "sure"), ("atelectasis", "possible"), ("scar", "possible")]),
        ("Atelectasis or pneumonia.", [("atelectasis", "possible"), ("pneumonia", "possible")]),
        ("Possible pneumonia and atelectasis.", [("pneumonia", "possible"), ("atelectasis", "open")]),
    ],
)
def test_doubt_reaches_what_it_is_said_of(text: str, expected: list[tuple[str, str]]) -> None:
    assert states(text) == expected


def test_organs_share_the_state_that_is_said_of_them() -> None:
    claims = read_claims("The lungs, mediastinum, and bones are normal.")
    assert [claim.concepts for claim in claims] == [{"bone"}, {"lung"}, {"mediastinum"}]
    assert all(claim.normal for claim in claims)


@pytest.mark.parametrize(
    "text", ["normal heart size", "no cardiomegaly", "The heart is not enlarged.", "heart: normal"]
)
def test_a_normal_heart_is_one_without_cardiomegaly(text: str) -> None:
    (claim,) = read_claims(text)
    assert claim.general
    assert claim.concepts == {"cardiomegaly"}


@pytest.mark.parametrize("text", ["cardiomegaly", "The heart is enlarged.", "enlargement of the cardiac silhouette"])
def test_an_enlarged_heart_is_cardiomegaly(text: str) -> None:
    (claim,) = read_claims(text)
    assert not claim.general
    assert claim.concepts == {"cardiomegaly"}


def test_normal_pulmonary_vessels_are_no_normal_lungs() -> None:
    assert [claim.concepts for claim in read_claims("normal pulmonary vasculature")] == [{"vasculature"}]


def test_what_is_clear_is_what_was_named_before() -> None:
    claim = read_claims("The lungs are hyperinflated but clear.")[-1]
    assert claim.normal
    assert claim.concepts == {"lung"}


def test_side_place_size_and_measure() -> None:
    (claim,) = read_claims("Mild to moderate 8 mm opacity in the right upper lobe.")
    assert claim.concepts == {"opacity"}
    assert (claim.sides, claim.places, claim.sizes, claim.numbers) == ({"right"}, {"upper"}, {2, 3}, {"8_mm"})


@pytest.mark.parametrize("text", ["Leads in the right atrium.", "Tip in the right ventricle."])
def test_a_chamber_of_the_heart_is_no_side(text: str) -> None:
    assert all(not claim.sides for claim in read_claims(text))


def test_a_place_alone_belongs_to_what_stands_before_it() -> None:
    (claim,) = read_claims("Leads in the right atrium and right ventricle.")
    assert claim.places == {"right_atrium", "right_ventricle"}


@pytest.mark.parametrize(
    "text",
    [
        "The following findings are noted.",
        "Frontal and lateral views of the chest.",
        "Impression:",
        "",
        "...",
        "No change.",
    ],
)
def test_what_claims_nothing(text: str) -> None:
    assert read_claims(text) == ()


@pytest.mark.parametrize("text", ["Recommend CT.", "The patient has COPD.", "Portable technique."])
def test_unknown_words_are_claims(text: str) -> None:
    assert read_claims(text) != ()
