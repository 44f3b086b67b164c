"""Whether two key phrases contradict each other: one observation, on overlapping sides, in opposite states.

Only what cannot both be true counts. "No large effusion" and "small effusion" agree, and so do "no left effusion" and
"right effusion", "no acute osseous abnormality" and "old rib fracture", "clear lungs" and "calcified granuloma", two
sizes, and two degrees of certainty; "no effusion" and "possible effusion" do not.
"""

from __future__ import annotations

import re
from itertools import product

from rarrg.extract.claims import Claim, read_claims
from rarrg.extract.concepts import implied
from rarrg.extract.cues import Labeler
from rarrg.extract.terms import ORGANS, QUALITIES

# Observations that name one thing: who denies one of them denies every finding that is labelled so.
_ONE_THING = ("Cardiomegaly", "Consolidation", "Pneumonia", "Pneumothorax", "Pleural Effusion")
# What is never old, and so no less denied for being called acute.
_ACUTE = frozenset({"consolidation", "infiltrate", "airspace", "pneumonia", "pneumothorax", "edema"})
_PAST = frozenset({"old", "healed", "chronic"})
# What an organ that is called normal cannot be.
_MISSHAPEN = frozenset(
    {"enlarge", "widen", "prominent", "dilated", "ectasia", "aneurysm", "tortuous", "elevate", "flatten", "blunt"}
)
_NOT_NORMAL: dict[str, frozenset[str]] = {
    "lung": frozenset(
        {"opacity", "consolidation", "infiltrate", "airspace", "pneumonia", "edema", "atelectasis", "nodule", "mass"}
    ),
    "pleura": frozenset({"effusion", "pneumothorax"}),
    "bone": frozenset({"fracture", "lesion"}),
    "vasculature": frozenset({"congestion", "engorged"}),
}
# "otherwise clear lungs" leaves room for whatever else is said
_OTHERWISE = re.compile(r"\b(?:otherwise|elsewhere|except|remainder|remaining|rest)\b")
# and so does "no additional nodule"
_ANOTHER = re.compile(r"\bno (?:additional|other|further|new|residual)\b")
# What no chest has that is called free of acute abnormality.
_ACUTE_FINDINGS = frozenset({"consolidation", "pneumonia", "pneumothorax", "edema"})
_CHEST = frozenset({"lung", "heart", "pleura", "cardiopulmonary", "intrathoracic"})
# Nodules of the breast are no nodules of the lung.
_OUTSIDE = frozenset({"breast", "nipple"})
_OPPOSITES = (
    (frozenset({"low", "volume"}), frozenset({"hyperinflation"})),
    (frozenset({"hypoinflation"}), frozenset({"hyperinflation"})),
    (frozenset({"midline"}), frozenset({"shift"})),
)


def contradict(one: str, other: str, label: Labeler) -> bool:
    """Say whether two phrases cannot both be true; the order of the two is no matter.

    Args:
        one: A phrase, in any case.
        other: A phrase, in any case.
        label: Labels the observations of a text.
    """
    return any(
        _exclude(first, second, label) or _exclude(second, first, label)
        for first, second in product(_claims(one), _claims(other))
    )


def _claims(text: str) -> list[Claim]:
    otherwise, another = (cue.search(text.lower()) is not None for cue in (_OTHERWISE, _ANOTHER))
    return [
        claim
        for claim in read_claims(text)
        if not (claim.normal and otherwise) and not (claim.general and not claim.normal and another)
    ]


def _exclude(found: Claim, denial: Claim, label: Labeler) -> bool:
    if found.general:
        return False
    if not denial.general:
        return _opposite(found, denial) or (denial.concepts == {"normal"} and _abnormal(found, label))
    if denial.sides and not denial.sides & found.sides:
        return False
    if not (denial.sizes <= found.sizes and denial.places <= found.places):
        return False
    return _unlike_normal(found, denial) if denial.normal else _denied(found, denial, label)


def _denied(found: Claim, denial: Claim, label: Labeler) -> bool:
    said = implied(found.concepts)
    if "borderline" in said or ("fracture" in said and said & _PAST):
        # who denies a fracture means a fresh one
        return False
    ignored = set[str]()
    if "diffuse" not in said:
        ignored.add("focal")
    if said & _ACUTE:
        ignored.add("acute")
    if "consolidation" in said:
        ignored.add("airspace")
    denied = denial.concepts - ignored
    if "abnormality" in denied and denied <= ORGANS | _CHEST | {"abnormality", "acute"}:
        # of what, "no pulmonary disease" does not say
        return "acute" in denial.concepts and _acute(said, denied - {"abnormality", "acute"})
    if said & _OUTSIDE and not denied & _OUTSIDE:
        return False
    if denied == {"infiltrate"} and said & {"consolidation", "pneumonia"}:
        return True
    if denied and denied <= said:
        return True
    if len(denied - ORGANS) != 1 or denied & QUALITIES:
        return False
    affirmed, refused = label(found.text), label(denial.text)
    return any(affirmed[name] in ("positive", "uncertain") and refused[name] == "negative" for name in _ONE_THING)


def _acute(said: frozenset[str], organs: frozenset[str]) -> bool:
    """Whether a finding is an acute abnormality of some organs; of none that are named: of any."""
    if ("bone" in organs or not organs) and {"fracture", "acute"} <= said:
        return True
    return bool(said & _ACUTE_FINDINGS) and (not organs or bool(organs & _CHEST))


def _unlike_normal(found: Claim, denial: Claim) -> bool:
    (organ,) = denial.concepts
    said = implied(found.concepts)
    if organ in said and said & _MISSHAPEN:
        return True
    elsewhere = found.concepts & ORGANS - {organ, "hilum"}
    if organ == "lung" and (elsewhere or "calcify" in said):
        return False
    return bool(said & _NOT_NORMAL.get(organ, frozenset())) and not said & _PAST


def _opposite(one: Claim, other: Claim) -> bool:
    return any(first <= one.concepts and second <= other.concepts for first, second in _OPPOSITES)


def _abnormal(found: Claim, label: Labeler) -> bool:
    """Whether a claim has an observation that no chest called normal has."""
    return any(
        state in ("positive", "uncertain")
        for name, state in label(found.text).items()
        if name not in ("No Finding", "Support Devices")
    )
