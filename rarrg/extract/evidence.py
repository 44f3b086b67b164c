"""What a report bears out: a key phrase against the statements of its report.

A statement is a sentence of the report, or one of its rule-based phrases. It says which observations it speaks of and
how, which side it names, and which words it has. A phrase is judged against single statements, not against the report
as a whole, in which every word may stand for something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal

from rarrg.extract.cues import HEDGE, SENTENCE_END, Labeler, covered_sides, named_sides
from rarrg.extract.rules import extract_phrases

Fault = Literal["mark", "unsupported", "negation", "certainty"]

_MARK = re.compile(r"_{2,}|\bx{3,}\b|¤")
_NEGATED = re.compile(r"^(?:no|without|absence of|absent)\b")
_DENIES = re.compile(r"\b(?:no|not|nor|without|absen(?:t|ce)|never|free of|negative for|clear of|resolved)\b")
_GONE = re.compile(r"\b(?:removed|removal of|extubated|extubation|no longer)\b")
_NORMAL = re.compile(r"\b(?:normal|clear|unremarkable|intact|midline)\b")
_HEDGED = re.compile(rf"\b(?:{HEDGE})\b")
_REFERS = re.compile(r"^(?:this|these|it|they|which|associated)\b")
_CURVED = re.compile(r"\b(?:dextro|levo)-?")
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
    low normal clear unremarkable intact limits seen noted present
    """.split()
)
# One label stands for many things here: a tube is no catheter, a rib no vertebra.
_KINDS = frozenset({"Support Devices", "Fracture"})


@dataclass(frozen=True)
class Statement:
    """What one sentence or phrase says.

    Attributes:
        labels: State of the observations that it speaks of.
        sides: ``left``, ``right``: those it names; where it names none, both for a plural of a paired organ.
        named: Those it names.
        stems: First letters of its words, without those of place, side, size and certainty.
        words: First letters of all its words.
        negated: It denies what it speaks of.
        normal: It says that something is as it should be.
        hedged: It is not sure.

    The last three are None for a sentence that does so of something and perhaps not of all.
    """

    labels: Mapping[str, str]
    sides: frozenset[str]
    named: frozenset[str]
    stems: frozenset[str]
    words: frozenset[str]
    negated: bool | None
    normal: bool | None
    hedged: bool | None


class Evidence:
    """The statements of one report.

    Args:
        findings: The report.
        structure: Its rule-based phrases.
        label: Labels the observations of a text.
    """

    def __init__(self, findings: str, structure: Sequence[str], label: Labeler) -> None:
        self._findings = findings
        self._label = label
        self._phrases = [self._statement(phrase) for phrase in structure]
        self._statements = [*self._sentences(), *self._phrases]

    def fault(self, phrase: str) -> Fault | None:
        """Why the report does not bear a phrase out, or None.

        Each observation that the phrase speaks of must be spoken of in a statement with the phrase's side: affirmed for
        a phrase that affirms it (``certainty`` where it is only suspected, ``negation`` where it is only denied),
        denied and nowhere affirmed for one that denies it; of devices and fractures it must have more than half of the
        phrase's words. Where no observation decides, a statement must have more than half of the words, the side, and
        be negated or not as the phrase is. What the rules read out of the phrase and out of the report alike
        is borne out in any case.

        Args:
            phrase: A lower-case phrase.
        """
        if _MARK.search(phrase):
            return "mark"
        own = self._statement(phrase, phrase)
        claimed = own.named
        found = self._observed(own, claimed) if own.labels else self._worded(own, claimed, self._statements)
        if found is None:
            return None
        read = _read_of(phrase)
        if read and read <= self._read:
            return None
        if found == "unsupported":
            return self._worded(own, claimed, [*self._statements, *self._read_statements])
        return found

    @cached_property
    def _read(self) -> frozenset[str]:
        return frozenset(extract_phrases(self._findings))

    @cached_property
    def _read_statements(self) -> list[Statement]:
        return [self._statement(phrase) for phrase in sorted(self._read)]

    def _observed(self, own: Statement, claimed: frozenset[str]) -> Fault | None:
        for name, state in own.labels.items():
            spoken = [each for each in self._statements if name in each.labels and claimed <= each.sides]
            if name in _KINDS:
                spoken = [each for each in spoken if _enough(own, each) and each.normal in (own.normal, None)]
            states = {each.labels[name] for each in spoken}
            if not states:
                return "unsupported"
            if state == "negative" and (states != {"negative"} or self._affirmed_near(name, claimed)):
                return "negation"
            if state != "negative" and states == {"negative"}:
                return "negation"
            if state == "positive" and "positive" not in states:
                return "certainty"
        return None

    def _affirmed_near(self, name: str, claimed: frozenset[str]) -> bool:
        """Whether an observation is affirmed on a side of a phrase, or, for a phrase without a side, anywhere."""
        return any(
            each.labels.get(name) == "positive" and (not claimed or not each.sides or bool(claimed & each.sides))
            for each in self._statements
        )

    @staticmethod
    def _worded(own: Statement, claimed: frozenset[str], statements: Sequence[Statement]) -> Fault | None:
        fault: Fault = "unsupported"
        for each in statements:
            if not (claimed <= each.sides and _enough(own, each)):
                continue
            if None in (each.negated, each.normal, each.hedged):
                continue
            if (own.negated, own.normal) != (each.negated, each.normal):
                fault = "negation"
            elif each.hedged and not own.hedged:
                fault = "certainty"
            else:
                return None
        return fault

    def _sentences(self) -> Iterator[Statement]:
        before: frozenset[str] = frozenset()
        for sentence in SENTENCE_END.split(self._findings):
            said = _said(self._label, sentence.lower())
            # "An opacity at the right base. This may be atelectasis." names the side once.
            if not said.sides and _REFERS.match(sentence.lower()):
                said = replace(said, sides=before)
            before = said.sides
            yield said

    def _statement(self, text: str, also: str = "") -> Statement:
        return _statement(self._label, text.lower(), also)


# Reports share most of their sentences and phrases.
@lru_cache(maxsize=1 << 14)
def _said(label: Labeler, lower: str) -> Statement:
    """What a lower-case sentence says by itself."""
    said = _statement(label, lower, _CURVED.sub("", lower))
    gone = _GONE.search(lower) is not None
    return replace(
        said,
        labels={} if gone else said.labels,
        stems=frozenset() if gone else said.stems,
        negated=None if _DENIES.search(lower) else False,
        normal=None if said.normal else False,
        hedged=None if said.hedged else False,
    )


@lru_cache(maxsize=1 << 14)
def _read_of(phrase: str) -> frozenset[str]:
    return frozenset(extract_phrases(phrase))


@lru_cache(maxsize=1 << 14)
def _statement(label: Labeler, lower: str, also: str) -> Statement:
    """What a lower-case text says; its words may be those of another spelling too."""
    labels = {name: state for name, state in label(lower).items() if state != "blank" and name != "No Finding"}
    words = _WORD.findall(f"{lower} {also or _CURVED.sub('', lower)}")
    return Statement(
        labels,
        covered_sides(lower),
        named_sides(lower),
        frozenset(map(_stem, (word for word in words if word not in _COMMON))),
        frozenset(map(_stem, words)),
        _NEGATED.match(lower) is not None,
        _NORMAL.search(lower) is not None,
        _HEDGED.search(lower) is not None,
    )


def _enough(own: Statement, other: Statement) -> bool:
    """Whether a statement has enough words of a phrase."""
    if own.stems:
        return 2 * len(own.stems & other.stems) > len(own.stems)
    # Of a phrase such as "clear lungs" every word counts, there being no other, and one clear side is not enough.
    return own.words <= other.words and other.named <= own.named


def _stem(word: str) -> str:
    return word.removesuffix("s")[:_STEM]
