"""``rarrg phrases stats``: what an extraction holds, and how two of the same reports differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rarrg.errors import RarrgError
from rarrg.extract.comparison import compares, speaks_of_change
from rarrg.extract.key_phrases import KEY_PHRASES, read_key_phrases
from rarrg.metrics.classification import LabelScore, confusion, micro_f1, per_label
from rarrg.metrics.findings import OBSERVATIONS, positive_findings

Phrases = Mapping[str, tuple[str, ...]]
_SHOWN = 10


def read(place: str) -> Phrases:
    """Key phrases by study, of an extraction folder or a file.

    Raises:
        RarrgError: There are none.
    """
    path = Path(place)
    path = path / KEY_PHRASES if path.is_dir() else path
    found = read_key_phrases(path)
    if not found:
        raise RarrgError(f"{path}: has no study")
    return found


def describe(phrases: Phrases) -> dict[str, float]:
    """Counts of one extraction.

    Returns:
        ``studies``; ``without_phrases``, studies with none; ``phrases_per_study``, the mean; ``distinct_phrases``;
        ``once``, the share of different phrases that one study alone has; ``negated`` and ``uncertain``, shares of the
        phrases that start with "no " or with "possible ", "maybe " or "likely "; ``comparing``, phrases that compare
        with an earlier study or tell how something moved.
    """
    said = [phrase for each in phrases.values() for phrase in each]
    counts = Counter(said)
    return {
        "studies": len(phrases),
        "without_phrases": sum(not each for each in phrases.values()),
        "phrases_per_study": len(said) / len(phrases),
        "distinct_phrases": len(counts),
        "once": sum(count == 1 for count in counts.values()) / max(len(counts), 1),
        "negated": sum(phrase.startswith("no ") for phrase in said) / max(len(said), 1),
        "uncertain": sum(phrase.startswith(("possible ", "maybe ", "likely ")) for phrase in said) / max(len(said), 1),
        "comparing": sum(count for phrase, count in counts.items() if compares(phrase) or speaks_of_change(phrase)),
    }


@dataclass(frozen=True)
class Comparison:
    """How two extractions of the same studies differ.

    Attributes:
        studies: Studies that both have.
        only: Studies that only the first, and only the second has.
        overlap: Mean over studies of the Jaccard index of their phrases; two empty sets agree.
        shared_phrases: Different phrases that both have, over those that either has.
        agreement: Micro-F1 of the affirmed findings, the first taken for the truth.
        by_finding: Counts and scores of each finding, likewise.
        first_only: Most frequent phrases of the first that the second has nowhere, with their studies.
        second_only: The other way round.
    """

    studies: int
    only: tuple[int, int]
    overlap: float
    shared_phrases: float
    agreement: float
    by_finding: list[LabelScore]
    first_only: list[tuple[str, int]]
    second_only: list[tuple[str, int]]


def compare(first: Phrases, second: Phrases) -> Comparison:
    """Compare the phrases of the studies that both have.

    Raises:
        RarrgError: They have no study in common.
    """
    common = [study for study in first if study in second]
    if not common:
        raise RarrgError("the two extractions have no study in common; they must be of the same data set")
    pairs = [(set(first[study]), set(second[study])) for study in common]
    counts = [Counter(phrase for pair in pairs for phrase in pair[side]) for side in (0, 1)]
    own, other = (positive_findings([". ".join(each[study]) for study in common]) for each in (first, second))
    return Comparison(
        studies=len(common),
        only=(len(first) - len(common), len(second) - len(common)),
        overlap=float(np.mean([len(a & b) / len(a | b) if a | b else 1.0 for a, b in pairs])),
        shared_phrases=len(counts[0].keys() & counts[1].keys()) / max(len(counts[0].keys() | counts[1].keys()), 1),
        agreement=float(micro_f1(confusion(own, other).sum(axis=0))),
        by_finding=per_label(own, other, OBSERVATIONS[:-1]),
        first_only=_only(counts[0], counts[1]),
        second_only=_only(counts[1], counts[0]),
    )


def _only(own: Counter[str], other: Counter[str]) -> list[tuple[str, int]]:
    alone = [(phrase, count) for phrase, count in own.items() if phrase not in other]
    return sorted(alone, key=lambda each: (-each[1], each[0]))[:_SHOWN]


def stats(places: Sequence[str], say: Callable[[str], None]) -> None:
    """Print the counts of one or two extractions, and how they differ.

    Args:
        places: Folders of extractions, or files of key phrases.
        say: Prints lines.

    Raises:
        RarrgError: There are more than two, a file cannot be read, or the two have nothing in common.
    """
    if len(places) > 2:
        raise RarrgError(f"name one extraction, or two to compare, not {len(places)}")
    read_in = [read(place) for place in places]
    described = [describe(phrases) for phrases in read_in]
    say("".join([f"{'':18}", *(f"{name:>12}" for name, _ in zip(("first", "second"), places, strict=False))]))
    for key in described[0]:
        say("".join([f"{key:18}", *(f"{_figure(each[key]):>12}" for each in described)]))
    if len(read_in) == 1:
        return
    found = compare(*read_in)
    say(
        f"\n{found.studies} studies in both; {found.only[0]} only in the first, {found.only[1]} only in the second\n"
        f"phrases that both have: {found.overlap:.1%} of a study's, {found.shared_phrases:.1%} of all different ones\n"
        f"findings affirmed: micro-F1 {found.agreement:.3f} of the second against the first\n"
    )
    say(f"{'finding':28}{'first':>8}{'second':>8}{'both':>8}{'F1':>8}")
    for score in found.by_finding:
        say(f"{score.label:28}{score.support:>8}{score.predicted:>8}{score.tp:>8}{score.f1:>8.3f}")
    for name, only in (("first", found.first_only), ("second", found.second_only)):
        say(f"\nonly in the {name}: " + ("; ".join(f"{phrase} ({count})" for phrase, count in only) or "nothing"))


def _figure(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.3f}"
