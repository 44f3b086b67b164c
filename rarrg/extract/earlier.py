"""Comparison with an earlier study in the words of whoever writes: a radiologist or a language model."""

from __future__ import annotations

import re

from rarrg.extract.comparison import COMPARISON_TERMS, QUANTITY, compares, speaks_of_change, without_change

_MOVED = r"(?:persist|remain|continue|improve|worsen|resolve|re-?demonstrate|progress|enlarging)(?:s|d|ed)?"
_MOVES = re.compile(
    rf"\b{_MOVED}\b|\b(?:has|have) (?:appeared|developed)\b"
    r"|\b(?:is|are|of|looks?|appears?) the same\b(?! (?:lobe|side|level|region|area|place))"
)
_WORDS = re.compile(
    rf"\b(?:{'|'.join(term for term in COMPARISON_TERMS if 'creased' not in term)}|new|{_MOVED})\b"
    rf"|\b(?:in|de)creased\b(?! (?:[\w/-]+ ){{0,5}}?{QUANTITY}\b)"
)
# A quantity with a norm is held to it, and the rest of the lungs is no matter of time.
_DESCRIBES = re.compile(
    rf"\b{QUANTITY}(?: of (?:the )?[a-z]+(?: [a-z]+)?)?"
    r" (?:is|are|appears?) (?:\w+ly )?(?:increased|decreased|reduced|diminished)\b"
    rf"|\breduced (?=(?:\w+ )?{QUANTITY}\b)|\bremaining (?=(?:\w+ )?(?:lungs?|bon|osseous|portions?))"
)


def compares_with_earlier(text: str) -> bool:
    """Say whether a sentence compares with an earlier study.

    Beside the terms that phrases are held to (:mod:`rarrg.extract.comparison`), the words in which a language model
    tells how something moved count.

    Args:
        text: A sentence, in any case.
    """
    lower = _DESCRIBES.sub(" ", text.lower())
    return compares(lower) or speaks_of_change(lower) or _MOVES.search(lower) is not None


def without_comparison(text: str) -> str:
    """A lower-case sentence without its words of comparison."""
    return _WORDS.sub(" ", without_change(text)) if compares_with_earlier(text) else text
