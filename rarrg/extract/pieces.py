"""A sentence -> pieces that each say one thing, with the negation and the doubt that reach them.

A sentence is cut where another noun phrase begins ("and", "with", a comma) and at words of negation and doubt. These
reach over the rest of their list, or back over what stands before them ("an effusion is not seen"). A piece that names
a place or an organ alone goes to the piece that says something of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rarrg.extract.concepts import concept, one_spelling
from rarrg.extract.cues import HEDGE
from rarrg.extract.earlier import without_comparison
from rarrg.extract.lexicon import words
from rarrg.extract.terms import FILLER, NORMAL, ORGANS, PLACES, QUALITIES, SIDES, SIZES, STATES

_NO, _MAYBE = "¬", "≈"
_IMAGES = r"(?:views?|projections?|radiographs?|images?|films?|x-?rays?)"
_VIEW = re.compile(
    r"\b(?:(?:on|in|from|at) )?(?:(?:both|the|this|these|either) )*"
    rf"(?:(?:frontal|lateral)(?:,? and |,? or |/|, )?(?:the )?)+ ?(?:chest )?{_IMAGES}\b"
    rf"|\b(?:on|in) both {_IMAGES}\b"
)
_NOT_EXCLUDED = re.compile(
    r"\b(?:can ?not|can't|could not|may not|not)(?: be)?(?: (?:entirely|completely|definitively|fully))?(?: be)?"
    r" (?:excluded?|ruled out|rule out)\b|\bdifficult to (?:exclude|rule out)\b"
)
_DOUBT = re.compile(
    rf"\b(?:{HEDGE}|suspicious for|suspicion (?:of|for)|concern(?:ing)? (?:for|of)|worrisome for|presum\w+|perhaps"
    r"|(?:thought|believed|felt) to|favou?r\w*|potentially|(?:possibility|question|suggestion) of"
    r"|rais(?:ing|es|e) (?:the )?(?:possibility|question|concern) (?:of|for)|differential (?:diagnosis )?includes)\b"
)
_BESIDES = re.compile(
    r"\b(?:in addition to|along with|as well as|together with|accompanied by|alongside|besides|in combination with)\b"
)
_DENIAL = re.compile(
    r"\b(?:no|not|without|neither|nor|absen(?:t|ce of)|free (?:of|from)|clear of|negative for|lack of|devoid of|lacks?"
    r"|never|rather than)\b"
)
_TOKEN = re.compile(rf"[{_NO}{_MAYBE},;:()/]|[^\s{_NO}{_MAYBE},;:()/]+")
_LISTING = {",", "and", "or", "nor", "/"}
_BREAKING = words("but with which while whereas although though however plus except despite there versus vs ; : ( )")
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
_NOUN = re.compile(r"(?:ence|ment|tion|ing|ity)$")


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


def read_pieces(sentence: str) -> list[Piece]:
    """Read the pieces of a lower-case sentence."""
    return _gathered(_reached(_cut(_marked(sentence))))


def _marked(sentence: str) -> str:
    text = _VIEW.sub(" ", " ".join(sentence.replace("*", " ").split()).rstrip(" .,;:!?"))
    text = _BESIDES.sub("with", one_spelling(without_comparison(text)))
    text = _NOT_EXCLUDED.sub(f" {_MAYBE} ", text)
    text = _DOUBT.sub(lambda cue: f" {_MAYBE} versus " if cue[0] in ("versus", "vs") else f" {_MAYBE} ", text)
    return _DENIAL.sub(f" {_NO} ", text)


def _cut(text: str) -> list[Piece]:
    pieces = [Piece()]
    for token in _TOKEN.findall(text):
        word = token.strip(".'\"-")
        last = pieces[-1]
        if token in (_NO, _MAYBE):
            if last.said:
                pieces.append(last := Piece(before=token))
            last.marks += token
        elif word in _LISTING or word in _BREAKING:
            if last.said or (last.marks and last.words):
                pieces.append(Piece(before=word))
            elif last.before in ("", ",", _MAYBE) or word in _BREAKING:
                last.before = word
        elif any(map(str.isalnum, word)):
            last.words.append(word)
    return pieces


def _reached(pieces: list[Piece]) -> list[Piece]:
    """Let negation and doubt reach over their lists, and leave out the pieces that say nothing."""
    kept: list[Piece] = []
    for index, piece in enumerate(pieces):
        if not piece.said:
            if piece.before in (_NO, _MAYBE):
                _reach_back(kept, denied=_MAYBE not in piece.marks)
            continue
        if piece.marks:
            piece.denied = _NO in piece.marks
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


def _begins(piece: Piece) -> bool:
    """Whether a piece begins a statement of its own: "and a small left effusion"."""
    return piece.words[0] in _BEGINS or piece.words[0] in SIZES


def _gathered(pieces: list[Piece]) -> list[Piece]:
    """Give the pieces that name a place or an organ alone to those that say something of it."""
    gathered: list[Piece] = []
    waiting: list[str] = []
    for index, piece in enumerate(pieces):
        if piece.tells:
            if gathered and not piece.denied and NORMAL.issuperset(piece.said):
                # "the lungs are hyperinflated but clear"
                piece.words += [word for word in gathered[-1].said if concept(word) in ORGANS or word in SIDES]
            piece.words = waiting + piece.words
            waiting = []
            gathered.append(piece)
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


def _goes_on(piece: Piece, later: list[Piece]) -> bool:
    """Whether a place or an organ belongs to what follows: "the heart | and mediastinum are normal"."""
    last = piece.said[-1]
    for following in later:
        if following.before in (_NO, _MAYBE):
            return True
        if following.before not in _LISTING:
            return False
        if following.tells:
            if last in _WANTING or last in SIZES or concept(last) in QUALITIES:
                return True
            elsewhere = not following.normal and not ORGANS.isdisjoint(map(concept, following.said))
            return concept(last) in ORGANS and not elsewhere and (following.normal or following.closed)
    return False
