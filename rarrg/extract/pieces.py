"""A sentence -> pieces that each say one thing, with the negation and the doubt that reach them.

A sentence is cut where another noun phrase begins ("and", "with", a comma) and at words of negation and doubt. These
reach over the rest of their list, or back over what stands before them ("an effusion is not seen"). A piece that names
a place or an organ alone goes to the piece that says something of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Literal

from rarrg.extract.concepts import concept
from rarrg.extract.filler import FILLER
from rarrg.extract.lexicon import words
from rarrg.extract.marks import MAYBE, NO, marked
from rarrg.extract.terms import NORMAL, ORGANS, PLACES, QUALITIES, SIDES, SIZES, STATES

_TOKEN = re.compile(rf"[{NO}{MAYBE},;:()/]|[^\s{NO}{MAYBE},;:()/]+")
_LISTING = {",", "and", "or", "nor", "/"}
_BREAKING = words(
    "but with which while whereas although though however plus except despite there versus given vs ; : ( )"
)
_VERBS = words(
    "is are was were has have appears appear shows show demonstrates demonstrate reveals reveal remains remain"
)
_BEGINS = words("a an the there this") | SIDES
# adjectives of place, which want a noun after them
_WANTING = words(
    """
    left right bilateral upper lower middle mid basilar basal apical hilar perihilar mediastinal cardiac thoracic lumbar
    cervical pleural pulmonary osseous bony vascular aortic
    first second third fourth fifth sixth seventh eighth ninth tenth
    """
)
_EITHER = frozenset({"left", "right"})
_WHERE = words("in within at on along over near involving affecting throughout")
_NOUN = re.compile(r"(?:ence|ment|tion|ing|ity)$")


Reading = Literal["last", "first", "every"]
"""Of what is listed or joined by "with": what the place behind it belongs to."""


@dataclass
class Piece:
    """A part of a sentence.

    Attributes:
        words: Its words, in one spelling.
        before: What cut it from the piece before it.
        marks: Marks of negation and doubt that it begins with.
        denied: It denies what it names.
        hedged: It is not sure; None where that is open.
    """

    words: list[str] = field(default_factory=list)
    before: str = ""
    marks: str = ""
    denied: bool = False
    hedged: bool | None = False

    @property
    def said(self) -> list[str]:
        """Its words without those that claim nothing."""
        return [word for word in self.words if word not in FILLER]

    @property
    def normal(self) -> bool:
        """It has a word for what is as it should be."""
        return not NORMAL.isdisjoint(self.words)

    @property
    def tells(self) -> bool:
        """It says something of a place or an organ, and does not only name it."""
        if self.normal or any(map(_is_finding, self.said)):
            return True
        if "changes" in self.words and not QUALITIES.isdisjoint(map(concept, self.said)):
            return True
        organs = not ORGANS.isdisjoint(map(concept, self.said))
        return any(concept(word) in STATES and (organs or _NOUN.search(word)) for word in self.said)

    @property
    def closed(self) -> bool:
        """A verb follows what it names."""
        first = next((place for place, word in enumerate(self.words) if word not in FILLER), 0)
        return not _VERBS.isdisjoint(self.words[first:])


def _is_finding(word: str) -> bool:
    name = concept(word)
    places = ORGANS | PLACES | QUALITIES | SIDES | {"lobe"}
    return not (name in places or word in SIZES or is_number(word))


def is_number(word: str) -> bool:
    """Say whether a word is a measure or a count, such as "4_cm"."""
    return word[0].isdigit() or word[0] in "<>~"


def read_pieces(sentence: str, reading: Reading = "last") -> list[Piece]:
    """Read the pieces of a lower-case sentence.

    Args:
        sentence: The sentence.
        reading: Whose place it is that ends a list: "a mass with a cavity in the left lung".
    """
    pieces = _reached(_cut(marked(sentence)))
    if reading != "last":
        _share_place(pieces, every=reading == "every")
    return _gathered(pieces)


def _cut(text: str) -> list[Piece]:
    pieces = [Piece()]
    for token in _TOKEN.findall(text):
        word = token.strip(".'\"-")
        last = pieces[-1]
        if token in (NO, MAYBE):
            if last.said:
                pieces.append(last := Piece(before=token))
            last.marks += token
        elif word in _LISTING or word in _BREAKING:
            if last.said or (last.marks and last.words):
                pieces.append(Piece(before=word))
            elif last.before in ("", ",", MAYBE) or word in _BREAKING:
                last.before = word
        elif any(map(str.isalnum, word)):
            last.words.append(word)
    return pieces


def _reached(pieces: list[Piece]) -> list[Piece]:
    """Let negation and doubt reach over their lists, and leave out the pieces that say nothing."""
    kept: list[Piece] = []
    for index, piece in enumerate(pieces):
        if not piece.said:
            if piece.before in (NO, MAYBE):
                _reach_back(kept, denied=MAYBE not in piece.marks)
            continue
        if piece.marks:
            piece.denied = NO in piece.marks
            piece.hedged = not piece.denied
        elif kept and piece.before in _LISTING and _reaches(kept[-1], piece, pieces[index + 1 :]):
            piece.denied = kept[-1].denied
            # of "possible pneumonia and effusion" nobody knows how sure the effusion is
            piece.hedged = None if kept[-1].hedged and piece.before in (",", "and") else kept[-1].hedged
        if piece.before in ("or", "versus", "vs") and kept and not piece.denied and piece.tells and kept[-1].tells:
            # of two readings each is open
            piece.hedged = kept[-1].hedged = True
        kept.append(piece)
    return kept


def _reach_back(kept: list[Piece], denied: bool) -> None:
    """Let a mark reach what stands before it: "an effusion or a pneumothorax is not seen"."""
    for place in range(len(kept) - 1, -1, -1):
        kept[place].denied = kept[place].denied or denied
        kept[place].hedged = not denied
        if kept[place].before not in _LISTING or (place and kept[place - 1].closed):
            return
        if kept[place].before in (",", "and") and _begins(kept[place]):
            return


def _reaches(last: Piece, piece: Piece, later: list[Piece]) -> bool:
    """Whether the negation or doubt of a piece reaches the next one of its list."""
    if piece.before in ("or", "nor", "/"):
        return True
    if last.closed:
        return False
    listed = piece
    for following in later:
        if listed.closed or following.before not in _LISTING or following.marks:
            break
        if following.before in ("or", "nor"):
            return True
        listed = following
    return not (piece.closed or piece.normal or _begins(piece))


def _share_place(pieces: list[Piece], every: bool) -> None:
    """Move the place that ends a list to its first piece, or give it to every one."""
    for index, piece in enumerate(pieces):
        first = index
        while first and _goes_with(pieces[first], pieces[first - 1]):
            first -= 1
        tail = _place_behind(piece.words)
        # who has a side of its own needs none from elsewhere
        if first == index or not tail or not SIDES.isdisjoint(pieces[first].words):
            continue
        if not every:
            del piece.words[-len(tail) :]
        for owner in pieces[first:index] if every else pieces[first : first + 1]:
            owner.words += tail


def _goes_with(piece: Piece, last: Piece) -> bool:
    joined = piece.before in ("with", "and", ",") or (piece.before == NO and not piece.normal)
    return joined and not last.closed and any(map(_is_finding, last.said))


def _place_behind(told: list[str]) -> list[str]:
    """The words from the first verb or preposition on behind a finding, if they only name a place."""
    named = False
    for place, word in enumerate(told):
        if named and (word in _WHERE or word in _VERBS):
            tail = [each for each in told[place:] if each not in FILLER]
            only_place = tail and NORMAL.isdisjoint(tail) and not any(map(_is_finding, tail))
            return told[place:] if only_place else []
        named = named or (word not in FILLER and _is_finding(word))
    return []


def _begins(piece: Piece) -> bool:
    """Whether a piece begins a statement of its own: "and a small left effusion"."""
    return piece.words[0] in _BEGINS or piece.words[0] in SIZES


def _gathered(pieces: list[Piece]) -> list[Piece]:
    """Give the pieces that name a place or an organ alone to those that say something of it."""
    gathered: list[Piece] = []
    waiting: list[str] = []
    for index, piece in enumerate(pieces):
        if piece.tells or (_qualifies(piece)):
            if gathered and not piece.denied and (NORMAL | SIDES).issuperset(piece.said):
                # "the lungs are hyperinflated but clear"
                piece.words += [word for word in gathered[-1].said if concept(word) in ORGANS or word in SIDES]
            if not SIDES.isdisjoint(piece.said) and _divides(Piece(waiting)):
                gathered.append(replace(piece, words=waiting + _without_side(piece.words)))
                waiting = []
            elif waiting and _names_other_side(Piece(waiting, before=piece.before), piece):
                # "right middle and left lower lobe opacities"
                gathered.append(replace(piece, words=waiting + [word for word in piece.words if not _is_place(word)]))
                waiting = []
            piece.words = waiting + piece.words
            waiting = []
            gathered.append(piece)
        elif gathered and not waiting and _divides(piece):
            gathered.append(replace(gathered[-1], words=_without_side(gathered[-1].words) + piece.words))
        elif gathered and not waiting and _turns(piece, gathered[-1]):
            # "the tip is not in the stomach", "no effusion on the right but on the left"
            told = _without_side(gathered[-1].words) + piece.words
            gathered.append(replace(gathered[-1], words=told, denied=piece.denied, hedged=piece.hedged))
        elif gathered and not waiting and _names_other_side(piece, gathered[-1]):
            # "opacities in the right middle lobe and left lower lobe"
            told = gathered[-1].words
            tail = _place_behind(told)
            gathered.append(replace(gathered[-1], words=told[: len(told) - len(tail)] + piece.words))
        elif not gathered or _goes_on(piece, pieces[index + 1 :]):
            waiting += piece.words
            last = piece
        else:
            gathered[-1].words += waiting + piece.words
            waiting = []
    if waiting and gathered:
        gathered[-1].words += waiting
    elif waiting:
        last.words = waiting
        gathered.append(last)
    return gathered


def _divides(piece: Piece) -> bool:
    """Whether a piece gives one side its size: "bilateral effusions, small on the left"."""
    said = set(piece.said)
    return not piece.marks and bool(said & SIDES) and bool(said & SIZES.keys()) and said <= SIDES | SIZES.keys()


def _turns(piece: Piece, last: Piece) -> bool:
    """Whether a piece that names a place, a side or a size alone denies it of an affirmed finding, or the reverse."""
    if piece.denied and NO in piece.marks:
        return not last.denied
    return last.denied and not piece.marks and piece.before in _BREAKING and not SIDES.isdisjoint(piece.said)


def _names_other_side(piece: Piece, last: Piece) -> bool:
    """Whether two pieces of a list each name one side, and not the same."""
    one, other = _EITHER.intersection(piece.said), _EITHER.intersection(last.said)
    listed = piece.before in ("and", ",") and not piece.marks
    return listed and len(one) == len(other) == 1 and one != other


def _is_place(word: str) -> bool:
    return word in SIDES or concept(word) in PLACES or concept(word) == "lobe"


def _without_side(told: list[str]) -> list[str]:
    return [word for word in told if word not in SIDES and word not in SIZES]


def _qualifies(piece: Piece) -> bool:
    """Whether a doubt tells of what kind a finding is: "likely vascular in nature", not "likely in the lung"."""
    first = piece.words.index(piece.said[0])
    return MAYBE in piece.marks and concept(piece.said[0]) in ORGANS and _WHERE.isdisjoint(piece.words[:first])


def _goes_on(piece: Piece, later: list[Piece]) -> bool:
    """Whether a place or an organ belongs to what follows: "the heart | and mediastinum are normal"."""
    last = piece.said[-1]
    for following in later:
        if following.before in (NO, MAYBE):
            return True
        if following.before not in _LISTING:
            return False
        if following.tells:
            if last in _WANTING or last in SIZES or concept(last) in QUALITIES:
                return True
            elsewhere = not following.normal and not ORGANS.isdisjoint(map(concept, following.said))
            return concept(last) in ORGANS and not elsewhere and (following.normal or following.closed)
    return False
