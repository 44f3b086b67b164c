"""What an LLM says are the key phrases of a report -> the key phrases that are kept.

A phrase leaves, or is put right, for one of the reasons of :data:`REASONS`; each is told. The labeler of findings is
given by the caller, as extraction knows nothing of metrics.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from rarrg.extract.comparison import compares, speaks_of_change, without_change
from rarrg.extract.cues import Labeler
from rarrg.extract.evidence import Evidence, Fault
from rarrg.extract.rules import extract_phrases

Reason = Literal["comparison"] | Fault
REASONS: dict[Reason, str] = {
    "comparison": "compare with an earlier study",
    "unsupported": "say what neither the report nor its rule-based phrases say",
    "negation": "affirm what is denied there, or deny what is affirmed",
    "certainty": "affirm what is only suspected there",
    "mark": "hold a mark of de-identification",
}

_EDGES = " \t\r\n.,;:\"'`*-•"
_BRACKETS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class Removed:
    """A phrase that did not stay as the LLM wrote it.

    Attributes:
        phrase: The phrase, cleaned.
        reason: Why.
        became: What stands in its place; empty where nothing does.
    """

    phrase: str
    reason: Reason
    became: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refined:
    """The key phrases of a report.

    Attributes:
        phrases: Lower-case phrases, each once, in the LLM's order.
        removed: Phrases that were put right or left out.
        unsupported: Phrases of ``phrases`` that would have been left out, had they not been asked for.
    """

    phrases: tuple[str, ...]
    removed: tuple[Removed, ...]
    unsupported: tuple[str, ...] = ()


def refine(
    said: Sequence[str], findings: str, structure: Sequence[str], label: Labeler, keep_unsupported: bool = False
) -> Refined:
    """Keep the phrases that describe the present state and rest on the report.

    1. Trimmed, lower-cased, each once.
    2. A phrase that compares with an earlier study is read by the rules, which put it into the present; where they find
       nothing, the words of comparison are taken out. What is no statement without them leaves.
    3. What the report does not bear out leaves (:meth:`Evidence.fault`).

    Args:
        said: The LLM's phrases.
        findings: The report they were made of.
        structure: The rule-based phrases that the LLM was given.
        label: Labels the observations of a text.
        keep_unsupported: Keep what step 3 would leave out.
    """
    evidence = Evidence(findings, structure, label)
    kept: dict[str, None] = {}
    removed: list[Removed] = []
    unsupported: list[str] = []
    for phrase in dict.fromkeys(map(clean, said)):
        present: tuple[str, ...] = (phrase,) if phrase else ()
        if phrase and moves(phrase):
            present = _present(phrase)
            removed.append(Removed(phrase, "comparison", present))
        for each in present:
            fault = evidence.fault(each)
            if fault is None or keep_unsupported:
                kept[each] = None
                if fault is not None:
                    unsupported.append(each)
            else:
                removed.append(Removed(each, fault))
    return Refined(tuple(kept), tuple(removed), tuple(unsupported))


# Reports share most of their phrases.
@lru_cache(maxsize=1 << 14)
def clean(phrase: str) -> str:
    """One line of lower-case text without quotes, bullets, full stops and lone brackets at its ends."""
    text = " ".join(unicodedata.normalize("NFKC", phrase).lower().split()).strip(_EDGES)
    text = text.replace("re-demonstrat", "redemonstrat")
    for opening, closing in _BRACKETS.items():
        if text.count(opening) != text.count(closing) or (text.startswith(opening) and text.endswith(closing)):
            text = text.strip(opening + closing + _EDGES)
    return text


@lru_cache(maxsize=1 << 14)
def moves(phrase: str) -> bool:
    """Whether a phrase compares with an earlier study or tells how something moved."""
    return compares(phrase) or speaks_of_change(phrase)


@lru_cache(maxsize=1 << 14)
def _present(phrase: str) -> tuple[str, ...]:
    """The phrases that are left of one that compares, none of which does."""
    read = tuple(each for each in extract_phrases(phrase) if not moves(each))
    if read:
        return read
    rest = clean(without_change(phrase))
    return (rest,) if rest and not moves(rest) and extract_phrases(rest) else ()
