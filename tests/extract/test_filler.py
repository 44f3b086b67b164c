from __future__ import annotations

import pytest

from rarrg.extract.concepts import concept
from rarrg.extract.filler import FILLER
from rarrg.extract.terms import NAMES, ORGANS, PAIRED, PLACES, PREFIXES, SIDES, SIZES


@pytest.mark.parametrize("word", ["identified", "overlies", "abutting", "crosses", "tracking", "grossly", "presence"])
def test_a_word_of_telling_claims_nothing(word: str) -> None:
    assert word in FILLER


@pytest.mark.parametrize("word", ["lead", "history", "recommended", "clinical", "known", "portable", "new", "obscured"])
def test_a_word_that_adds_something_is_none(word: str) -> None:
    assert word not in FILLER


def test_no_name_of_a_finding_or_place_claims_nothing() -> None:
    named = {*NAMES.values(), *PREFIXES.values(), *ORGANS, *PAIRED, *PLACES, *SIDES, *SIZES}
    # sides are read from the whole text, and "largely" is no size
    assert {word for word in FILLER if concept(word) in named or word in SIDES} == {"both", "largely"}
