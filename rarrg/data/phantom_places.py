"""Where the findings of a phantom view are: each view is drawn with and without each finding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rarrg.data.phantom_drawing import (
    VIEWS,
    Camera,
    Patient,
    PhantomFinding,
    PhantomView,
    Scene,
    Side,
    changed_pixels,
    to_uint8,
)
from rarrg.data.phantom_frontal import Frontal
from rarrg.data.phantom_lateral import Lateral


class Places(NamedTuple):
    """A phantom view and where things are in it; masks are bool ``[SIZE, SIZE]``.

    Attributes:
        image: uint8 ``[SIZE, SIZE]``.
        findings: Mask of each finding: the pixels that it changes by ``CHANGED`` grey levels or more, and of
            cardiomegaly the whole heart besides. None where it is not visible in this view, and for hyperinflation,
            which changes the whole chest and so has no place.
        lungs: Mask of each lung by the patient's side; of both under ``""`` in a lateral view.
    """

    image: np.ndarray
    findings: list[np.ndarray | None]
    lungs: dict[Side, np.ndarray]


def draw_changes(
    patient: Patient, findings: Sequence[PhantomFinding], view: PhantomView
) -> tuple[np.ndarray, list[np.ndarray | None]]:
    """Draw one view, with and without each finding.

    Returns:
        The image, uint8 ``[SIZE, SIZE]``, and for each finding the pixels that it changes, bool ``[SIZE, SIZE]``, None
        where it is not visible.
    """
    return _changes(_scene(patient, view), Camera(patient, VIEWS.index(view)), findings)


def draw_places(patient: Patient, findings: Sequence[PhantomFinding], view: PhantomView) -> Places:
    """Draw one view and say where its findings and its lungs are.

    Args:
        patient: Whom to draw.
        findings: What to draw.
        view: ``frontal`` or ``lateral``.
    """
    scene = _scene(patient, view)
    image, changes = _changes(scene, Camera(patient, VIEWS.index(view)), findings)
    places: list[np.ndarray | None] = []
    for finding, changed in zip(findings, changes, strict=True):
        if changed is None or finding.kind == "hyperinflation":
            places.append(None)
        elif finding.kind == "cardiomegaly":  # only its margin changes, but a look at the heart is a look at it
            places.append(changed | scene.heart(findings))
        else:
            places.append(changed)
    return Places(image, places, scene.lungs(findings))


def _scene(patient: Patient, view: PhantomView) -> Scene:
    return Frontal(patient) if view == "frontal" else Lateral(patient)


def _changes(
    scene: Scene, camera: Camera, findings: Sequence[PhantomFinding]
) -> tuple[np.ndarray, list[np.ndarray | None]]:
    grey = camera.grey(scene.density(findings))
    changes = []
    for index in range(len(findings)):
        others = [*findings[:index], *findings[index + 1 :]]
        changes.append(changed_pixels(grey, camera.grey(scene.density(others))))
    return to_uint8(grey), changes
