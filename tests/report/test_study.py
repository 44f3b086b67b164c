from __future__ import annotations

import numpy as np

from rarrg.report.study import Retrieval, by_view
from rarrg.types import Dropped, RetrievedPhrase


def retrieval(*said: tuple[str, float], below: bool = False, maps: bool = False) -> Retrieval:
    phrases = tuple(RetrievedPhrase(text, probability, 0.5, query) for query, (text, probability) in enumerate(said))
    attention = np.stack([np.full((2, 2), phrase.probability) for phrase in phrases]) if maps else None
    return Retrieval(phrases, below, attention)


def test_images_of_a_view_are_brought_together_by_probability_and_each_phrase_keeps_its_image_and_map():
    study = by_view(
        [
            ("lateral", "l.jpg", retrieval(("clear lungs", 0.7), maps=True)),
            ("frontal", "a.jpg", retrieval(("clear lungs", 0.6), ("no effusion", 0.5), maps=True)),
            ("frontal", "b.jpg", retrieval(("no effusion", 0.9), ("rib fracture", 0.55), maps=True)),
        ]
    )
    assert list(study.phrases) == ["frontal", "lateral"]
    assert study.images == {"frontal": ("a.jpg", "b.jpg"), "lateral": ("l.jpg",)}
    assert [(phrase.text, phrase.probability, phrase.image) for phrase in study.phrases["frontal"]] == [
        ("no effusion", 0.9, 1),
        ("clear lungs", 0.6, 0),
        ("rib fracture", 0.55, 1),
    ]
    np.testing.assert_allclose(study.attention["frontal"][:, 0, 0], [0.9, 0.6, 0.55])
    assert study.below_threshold == ()


def test_a_fallback_phrase_gives_way_to_an_image_of_the_view_that_passed():
    study = by_view(
        [
            ("frontal", "a.jpg", retrieval(("clear lungs", 0.3), below=True)),
            ("frontal", "b.jpg", retrieval(("no effusion", 0.9))),
        ]
    )
    assert [phrase.text for phrase in study.phrases["frontal"]] == ["no effusion"]
    assert study.below_threshold == ()


def test_of_a_view_without_any_image_that_passed_the_most_probable_phrase_stands():
    study = by_view(
        [
            ("frontal", "a.jpg", retrieval(("clear lungs", 0.2), below=True)),
            ("frontal", "b.jpg", retrieval(("no effusion", 0.3), below=True)),
        ]
    )
    assert [phrase.text for phrase in study.phrases["frontal"]] == ["no effusion"]
    assert study.below_threshold == ("frontal",)


def test_keeping_some_phrases_keeps_their_maps():
    study = by_view([("frontal", "a.jpg", retrieval(("clear lungs", 0.8), ("right opacity", 0.6), maps=True))])
    clear, opacity = study.phrases["frontal"]
    dropped = (Dropped("frontal", opacity, "frontal", clear, "less probable"),)
    kept = study.keep({"frontal": (clear,)}, dropped)
    assert kept.phrases == {"frontal": (clear,)}
    assert kept.attention["frontal"].shape == (1, 2, 2)
    np.testing.assert_allclose(kept.attention["frontal"], 0.8)
    assert kept.dropped == dropped
    assert kept.images == study.images
