"""What an LLM says are the key phrases of a report -> the key phrases that are kept.

A phrase leaves, or is put right, for one of the reasons of :data:`REASONS`; each is told. The labeler of findings is
given by the caller, as extraction knows nothing of metrics.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rarrg.extract.comparison import compares, speaks_of_change
from rarrg.extract.rules import extract_phrases

Reason = Literal["comparison", "unsupported", "negation"]
REASONS: dict[Reason, str] = {
    "comparison": "compares with an earlier study",
    "unsupported": "says something that neither the report nor its rule-based phrases say",
    "negation": "affirms what the report only denies",
}

Labeler = Callable[[str], Mapping[str, str]]
"""Text to the state of each observation: ``positive``, ``negative``, ``uncertain`` or ``blank``."""

_SIDES = {side: re.compile(rf"\b{side}\b") for side in ("left", "right")}
_BOTH_SIDES = re.compile(r"\b(?:bilateral(?:ly)?|both|bi(?:basilar|basal|apical|hilar))\b")
_EDGES = " \t\r\n.,;:\"'`*-•[](){}"
_WORD = re.compile(r"[a-z]{3,}")
_STEM = 5
# Words of place, side, size and certainty, which say nothing of what was found.
_COMMON = frozenset(
    """
    the and with for from into onto over under than that this there are was were has have not without within along
    left right upper lower middle mid central bilateral both base bases basal basilar apex apical hemithorax lobe lobes
    lung lungs chest zone zones region area side sided anterior posterior lateral medial
    small large mild mildly moderate moderately severe minimal slight slightly tiny trace marked markedly diffuse focal
    possible possibly likely probable probably maybe suggestive suggesting evidence definite acute chronic
    normal clear unremarkable intact stable limits
    """.split()
)


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
       nothing, it leaves.
    3. An observation that a phrase speaks of must be spoken of in the report or its rule-based phrases, and one that it
       affirms or suspects must not be only denied there. A side that it names must be named there. A phrase without an
       observation must share half of its words with them, those of place, size and certainty aside, by their first five
       letters.

    Args:
        said: The LLM's phrases.
        findings: The report they were made of.
        structure: The rule-based phrases that the LLM was given.
        label: Labels the observations of a text.
        keep_unsupported: Keep what step 3 would leave out.
    """
    evidence = ". ".join([findings, *structure])
    known = _Known(label(evidence), _stems(evidence), _sides(evidence))
    kept: dict[str, None] = {}
    removed: list[Removed] = []
    unsupported: list[str] = []
    for phrase in dict.fromkeys(map(clean, said)):
        present: tuple[str, ...] = (phrase,) if phrase else ()
        if phrase and (compares(phrase) or speaks_of_change(phrase)):
            read = extract_phrases(phrase)
            present = tuple(each for each in read if not compares(each) and not speaks_of_change(each))
            removed.append(Removed(phrase, "comparison", present))
        for each in present:
            reason = _unfounded(each, label(each), known)
            if reason is None or keep_unsupported:
                kept[each] = None
                if reason is not None:
                    unsupported.append(each)
            else:
                removed.append(Removed(each, reason))
    return Refined(tuple(kept), tuple(removed), tuple(unsupported))


def clean(phrase: str) -> str:
    """One line of lower-case text without quotes, bullets and full stops at its ends."""
    return " ".join(unicodedata.normalize("NFKC", phrase).lower().split()).strip(_EDGES)


@dataclass(frozen=True)
class _Known:
    """What report and rule-based phrases say."""

    labels: Mapping[str, str]
    stems: frozenset[str]
    sides: frozenset[str]


def _unfounded(phrase: str, said: Mapping[str, str], known: _Known) -> Reason | None:
    observations = {name: state for name, state in said.items() if state != "blank" and name != "No Finding"}
    if any(known.labels[name] == "blank" for name in observations) or _sides(phrase) - known.sides:
        return "unsupported"
    if any(state != "negative" and known.labels[name] == "negative" for name, state in observations.items()):
        return "negation"
    own = _stems(phrase)
    if not observations and own and 2 * len(own & known.stems) < len(own):
        return "unsupported"
    return None


def _sides(text: str) -> frozenset[str]:
    lower = text.lower()
    both = _BOTH_SIDES.search(lower)
    return frozenset(side for side, word in _SIDES.items() if both or word.search(lower))


def _stems(text: str) -> frozenset[str]:
    return frozenset(word[:_STEM] for word in _WORD.findall(text.lower()) if word not in _COMMON)
