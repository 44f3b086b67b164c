from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rarrg.data.phantom import case, draw_view
from rarrg.data.phantom_drawing import CHANGED, SIZE, VIEWS, Patient, PhantomFinding, box_round
from rarrg.data.phantom_places import draw_places


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), index=st.integers(0, 10**3), view=st.sampled_from(VIEWS))
def test_a_place_covers_what_the_finding_changes(seed, index, view):
    patient, findings = case(seed, index)
    assume(findings)
    places = draw_places(patient, findings, view)
    pixels, boxes = draw_view(patient, findings, view)
    np.testing.assert_array_equal(places.image, pixels)
    for number, (finding, place) in enumerate(zip(findings, places.findings, strict=True)):
        others = [*findings[:number], *findings[number + 1 :]]
        changed = np.abs(pixels.astype(float) - draw_view(patient, others, view)[0])
        if finding.kind == "hyperinflation":
            assert place is None
        elif place is None:
            assert (view, finding.kind) == ("lateral", "rib fracture")
            assert changed.max() == 0
        else:
            assert (place.dtype, place.shape) == (bool, (SIZE, SIZE))
            assert place[changed > CHANGED + 1].all()  # both images are rounded
            if finding.kind != "cardiomegaly":
                assert (changed[place] >= CHANGED - 1).all()
                assert box_round(place) == boxes[number]


@pytest.mark.parametrize("view", VIEWS)
def test_the_place_of_cardiomegaly_is_the_whole_heart(view):
    patient = Patient.of(np.random.default_rng(1))
    image, (place,), _ = draw_places(patient, [PhantomFinding("cardiomegaly")], view)
    changed = np.abs(image.astype(float) - draw_view(patient, [], view)[0]) > CHANGED + 1
    assert place[changed].all()
    assert place.sum() > 1.5 * changed.sum()


def test_lungs_are_dark_and_on_their_side():
    patient = Patient.of(np.random.default_rng(2))
    image, _, lungs = draw_places(patient, [], "frontal")
    assert set(lungs) == {"left", "right"}
    assert not (lungs["left"] & lungs["right"]).any()
    assert not lungs["left"][:, : SIZE // 2].any()
    assert not lungs["right"][:, SIZE // 2 :].any()
    below = np.zeros_like(lungs["left"])
    below[-40:] = True
    assert image[lungs["left"] | lungs["right"]].mean() < 0.8 * image[below].mean()
    deep = draw_places(patient, [PhantomFinding("hyperinflation")], "frontal").lungs
    assert all(deep[side].sum() > lungs[side].sum() for side in lungs)


@pytest.mark.parametrize("view", VIEWS)
def test_most_of_what_is_in_the_lungs_lies_on_them(view):
    patient = Patient.of(np.random.default_rng(3))
    findings = [PhantomFinding("opacity", "right", "upper lobe"), PhantomFinding("nodule", "left", "lower lobe")]
    places = draw_places(patient, findings, view)
    for finding, place in zip(findings, places.findings, strict=True):
        lung = places.lungs[finding.side if view == "frontal" else ""]
        assert lung[place].mean() > 0.8
