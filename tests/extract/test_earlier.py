from __future__ import annotations

import pytest

from rarrg.extract.earlier import compares_with_earlier, without_comparison


@pytest.mark.parametrize(
    "text",
    [
        "Unchanged cardiomegaly.",
        "Cardiomegaly is again seen.",
        "There is a new left effusion.",
        "The effusion has increased.",
        "Interval increase of the effusion.",
        "Effusions persist.",
        "Edema has improved.",
        "The opacity continues to be seen.",
        "No change since the prior study.",
        "The left lung remains clear.",
    ],
)
def test_compares(text: str) -> None:
    assert compares_with_earlier(text)


@pytest.mark.parametrize(
    "text",
    [
        "Degenerative changes of the spine.",
        "Prior CABG.",
        "The AP diameter is increased.",
        "Lung volumes are reduced.",
        "Reduced lung volumes.",
        "The remaining lung is clear.",
        "The effusion is larger on the right than on the left.",
        "Increased interstitial markings.",
    ],
)
def test_does_not_compare(text: str) -> None:
    assert not compares_with_earlier(text)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("stable cardiomegaly", "cardiomegaly"),
        ("a new left effusion", "a left effusion"),
        ("stable increased interstitial markings", "increased interstitial markings"),
        ("increased interstitial markings", "increased interstitial markings"),
    ],
)
def test_words_of_comparison_are_taken_out_of_sentences_that_compare(text: str, rest: str) -> None:
    assert " ".join(without_comparison(text).split()) == rest
