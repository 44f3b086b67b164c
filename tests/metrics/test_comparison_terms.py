"""Comparison terms counted by hand, and by another way of splitting."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rarrg.metrics.comparison_terms import TERMS, comparison_measures, count_terms


def counted(text: str, stem: bool = False) -> dict[str, int]:
    (counts,) = count_terms([text], stem)
    return {term: int(count) for term, count in zip(TERMS, counts, strict=True) if count}


def test_there_are_18_terms():
    assert len(TERMS) == len(set(TERMS)) == 18
    assert counted(" ".join(TERMS)) == dict.fromkeys(TERMS, 1)


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("Unchanged heart. No change; CHANGE?", {"unchanged": 1, "change": 2}),
        ("Degenerative changes are improved and redemonstrated.", {}),  # other forms do not count
        ("Compared to prior/previous film, again-noted opacity.", {"prior": 1, "previous": 1, "again": 1}),
        ("against the priority, instability, dissimilar, reincreased", {}),  # whole words alone
        ("", {}),
    ],
)
def test_whole_words_in_their_own_form(text, counts):
    assert counted(text) == counts


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("Unchanged. Degenerative changes, improving.", {"unchanged": 1, "change": 1, "improve": 1}),
        ("decreasing, decreased, worsened, removed", {"decreased": 2, "worse": 1, "removal": 1}),
        ("previously persistent, recurrent", {"previous": 1, "persistent": 1, "recurrence": 1}),
        ("against the remainder of priority", {}),
    ],
)
def test_inflected_forms_where_asked_for(text, counts):
    assert counted(text, stem=True) == counts


def test_every_term_is_among_its_own_forms():
    assert counted(" ".join(TERMS), stem=True) == dict.fromkeys(TERMS, 1)


@given(st.lists(st.sampled_from([*TERMS, "Changes", "HEART", "Stable", ",", "-"]), max_size=15))
def test_counts_agree_with_a_count_of_words(words):
    text = " ".join(words)
    split = re.split(r"\W+", text.lower())
    assert counted(text) == {term: split.count(term) for term in TERMS if term in split}


def test_rates_are_over_all_reports():
    measured = comparison_measures(["stable, stable heart", "clear lungs", "stable and unchanged", ""])
    values = measured.values()
    assert values["comparison_count"] == 4
    assert values["comparison_rate"] == 2 / 4
    assert (values["comparison_count/stable"], values["comparison_rate/stable"]) == (3, 2 / 4)
    assert (values["comparison_count/unchanged"], values["comparison_rate/unchanged"]) == (1, 1 / 4)
    assert sum(values.values()) == 4 + 2 / 4 + 3 + 2 / 4 + 1 + 1 / 4  # the other terms have nothing
    assert measured.per_sample()["comparison_count"].tolist() == [2, 0, 2, 0]
    assert not any(comparison_measures([]).values().values())
    assert comparison_measures(["improving"], stem=True).values()["comparison_rate"] == 1


def test_the_interval_of_a_rate_is_that_of_its_share():
    texts = ["stable"] * 30 + ["clear"] * 70
    estimate = comparison_measures(texts).estimates(np.ones(100, dtype=bool), list(map(str, range(100))), 4000, 0)[
        "comparison_rate"
    ]
    assert estimate.value == 0.3
    assert estimate.high - estimate.low == pytest.approx(2 * 1.96 * np.sqrt(0.3 * 0.7 / 100), abs=0.02)
