"""Roundabout denials: what they come to, and what must be left as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rarrg.denials import plain_denials


@pytest.mark.parametrize(
    ("said", "plain"),
    [
        ("it is unlikely that this represents pneumonia", "no pneumonia"),
        ("findings are unlikely to represent pneumonia", "no pneumonia"),
        ("the opacity is unlikely to represent pneumonia", "the opacity, no pneumonia"),
        ("pneumonia is felt to be unlikely", "no pneumonia"),
        ("left basilar opacity is present, pneumonia is unlikely", "left basilar opacity is present, no pneumonia"),
        ("pneumonia unlikely", "no pneumonia"),
        ("there is nothing to suggest pneumonia", "no pneumonia"),
        ("it does not appear that there is a pneumothorax", "there is no pneumothorax"),
        ("neither lung shows consolidation", "there is no consolidation"),
        ("the effusion is gone", "no effusion"),
        ("pleural effusion - none", "no pleural effusion"),
        ("pneumothorax has been ruled out", "no pneumothorax"),
        ("there isn't any effusion", "there is no effusion"),
        ("there is no longer a pneumothorax", "there is no pneumothorax"),
        ("the heart is no longer enlarged", "the heart is not enlarged"),
        ("non-enlarged heart", "heart is not enlarged"),
        ("the heart is neither enlarged nor displaced", "the heart is not enlarged or displaced"),
    ],
)
def test_a_denial_is_put_plainly(said, plain):
    assert plain_denials(said) == plain


@pytest.mark.parametrize(
    ("said", "plain"),
    [
        ("pulmonary edema is not absent", "pulmonary edema is present"),
        ("no pneumothorax is not seen", "pneumothorax is present"),
        ("the lungs are not without pneumothorax", "the lungs are with pneumothorax"),
        ("not only is there cardiomegaly, but also edema", "there is cardiomegaly and edema"),
    ],
)
def test_what_is_denied_twice_is_there(said, plain):
    assert plain_denials(said) == plain


@pytest.mark.parametrize(
    ("said", "plain"),
    [
        (
            "there is no effusion on the right but one is present on the left",
            "there is no effusion on the right but effusion is present on the left",
        ),
        (
            "no right pneumothorax, although one is present on the left",
            "no right pneumothorax but pneumothorax is present on the left",
        ),
        (
            "no effusion on the right, but a small one on the left",
            "no effusion on the right but a small effusion on the left",
        ),
        (
            "effusion is absent on the right but present on the left",
            "effusion is absent on the right but effusion on the left",
        ),
        ("there are no pleural effusions other than a tiny one on the right", "a tiny pleural effusion on the right"),
        ("no pneumothorax except on the left", "pneumothorax on the left"),
        ("no pleural effusion, except small on the left", "small pleural effusion on the left"),
    ],
)
def test_the_finding_is_named_again_where_it_was_left_out(said, plain):
    assert plain_denials(said) == plain


@pytest.mark.parametrize(
    "said",
    [
        "no pleural effusion",
        "pneumothorax cannot be excluded",
        "pneumonia is not entirely excluded",
        "the nodule is no longer seen",
        "the lungs are clear but hyperexpanded",
        "no abnormality other than mild scoliosis",
        "one of the leads lies in the right atrium",
        "no acute fracture but old rib fractures on the left",
    ],
)
def test_what_is_plain_or_open_stays(said):
    assert plain_denials(said) == said


@given(st.text("no tbuexcpfisar,;:-", max_size=200))
def test_any_text_is_read(text):
    assert isinstance(plain_denials(text), str)
