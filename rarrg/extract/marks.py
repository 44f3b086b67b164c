"""Words of negation and doubt in a sentence, replaced by marks; headings and names of views left out."""

from __future__ import annotations

import re

from rarrg.denials import plain_denials
from rarrg.extract.concepts import one_spelling
from rarrg.extract.cues import HEDGE, NOR_IS
from rarrg.extract.earlier import without_comparison

NO, MAYBE = "¬", "≈"
"""Marks of negation and of doubt."""
_IMAGES = r"(?:views?|projections?|radiographs?|images?|films?|x-?rays?)"
_VIEW = re.compile(
    r"\b(?:(?:on|in|from|at) )?(?:(?:both|the|this|these|either) )*"
    rf"(?:(?:frontal|lateral)(?:,? and |,? or |/|, )?(?:the )?)+ ?(?:chest )?{_IMAGES}\b"
    rf"|\b(?:on|in) both {_IMAGES}\b"
)
_PART = r"(?:lungs?|pleura|pleural spaces?|heart|mediastinum|bones?|soft tissues?|lines?|tubes?|devices?|airways?)"
# headings of several parts, or of none that a report speaks of; "lungs: clear" needs its own
_HEADING = re.compile(
    rf"^(?:{_PART}(?:(?: and |, |/| & ){_PART})+|cardiovascular|cardiomediastinal|other|devices|support devices): ?"
    r"(?=\S+ \S)"
)
_NOT_EXCLUDED = re.compile(
    r"\b(?:can ?not|can't|could not|may not|not)(?: be)?(?: (?:entirely|completely|definitively|fully))?(?: be)?"
    r" (?:excluded?|ruled out|rule out)\b|\bdifficult to (?:exclude|rule out)\b"
)
_DOUBT = re.compile(
    rf"\b(?:{HEDGE}|suspicious for|suspicion (?:of|for)|concern(?:ing)? (?:for|of)|worrisome for|presum\w+|perhaps"
    r"|(?:thought|believed|felt) to|favou?r\w*|potentially|(?:possibility|question|suggestion) of"
    r"|rais(?:ing|es|e) (?:the )?(?:possibility|question|concern) (?:of|for)"
    r"|differential (?:diagnosis )?(?:includes|of)|(?:an? |in the )(?:possibility|consideration|differential))\b"
)
_BESIDES = re.compile(
    r"\b(?:other than|aside from|apart from|with the exception of|in addition to|along with|as well as|together with"
    r"|accompanied by|alongside|besides|in combination with)\b"
)
# "nearly normal" is not normal
_SHORT_OF = re.compile(
    r"\b(?:only )?(?:partially|partly|nearly|near|almost|incompletely|above|beyond|below|less than)(?: completely)?"
    r"[ -](?=(?:normal|clear|unremarkable|intact)\b)"
)
_DENIAL = re.compile(
    r"\b(?:no|not|without|neither|nor|absen(?:t|ce of)|free (?:of|from)|clear of|negative for|lack of|devoid of|lacks?"
    r"|never|rather than)\b"
)


def marked(sentence: str) -> str:
    """A lower-case sentence in one spelling, with marks for the words of negation and doubt."""
    text = _VIEW.sub(" ", _HEADING.sub("", " ".join(sentence.replace("*", " ").split()).rstrip(" .,;:!?")))
    text = _BESIDES.sub("with", one_spelling(without_comparison(plain_denials(text))))
    text = _SHORT_OF.sub("incompletely ", text)
    text = _NOT_EXCLUDED.sub(f" {MAYBE} ", text)
    text = _DOUBT.sub(lambda cue: f" {MAYBE} versus " if cue[0] in ("versus", "vs") else f" {MAYBE} ", text)
    text = NOR_IS.sub("nor", text)
    return _DENIAL.sub(f" {NO} ", text)
