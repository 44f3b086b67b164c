"""A rule-based labeler of the 14 CheXpert observations: mention, negation, uncertainty.

The scheme is that of the CheXpert labeler (Irvin et al., AAAI 2019): words mention an observation, the words around
them deny or hedge it, and over a report a positive mention outweighs an uncertain one, and that a negative one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache

import numpy as np

from rarrg.denials import plain_denials
from rarrg.metrics.finding_context import denied, hedged, undecided, unstated
from rarrg.metrics.finding_terms import HEDGED, MENTIONS, OBSERVATIONS, ORGANS, OTHER, STATE

__all__ = ["OBSERVATIONS", "Label", "label_findings", "positive_findings"]


class Label(str, Enum):
    """What a text says of one observation."""

    BLANK = "blank"
    POSITIVE = "positive"
    NEGATIVE = "negative"
    UNCERTAIN = "uncertain"


_RANK = {Label.BLANK: 0, Label.NEGATIVE: 1, Label.UNCERTAIN: 2, Label.POSITIVE: 3}
_SENTENCE_END = re.compile(r"[.!?]+(?=\s|$)|[.](?=[a-z]{2})|[;\n\r]+", re.IGNORECASE)
_ABBREVIATION = re.compile(r"\b(vs|dr|approx)\.", re.IGNORECASE)
_MARK = re.compile(r"x{3,}|_{2,}")


def label_findings(text: str) -> dict[str, Label]:
    """Label a report, or key phrases joined by full stops.

    Each sentence is labelled by itself, so a phrase has the same labels alone and among others. "No Finding" is
    positive where nothing but Support Devices is positive or uncertain, the findings outside the 13 included.

    Args:
        text: Findings, impression, or phrases; any case.

    Returns:
        Every observation of `OBSERVATIONS` with its label.
    """
    labels = dict.fromkeys((*OBSERVATIONS, OTHER), Label.BLANK)
    for sentence in _SENTENCE_END.split(_ABBREVIATION.sub(r"\1", text)):
        for observation, label in _label_sentence(" ".join(sentence.lower().split())):
            if _RANK[label] > _RANK[labels[observation]]:
                labels[observation] = label
    other = labels.pop(OTHER)
    found = [other, *(labels[name] for name in OBSERVATIONS[:-2])]
    if not any(label in (Label.POSITIVE, Label.UNCERTAIN) for label in found):
        labels["No Finding"] = Label.POSITIVE
    return labels


def positive_findings(texts: Sequence[str]) -> np.ndarray:
    """Say which findings each text affirms.

    Args:
        texts: Reports or joined phrases.

    Returns:
        Booleans `[texts, 13]` in the order of `OBSERVATIONS[:-1]`: POSITIVE alone (uncertain is not positive).
    """
    found = np.zeros((len(texts), len(OBSERVATIONS) - 1), dtype=bool)
    for row, text in enumerate(texts):
        labels = label_findings(text)
        found[row] = [labels[name] is Label.POSITIVE for name in OBSERVATIONS[:-1]]
    return found


@lru_cache(maxsize=100_000)
def _label_sentence(sentence: str) -> tuple[tuple[str, Label], ...]:
    sentence = plain_denials(_MARK.sub("xxxx", sentence)).replace("non-calcified", "noncalcified")
    labels = [
        (observation, _label(sentence, *found.span()))
        for observation, pattern in MENTIONS
        for found in pattern.finditer(sentence)
    ]
    for observation, organ in ORGANS:
        labels += [(observation, _state(sentence, *found.span())) for found in organ.finditer(sentence)]
    return tuple(labels)


def _label(sentence: str, start: int, end: int) -> Label:
    if unstated(sentence, start, end):
        return Label.BLANK
    if undecided(sentence, start, end):
        return Label.UNCERTAIN
    if denied(sentence, start, end):
        return Label.NEGATIVE
    if hedged(sentence, start, end) or HEDGED.match(sentence, start):
        return Label.UNCERTAIN
    return Label.POSITIVE


# "normal overall heart size": the state stands beside its organ
_BESIDE = re.compile(r"(?: |in |of |the |overall |sized? |appearing |appearance |transverse )*$")
# "normal heart size and mediastinum": one state before several organs
_LIST = re.compile(
    r" (?!and\b)(?:[ ,/]|(?:and|in|of|the|size|shape|overall|contours?|heart|cardiac|mediastin\w+|silhouettes?|lungs?"
    r"|pulmonary|hil\w+|vascul\w+|xxxx|aort\w+|appearance|configuration|both|trachea)\b)*$"
)
# what keeps an organ and a later state apart: a turn, a state between, a comma that begins something else
_PREDICATE_ENDS = re.compile(
    r"\b(?:but|however|although|though|whereas|while|which|with(?!in| in\b)|without|no|there|due|from|overl\w+)\b"
    r"|\b(?:stable|unchanged|clear|midline|tortuous|calcified|intact|similar|obscured)\b(?! (?:and|in|with)\b)"
    r"|,(?! (?:and )?(?:the )?(?:is|are|mediastin|heart|cardiac|lung|hil|pulmonary|aort|trachea|bon|pleura|soft|vascul"
    r"|xxxx|but|stable|mild|moder|border|upper|top|grossly))"
    r"|\band (?:the |there )?(?:\w+ ){1,3}(?:is|are)\b"
)
_FARTHEST = 90  # characters from an organ to its state


def _state(sentence: str, start: int, end: int) -> Label:
    """Label an organ by the state that is said of it: ``the heart is mildly enlarged``, ``normal heart size``."""
    before = list(STATE.finditer(sentence, 0, start))
    between = sentence[before[-1].end() : start] if before else None
    after = STATE.search(sentence, end, end + _FARTHEST)
    if after is not None and _PREDICATE_ENDS.search(sentence[end : after.start()]):
        after = None
    if between is not None and (_BESIDE.match(between) or (after is None and _LIST.match(between))):
        state = before[-1]
    elif after is not None:
        state = after
    else:
        return Label.BLANK
    if state["uncertain"]:
        return Label.UNCERTAIN
    if state["negative"]:
        return Label.NEGATIVE
    return _label(sentence, *state.span())
