"""Whether claims bear out a claim, and what is lacking where they do not."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import product
from typing import Literal, TypeVar

from rarrg.extract.claims import Claim
from rarrg.extract.concepts import implied
from rarrg.extract.terms import ORGANS, QUALITIES

T = TypeVar("T")
Lack = Literal["unsupported", "negation", "certainty", "side", "size"]

# "no acute fracture" is said as "no fracture", not "no large effusion" as "no effusion"
_NARROWS_LITTLE = frozenset(
    {"acute", "focal", "active", "overt", "frank", "gross", "discrete", "airspace", "abnormality"}
)
# what is not there where the lungs, or the pleural spaces, are called clear
_CLEAR_OF = {
    "lung": frozenset(
        {"consolidation", "opacity", "infiltrate", "airspace", "pneumonia", "nodule", "mass", "edema", "abnormality"}
    ),
    "pleura": frozenset({"effusion"}),
}
_NOT_NORMAL = frozenset({"enlarge", "widen", "abnormality", "prominent", "shift", "thicken", "acute"})
_BOTH = frozenset({"left", "right"})
# what a device is called whatever it is
_ANY_DEVICE = frozenset({"tube", "catheter", "device"})
# where a catheter enters, and where it ends
_ENTRIES = frozenset({"ij", "subclavian", "jugular", "femoral"})
_ENDS = frozenset({"svc", "ivc", "right_atrium", "right_ventricle", "cavoatrial", "brachiocephalic", "azygos"})


@dataclass(frozen=True)
class Support:
    """What other claims have to say of a claim.

    Attributes:
        by: Indices of the claims that bear it out, or bear out a part of it.
        lack: What they do not bear out, the first of what there is; None where they bear out all.
        missing: The concepts, places, sides or measures that are lacking.
    """

    by: frozenset[int] = frozenset()
    lack: Lack | None = None
    missing: frozenset[str] = frozenset()


def support(claim: Claim, others: Sequence[Claim]) -> Support:
    """Hold a claim to other claims.

    What is affirmed must be affirmed of the same thing, on the same side and in the same place and size, by one of them
    or by several together; a side, place or size that the claim does not give may be anything. What is denied, or
    called normal, must be so in general, or in all that the claim speaks of.

    Args:
        claim: The claim.
        others: What it is held to.
    """
    return _denied(claim, others) if claim.general else _affirmed(claim, others)


def _denied(claim: Claim, others: Sequence[Claim]) -> Support:
    covering = [index for index, other in enumerate(others) if _covers(other, claim)]
    wanted = claim.sides or _BOTH
    denied = frozenset[str]().union(*(others[index].sides or _BOTH for index in covering))
    if wanted <= denied:
        return Support(frozenset(index for index in covering if wanted & (others[index].sides or _BOTH)))
    if denied:
        return Support(lack="side", missing=wanted - denied)
    findings = claim.concepts - ORGANS - QUALITIES or claim.concepts
    affirmed = any(not other.general and findings & implied(other.concepts) and _meet(claim, other) for other in others)
    return Support(lack="negation" if affirmed else "unsupported", missing=claim.concepts)


def _meet(claim: Claim, other: Claim) -> bool:
    """Whether nothing keeps two claims on different sides."""
    return not claim.sides or not other.covered or bool(claim.sides & other.covered)


def _covers(other: Claim, claim: Claim) -> bool:
    """Whether a general claim speaks of all that another one speaks of."""
    if not other.general:
        return False
    said = implied(claim.concepts)
    if claim.concepts == {"pleura"} and "effusion" in other.concepts:
        return claim.normal and other.sizes <= claim.sizes and other.places <= claim.places
    if claim.normal or not other.normal:
        return (
            claim.normal == other.normal
            and (other.concepts - _NARROWS_LITTLE or other.concepts) <= said
            and other.places <= claim.places
            and other.sizes <= claim.sizes
            and _adds_nothing(claim, other.concepts)
        )
    for organ, absent in _CLEAR_OF.items():
        if organ in other.concepts and said & absent and _adds_nothing(claim, absent):
            return not claim.concepts & (ORGANS - {organ})
    return "lung" not in other.concepts and other.concepts <= said and said - other.concepts <= _NOT_NORMAL


def _adds_nothing(claim: Claim, denied: frozenset[str]) -> bool:
    """Whether what a denial names beside its finding only narrows it."""
    named = claim.concepts - ORGANS - QUALITIES
    # "no cardiopulmonary abnormality" is "no cardiopulmonary finding"
    return all(implied(frozenset({name})) & denied for name in named - {"abnormality"} or named)


def _affirmed(claim: Claim, others: Sequence[Claim]) -> Support:
    wanted = claim.concepts
    shared = {index: wanted & implied(other.concepts) for index, other in enumerate(others) if not other.general}
    if missing := wanted.difference(*shared.values()):
        findings = missing - ORGANS - QUALITIES or missing
        denied = any(other.general and not other.normal and findings <= implied(other.concepts) for other in others)
        return Support(lack="negation" if denied else "unsupported", missing=missing)
    # an organ or a quality must be said of this finding, not of another one; "likely chronic" may be of any
    stray = frozenset(
        concept
        for concept in wanted & (ORGANS | QUALITIES)
        if len(wanted) > 1
        and not any(concept in own and _tells(claim, others[at], concept, own) for at, own in shared.items())
    )
    if stray:
        return Support(lack="unsupported", missing=stray)
    beside = {index for index, own in shared.items() if own and _meet(claim, others[index])}
    if claim.hedged is not None:
        for finding, side in product(wanted - ORGANS - QUALITIES or wanted, claim.sides or {""}):
            stands = {others[at].hedged for at in beside if finding in shared[at] and _is_of(others[at], side)}
            if stands == {not claim.hedged}:
                return Support(lack="certainty")
    most = max(map(len, shared.values()), default=0)
    return _placed(claim, others, frozenset(i for i, own in shared.items() if len(own) == most), frozenset(beside))


def _is_of(other: Claim, side: str) -> bool:
    return not side or not other.covered or side in other.covered


def _tells(claim: Claim, other: Claim, concept: str, own: frozenset[str]) -> bool:
    """Whether an organ or a quality that a claim has in common with another one is said there of the same thing."""
    if other.concepts == {concept}:
        return True
    findings = claim.concepts - ORGANS - QUALITIES - _ANY_DEVICE
    if findings and not own & findings:
        return False
    organs, theirs = claim.concepts & ORGANS, other.concepts & ORGANS
    return len(own) > 1 and (concept in ORGANS or not organs or not theirs or not organs.isdisjoint(theirs))


def _placed(claim: Claim, others: Sequence[Claim], nearest: frozenset[int], beside: frozenset[int]) -> Support:
    """Side, place and size, held to the claims that share most with a claim."""
    absent = claim.sides.difference(*(others[index].covered for index in nearest))
    if absent:
        return Support(lack="side", missing=absent)
    for side in sorted(claim.sides) or [""]:
        there = [others[i] for i in nearest if _is_of(others[i], side)]
        # "left greater than right", "6 mm": of whatever it is
        there += [other for other in others if not other.concepts]
        if places := claim.places.difference(*(other.places for other in there)):
            return Support(lack="unsupported", missing=places)
        entries, ends = claim.places & _ENTRIES, claim.places & _ENDS
        if ends and not all(_go_together(there, {entry}, ends, _ENTRIES) for entry in entries):
            return Support(lack="unsupported", missing=ends)
        if not _sized(claim.places, claim.sizes, [(other.sizes, other.places) for other in there]):
            return Support(lack="size")
        if not _sized(claim.places, claim.numbers, [(other.numbers, other.places) for other in there]):
            return Support(lack="size")
    return Support(beside)


def _sized(places: Set[str], sizes: Set[T], there: Sequence[tuple[Set[T], Set[str]]]) -> bool:
    """Whether each size is that of a thing in one of the places, and each place has a thing of one of the sizes."""

    def fits(size: T, place: str) -> bool:
        return any(size in theirs and (not place or not where or place in where) for theirs, where in there)

    wanted = places or {""}
    return not sizes or (
        all(any(fits(size, place) for place in wanted) for size in sizes)
        and all(any(fits(size, place) for size in sizes) for place in wanted)
    )


def _go_together(there: Sequence[Claim], entry: Set[str], ends: Set[str], entries: Set[str]) -> bool:
    """Whether what enters by one vessel is said to end there, and not only what enters by another."""
    return any(ends & other.places and (not other.places & entries or entry <= other.places) for other in there)
