"""The studies a model is evaluated on: one frontal and one lateral image each, as a user gives them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from rarrg.types import Position, Study, View

Scope = Literal["study", "frontal", "lateral"]
SCOPES: tuple[Scope, ...] = ("study", "frontal", "lateral")
POSITIONS: tuple[Position, ...] = ("frontal", "lateral")


@dataclass(frozen=True)
class EvaluationSet:
    """Studies and their images, at study level and per view.

    Attributes:
        studies: The studies, each with a frontal or a lateral image.
        views: Their images, frontal before lateral, study by study.
        members: For each scope the studies that belong to it, as (index into ``studies``, indices into ``views``):
            ``study`` takes every study with both its images, ``frontal`` and ``lateral`` those that have the view.
    """

    studies: tuple[Study, ...]
    views: tuple[View, ...]
    members: dict[Scope, list[tuple[int, tuple[int, ...]]]]


def evaluation_set(studies: Sequence[Study], unreadable: Collection[str] = ()) -> EvaluationSet:
    """Take the first readable frontal and the first readable lateral image of each study.

    Args:
        studies: The studies. One without a readable frontal or lateral image is left out.
        unreadable: Ids of images to pass over.
    """
    kept: list[Study] = []
    views: list[View] = []
    members: dict[Scope, list[tuple[int, tuple[int, ...]]]] = {scope: [] for scope in SCOPES}
    for study in studies:
        chosen: dict[Position, int] = {}
        for position in POSITIONS:
            for view in study.views:
                if view.position == position and view.image_id not in unreadable:
                    chosen[position] = len(views)
                    views.append(view)
                    break
        if not chosen:
            continue
        index = len(kept)
        kept.append(study)
        members["study"].append((index, tuple(chosen.values())))
        if "frontal" in chosen:
            members["frontal"].append((index, (chosen["frontal"],)))
        if "lateral" in chosen:
            members["lateral"].append((index, (chosen["lateral"],)))
    return EvaluationSet(tuple(kept), tuple(views), members)


def set_of_every_image(studies: Sequence[Study], unreadable: Collection[str] = ()) -> EvaluationSet:
    """Take every readable image of each study, those in other positions included.

    Args:
        studies: The studies. One without a readable image is left out.
        unreadable: Ids of images to pass over.
    """
    kept: list[Study] = []
    views: list[View] = []
    members: dict[Scope, list[tuple[int, tuple[int, ...]]]] = {scope: [] for scope in SCOPES}
    for study in studies:
        own = [view for view in study.views if view.image_id not in unreadable]
        if not own:
            continue
        places = range(len(views), len(views) + len(own))
        members["study"].append((len(kept), tuple(places)))
        scopes: tuple[Scope, ...] = ("frontal", "lateral")
        for scope in scopes:
            of_view = tuple(place for place, view in zip(places, own, strict=True) if view.position == scope)
            if of_view:
                members[scope].append((len(kept), of_view))
        kept.append(study)
        views += own
    return EvaluationSet(tuple(kept), tuple(views), members)
