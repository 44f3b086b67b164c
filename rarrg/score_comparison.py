"""``rarrg compare``: two systems scored by the same protocol, report by report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rarrg.artifacts import read_json, write_csv, write_json
from rarrg.errors import RarrgError, require
from rarrg.metrics.measured import Measured
from rarrg.metrics.saved_terms import SavedTerms, read_terms
from rarrg.scoring import OF_EVALUATION, SCORES, SHOWN, TERMS


@dataclass(frozen=True)
class CompareOptions:
    """How two scored systems are compared.

    Args:
        out: Folder for compare.csv and compare.json; null writes nothing.
        draws: Bootstrap resamples of the samples that both have reports of.
        seed: Seed of the resamples.
    """

    out: Path | None = None
    draws: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.draws >= 1, "draws", "at least 1", self.draws)


@dataclass(frozen=True)
class Comparison:
    """A measure of two systems on the samples that both have.

    Attributes:
        scope: ``all`` or ``unseen``.
        measure: Its name.
        first: Of the first system.
        second: Of the second.
        difference: First minus second.
        low: Lower end of the difference's 95 % interval, paired bootstrap over samples.
        high: Its upper end.
        p_value: Two-sided, in (0, 1]; not corrected for the number of measures.
        reports: Samples that the measure is over.
    """

    scope: str
    measure: str
    first: float
    second: float
    difference: float
    low: float
    high: float
    p_value: float
    reports: int


@dataclass(frozen=True)
class _Scored:
    folder: Path
    scores: Mapping[str, Any]
    terms: SavedTerms


def compare(first: Path, second: Path, options: CompareOptions, say: Callable[[str], None]) -> list[Comparison]:
    """Run the ``compare`` command.

    Args:
        first: Output folder of ``rarrg score``, or of ``rarrg evaluate``.
        second: That of the other system.
        options: How they are compared.
        say: Takes each line meant for the user.

    Returns:
        Every measure that both have, over all common samples and over those with unseen references.

    Raises:
        RarrgError: A folder holds no scores, they are of other protocols or references, or they have no sample in
            common.
    """
    ours, theirs = _read(first), _read(second)
    _refuse_others(ours, theirs)
    _refuse_versions(ours, theirs)
    places = {name: place for place, name in enumerate(theirs.terms.ids)}
    own = [place for place, name in enumerate(ours.terms.ids) if name in places]
    if not own:
        raise RarrgError(f"{ours.folder} and {theirs.folder}: have no sample in common")
    other = [places[ours.terms.ids[place]] for place in own]
    scopes = {"all": np.ones(len(own), dtype=bool)}
    if all("unseen" in each.scores["scopes"] for each in (ours, theirs)):
        unseen = ~ours.terms.seen[own] & ~theirs.terms.seen[other]
        scopes |= {"unseen": unseen} if unseen.any() else {}
    groups = [ours.terms.groups[place] for place in own]
    kinds, left_out = _kinds(ours, theirs)
    found: list[Comparison] = []
    for scope, where in scopes.items():
        for kind in kinds:
            found += _compared(scope, _part(ours, kind, own), _part(theirs, kind, other), where, groups, options)
    say(f"{len(own)} samples of {ours.scores['protocol']['name']} in common; first minus second")
    for line in (*table(found), *left_out):
        say(line)
    if options.out is not None:
        _write(options.out.expanduser(), found, ours, theirs, len(own))
        say(f"written to {options.out}")
    return found


def table(found: Iterable[Comparison]) -> list[str]:
    """Lines of a table of the main measures.

    Args:
        found: The comparisons.
    """
    lines = [f"{'':29}{'first':>8}{'second':>8}  difference [95 % interval]        p"]
    for each in found:
        if each.measure in SHOWN:
            interval = f"{each.difference:+.3f} [{each.low:+.3f}, {each.high:+.3f}]"
            name = f"{each.scope} {each.measure}"
            lines.append(f"{name:29}{each.first:8.3f}{each.second:8.3f}  {interval:30}{each.p_value:.3f}")
    return lines


def _read(folder: Path) -> _Scored:
    folder = folder.expanduser()
    place = folder if (folder / SCORES).is_file() else folder / OF_EVALUATION
    if not (place / SCORES).is_file():
        raise RarrgError(f"{folder}: holds no {SCORES}; rarrg score and rarrg evaluate write it")
    return _Scored(place, _sound(place, read_json(place / SCORES)), read_terms(place / TERMS))


def _refuse_others(ours: _Scored, theirs: _Scored) -> None:
    mine, other = ours.scores["protocol"], theirs.scores["protocol"]
    if mine["name"] != other["name"]:
        raise RarrgError(
            f"{ours.folder} is of the protocol {mine['name']}, {theirs.folder} of {other['name']}: figures of "
            "different protocols cannot be compared"
        )
    if mine["references_sha256"] != other["references_sha256"]:
        raise RarrgError(
            f"{ours.folder} and {theirs.folder}: are scored against other references (sha256 "
            f"{mine['references_sha256'][:12]} and {other['references_sha256'][:12]}); score both on the same data"
        )


def _refuse_versions(ours: _Scored, theirs: _Scored) -> None:
    versions = [each.scores["measured_with"]["rarrg"] for each in (ours, theirs)]
    if versions[0] != versions[1]:
        raise RarrgError(
            f"{ours.folder} and {theirs.folder}: were scored by rarrg {versions[0]} and {versions[1]}, whose labelers "
            "may differ; score both with one"
        )


def _sound(folder: Path, scores: Any) -> Mapping[str, Any]:
    parts = ("protocol", "reports", "measured_with", "scopes")
    if not isinstance(scores, dict) or not all(isinstance(scores.get(part), dict) for part in parts):
        raise RarrgError(f"{folder / SCORES}: holds no scores; rarrg score and rarrg evaluate write it")
    return scores


def _kinds(ours: _Scored, theirs: _Scored) -> tuple[list[str], list[str]]:
    """Kinds of measures that both have of the same scorer, and a line for each that is left out."""
    kinds, left_out = [], []
    for kind in dict.fromkeys([*ours.terms.measured, *theirs.terms.measured]):
        scorer = kind.split("_")[0]
        versions = [each.scores["measured_with"].get(scorer) for each in (ours, theirs)]
        if kind not in ours.terms.measured or kind not in theirs.terms.measured:
            left_out.append(f"{kind}: left out, only one of the two was scored with it")
        elif versions[0] != versions[1]:
            left_out.append(f"{kind}: left out, scored with {versions[0]} and {versions[1]}")
        else:
            kinds.append(kind)
    return kinds, left_out


def _part(scored: _Scored, kind: str, rows: Sequence[int]) -> Measured:
    whole = scored.terms.measured[kind]
    return Measured(whole.terms[rows], whole.statistics, whole.single, whole.present[rows])


def _compared(
    scope: str, ours: Measured, theirs: Measured, where: np.ndarray, groups: Sequence[str], options: CompareOptions
) -> list[Comparison]:
    both = ours.present & theirs.present & where
    if not both.any():
        return []
    ahead = ours.differences(theirs, where, groups, options.draws, options.seed)
    first, second = ours.terms[both].sum(axis=0), theirs.terms[both].sum(axis=0)
    return [
        Comparison(
            scope,
            name,
            float(ours.statistics[name](first)),
            float(ours.statistics[name](second)),
            each.value,
            each.low,
            each.high,
            each.p_value,
            int(both.sum()),
        )
        for name, each in ahead.items()
    ]


def _write(out: Path, found: Sequence[Comparison], ours: _Scored, theirs: _Scored, common: int) -> None:
    rows = [asdict(each) for each in found]
    sides = {"first": ours, "second": theirs}
    write_json(
        out / "compare.json",
        {
            "protocol": ours.scores["protocol"],
            "common": common,
            **{
                side: {"scores": str(each.folder), "reports": each.scores["reports"]["scored"]}
                for side, each in sides.items()
            },
            "comparisons": rows,
        },
    )
    write_csv(out / "compare.csv", rows, list(rows[0]))
