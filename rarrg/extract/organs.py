"""Organs as reports name them, and the phrases that call them normal."""

from __future__ import annotations

import re

from rarrg.extract.lexicon import has_finding, is_anatomy
from rarrg.extract.spelling import MARK

_BESIDE_SIZE = re.compile(
    r"^(?:the )?(?:size|contours?|configuration|appearance|shape|caliber|silhouettes?|outline|border|borders)$"
)
ADJECTIVE_ALONE = re.compile(
    r"^(?:the )?(?:cardiac|mediastinal|hilar|pulmonary|pleural|osseous|bony|skeletal|aortic|cardiomediastinal"
    r"|superior mediastinal|upper|lower|left|right|diaphragmatic|soft tissue)$"
)
ASPECT_OF = re.compile(
    r"(?:the )?(?P<how>(?:size|contours?|configuration|appearance)(?:,? (?:and )?(?:size|contours?"
    r"|configuration|appearance))*)"
    r" of (?P<what>.+)$"
)
_MEASURED = re.compile(
    r"\b(?:volumes?|markings?|heights?|aeration|expansion|inflation|engorgement|congestion|pattern"
    r"|lymph nodes|caliber)\b"
)


_ORGANS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (
            r"^(?:cardiomediastinal|cardiac(?: and|/) ?mediastinal|heart and mediastinal)(?: (?:size"
            r"|contours?|silhouettes?|structures?|outline|margins?|borders?|shadows?))*(?: and contours?)?$",
            "cardiomediastinal silhouette",
        ),
        (r"^(?:heart|cardiac)(?: silhouette)? size$|^size of (?:the )?(?:heart|cardiac silhouette)$", "heart size"),
        (r"^(?:heart|cardiac) (?:contours?|borders?|margins?)$", "cardiac contour"),
        (r"^(?:heart|cardiac) silhouettes?$", "cardiac silhouette"),
        (
            r"^(?:superior |upper )?mediastinal (?:contours?|silhouettes?|size|outline|structures?|borders?"
            r"|margins?)$|^mediastinum size$",
            "mediastinal contour",
        ),
        (r"^hilar (?:contours?|structures?|shadows?|silhouettes?|regions?)$|^hila$", "hilar contour"),
        (
            r"^(?:central )?pulmonary vascul\w*(?: markings)?$|^pulmonary vascular$|^vascularity$"
            r"|^vasculature$|^lung vascul\w*$",
            "pulmonary vascularity",
        ),
        (
            r"^(?:visible |visuali[sz]ed |remaining |underlying |surrounding )*(?:osseous|bony|skeletal"
            r"|bone)(?: (?:structures?|thorax|skeleton|elements))?(?: of the (?:chest|thorax))?$|^(?:visible "
            r"|visualized )*(?:bones?|skeleton|osseous and skeletal structures)(?: of the (?:chest|thorax))?$",
            "bony structures",
        ),
        (r"^(?:both |bilateral )*lungs?(?: fields?| parenchyma)?(?: bilaterally)?$", "lungs"),
        (r"^pleural (?:spaces?|surfaces?)$", "pleural spaces"),
        (r"^(?:overlying |surrounding |adjacent |visualized )*soft tissues?(?: structures)?$", "soft tissues"),
        (r"^(?:visible |visualized )?(?:upper abdomen|upper abdominal structures)$", "upper abdomen"),
        (r"^(?:bilateral )?costophrenic angles?$", "costophrenic angle"),
    )
)


def bare_name(subject: str) -> str:
    """A subject without articles and the words that say it was seen."""
    text = re.sub(
        rf"^(?:and )?(?:of )?(?:the |both the |both (?=lung)|all |visuali[sz]ed |visible |remaining "
        rf"|included |underlying |imaged |{MARK} )+",
        "",
        f"{subject.strip()}",
    )
    return text.strip(" ,")


def organ_name(name: str) -> str:
    """The one name of an organ; any other text as it is."""
    for pattern, organ in _ORGANS:
        if pattern.match(name):
            return organ
    return name


def members_of(subject: str) -> list[str]:
    """``heart size, mediastinal contour, and hila`` -> its members; a shared last noun goes to each adjective."""
    pieces = [piece.strip() for piece in re.split(r",? +and +|, +(?:and +)?| */ *", subject) if piece.strip()]
    members: list[str] = []
    for index, piece in enumerate(pieces):
        name = bare_name(piece)
        if ADJECTIVE_ALONE.match(name) and index + 1 < len(pieces):
            nouns = bare_name(pieces[-1]).split()
            if len(nouns) > 1 and not ADJECTIVE_ALONE.match(bare_name(pieces[-1])):
                members.append(f"{name} {nouns[-1]}")
            continue
        if _BESIDE_SIZE.match(name):
            if members and name.startswith(("contour", "config")) and members[-1] in ("heart size", "cardiac size"):
                members.append("cardiac contour")
            continue
        members.append(name)
    return members


def normal_organs(subject: str, state: str) -> list[str]:
    """``heart and mediastinum`` called normal -> "normal heart", "normal mediastinum".

    Args:
        subject: One organ or a list of them.
        state: How they were called, as "within normal limits in size".
    """
    phrases: list[str] = []
    if aspect := ASPECT_OF.match(subject):
        subject, state = aspect["what"], f"{state} in {aspect['how']}"
    otherwise = "otherwise " if "otherwise" in state else ""
    members = members_of(subject)
    if {"cardiac", "mediastinal"} <= {member.split()[0] for member in members if member} and all(
        re.search(r"(?:contours?|silhouettes?)$", m) for m in members if m.split()[0] in ("cardiac", "mediastinal")
    ):
        members = ["cardiomediastinal silhouette"] + [
            m for m in members if m.split()[0] not in ("cardiac", "mediastinal")
        ]
    for member in members:
        if has_finding(member) and not _MEASURED.search(member):
            phrases.append(member)
            continue
        if re.search(r"\b(?:engorgement|congestion)", member):
            phrases.append(f"no {member}")
            continue
        if MARK in member or not is_anatomy(member) or ADJECTIVE_ALONE.match(member):
            continue
        organ = organ_name(member)
        sized = re.search(r"\bsize", state) is not None
        shaped = re.search(r"\b(?:contour|config|shape)", state) is not None
        if organ in ("heart", "cardiac silhouette") and sized:
            phrases.append(f"{otherwise}normal heart size")
            if shaped:
                phrases.append(f"{otherwise}normal cardiac contour")
        elif organ in ("heart", "cardiac silhouette") and shaped:
            phrases.append(f"{otherwise}normal cardiac contour")
        elif organ == "mediastinum" and (shaped or sized):
            phrases.append(f"{otherwise}normal mediastinal contour")
        else:
            phrases.append(f"{otherwise}normal {organ}")
    return phrases


def names_organ(name: str) -> bool:
    """Say whether a text names an organ, or a measure of one, and no finding."""
    return is_anatomy(name) and (not has_finding(name) or _MEASURED.search(name) is not None)
