"""A text -> its claims: what is found or not, how sure, on which side, where, how large.

Phrases and reports are read alike, so that whatever a phrase says, a sentence of the same words says too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from rarrg.extract.concepts import concept
from rarrg.extract.cues import SENTENCE_END, covered_sides, named_sides
from rarrg.extract.filler import FILLER
from rarrg.extract.pieces import Piece, Reading, is_number, read_pieces
from rarrg.extract.terms import NORMAL, ORGANS, PAIRED, PLACES, QUALITIES, SIDES, SIZES


@dataclass(frozen=True)
class Claim:
    """One thing that a text says.

    Attributes:
        text: Its words, lower case.
        concepts: What is found or denied, and the organs it is found in.
        places: Where, beside side and organ.
        sides: ``left``, ``right``: the sides it names.
        covered: The sides it speaks of; see :func:`rarrg.extract.cues.covered_sides`.
        sizes: How much, as steps of :data:`rarrg.extract.terms.SIZES`.
        numbers: Measures, in millimetres ("40_mm"), and counts.
        general: It denies something, or calls an organ normal, and so speaks of everything of the kind.
        normal: It calls an organ normal.
        hedged: It is not sure; None where that is open.
    """

    text: str
    concepts: frozenset[str]
    places: frozenset[str] = frozenset()
    sides: frozenset[str] = frozenset()
    covered: frozenset[str] = frozenset()
    sizes: frozenset[int] = frozenset()
    numbers: frozenset[str] = frozenset()
    general: bool = False
    normal: bool = False
    hedged: bool | None = False


_TOGETHER = {
    frozenset({"low", "volume"}): "hypoinflation",
    frozenset({"enlarge", "node"}): "adenopathy",
    frozenset({"enlarge", "thyroid"}): "goiter",
}
"""Words of one claim that together have a name."""


@lru_cache(maxsize=1 << 14)
def read_claims(text: str, reading: Reading = "last") -> tuple[Claim, ...]:
    """Read the claims of a text.

    Args:
        text: A phrase or a report, in any case.
        reading: Whose place it is that ends a list.

    Returns:
        Claims in the order of the text; none of a text that only says what was looked at.
    """
    return tuple(
        claim
        for sentence in SENTENCE_END.split(text.lower())
        for piece in read_pieces(sentence, reading)
        for claim in _claims(piece)
    )


def _claims(piece: Piece) -> list[Claim]:
    numbers = frozenset(filter(is_number, piece.said))
    plain = frozenset(piece.said) - SIDES - NORMAL - SIZES.keys() - numbers
    numbers = frozenset(map(_in_millimetres, numbers))
    named = frozenset(map(concept, plain)) - {"lobe"}
    organs, places = named & ORGANS, named & PLACES
    found = named - organs - places
    text = " ".join(piece.words)
    claim = Claim(
        _quoted(piece),
        # what is found in the chest is in the lungs where no other place is named
        found | (organs - {"lung"}),
        places,
        named_sides(text),
        covered_sides(text),
        frozenset(SIZES[word] for word in piece.said if word in SIZES),
        numbers,
        general=piece.denied,
        hedged=not piece.denied and piece.hedged,
    )
    if "heart" in organs and found & {"enlarge", "borderline", "cardiomegaly"}:
        return [replace(claim, concepts=claim.concepts - {"heart", "enlarge"} | {"cardiomegaly"})]
    for parts, name in _TOGETHER.items():
        if parts <= claim.concepts:
            claim = replace(claim, concepts=claim.concepts - parts | {name})
    if piece.normal and not piece.denied and organs and found <= QUALITIES:
        if "pulmonary" in plain and len(organs) > 1:
            # normal pulmonary vessels are no normal lungs
            organs -= {"lung"}
        return [_normal(claim, organ, alone=len(organs) == 1) for organ in sorted(organs)]
    if piece.normal:
        claim = replace(claim, concepts=claim.concepts | {"normal"})
    if not claim.concepts:
        claim = replace(claim, concepts=organs)
    return [claim] if claim != Claim(claim.text, frozenset(), general=claim.general, hedged=claim.hedged) else []


def _in_millimetres(number: str) -> str:
    """``0.8_cm`` is ``8_mm``."""
    centimetres = re.fullmatch(r"(\d+(?:\.\d+)?)_cm", number)
    return f"{float(centimetres[1]) * 10:g}_mm" if centimetres else number


def _normal(claim: Claim, organ: str, alone: bool) -> Claim:
    """An organ called normal; a heart that is normal is not enlarged."""
    heart = organ == "heart"
    return replace(
        claim,
        concepts=frozenset({"cardiomegaly" if heart else organ}),
        # "the heart and the upper mediastinum": of several organs nobody knows whose place it is
        places=claim.places if alone else frozenset(),
        sides=claim.sides if organ in PAIRED else frozenset(),
        general=True,
        normal=not heart,
    )


def _quoted(piece: Piece) -> str:
    """A piece as it can be quoted, without the small words at both ends."""
    told = [place for place, word in enumerate(piece.words) if word not in FILLER]
    words = " ".join(piece.words[told[0] : told[-1] + 1]).replace("_", " ")
    return f"no {words}" if piece.denied else f"possible {words}" if piece.hedged else words
