"""Reports of phantom studies, in the varied wording of real ones.

A finding is a noun in a frame: a plain statement, a doubt, or a comparison with an earlier study. No earlier study
exists, so a comparison is wording that an extractor has to drop. What is absent is denied alone or jointly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rarrg.data.phantom_drawing import PhantomFinding

DEVICES = ("endotracheal tube", "central venous catheter", "nasogastric tube", "pacemaker")
_DOUBTABLE = ("nodule", "opacity", "rib fracture")

_NOUNS = {  # {place} is "right upper lobe"
    "cardiomegaly": ("cardiomegaly", "an enlarged cardiac silhouette", "an enlarged heart"),
    "pleural effusion": ("a {size} {side} pleural effusion", "a {size} {side}-sided pleural effusion"),
    "pneumothorax": ("a {size} {side} pneumothorax", "a {size} {side}-sided pneumothorax"),
    "nodule": (
        "a nodule in the {place}",
        "a {place} nodule",
        "a pulmonary nodule in the {place}",
        "a rounded nodular density in the {place}",
    ),
    "opacity": (
        "a focal opacity in the {place}",
        "a {place} opacity",
        "an airspace opacity in the {place}",
        "a patchy {place} opacity",
    ),
    "endotracheal tube": ("an endotracheal tube", "an endotracheal tube with its tip above the carina"),
    "central venous catheter": (
        "a {side} central venous catheter",
        "a {side} central venous catheter with its tip in the superior vena cava",
    ),
    "nasogastric tube": ("a nasogastric tube", "a nasogastric tube with its tip in the stomach"),
    "pacemaker": ("a {side} chest wall pacemaker", "a {side}-sided dual-lead pacemaker"),
    "rib fracture": ("a displaced {side} rib fracture", "a {side} rib fracture"),
    "hyperinflation": ("hyperinflation of the lungs", "hyperinflation with flattened diaphragms"),
}
_SENTENCES = {
    "cardiomegaly": ("The heart is enlarged.", "Heart size is enlarged.", "The cardiac silhouette is enlarged."),
    "hyperinflation": ("The lungs are hyperinflated.", "The lungs are hyperinflated with flattened diaphragms."),
    "endotracheal tube": ("Endotracheal tube terminates above the carina.",),
    "nasogastric tube": ("Nasogastric tube courses below the diaphragm.",),
}
_PLAIN = ("There {is} {noun}.", "{Noun} {is} present.", "{Noun} {is} seen.", "{Noun} {is} noted.", "{Bare}.")
_DOUBTFUL = ("There may be {noun}.", "Possible {bare}.", "{Noun} {is} suspected.", "{Noun} cannot be excluded.")
_COMPARED = (
    "{Noun} {is} unchanged since the prior study.",
    "There {is} {noun}, stable compared to the previous exam.",
    "There {is} {noun}, which {has} increased compared to the previous exam.",
    "Again seen {is} {noun}.",
    "Compared to the prior radiograph, {noun} {has} decreased.",
    "{Noun} {is} again noted, similar to the earlier study.",
)
_NORMAL_HEART = (
    "The heart is normal in size.",
    "Heart size is within normal limits.",
    "The cardiac silhouette is normal in size.",
    "Heart size and mediastinal contours are normal.",
    "The cardiomediastinal silhouette is within normal limits.",
    "Heart size remains normal.",
)
_CLEAR_LUNGS = (
    "The lungs are clear.",
    "The lungs are clear bilaterally.",
    "Lungs are clear without focal consolidation.",
    "The lungs remain clear.",
)
_NO_CONSOLIDATION = ("No focal consolidation.", "There is no focal consolidation.", "No focal airspace disease.")
_NO_PLEURA = (
    "No pleural effusion or pneumothorax.",
    "There is no pleural effusion or pneumothorax.",
    "No evidence of pneumothorax or pleural effusion.",
    "There is no pneumothorax and no pleural effusion.",
)
_NO_LUNG_OR_PLEURA = (
    "No focal consolidation, pleural effusion, or pneumothorax.",
    "There is no focal consolidation, pneumothorax or pleural effusion.",
)
_NO_EFFUSION = ("No pleural effusion.", "There is no pleural effusion.", "No evidence of pleural effusion.")
_NO_PNEUMOTHORAX = ("No pneumothorax.", "There is no pneumothorax.", "No pneumothorax is seen.")
_NORMAL_BONES = (
    "No acute osseous abnormality.",
    "The osseous structures are intact.",
    "No displaced rib fracture.",
    "Visualized bony structures are unremarkable.",
)
_COMPARISONS = ("Comparison is made with the prior radiograph.", "There is no interval change from the prior study.")
_NORMAL_IMPRESSIONS = ("No acute cardiopulmonary abnormality.", "Normal chest.", "No acute disease.")


@dataclass(frozen=True)
class _Item:
    kind: str
    noun: str
    plural: bool = False


def write_report(findings: Sequence[PhantomFinding], rng: np.random.Generator) -> tuple[str, str]:
    """Put a study into words.

    Args:
        findings: What was drawn; all of it is reported, and nothing else.
        rng: Picks the wording.

    Returns:
        The FINDINGS and the IMPRESSION, each on one line.
    """
    items = _items(findings, rng)
    devices = _state([item for item in items if item.kind in DEVICES], rng)
    others = _state([item for item in items if item.kind not in DEVICES], rng)
    normal = _negatives({finding.kind for finding in findings}, rng)
    parts = [devices + others, normal] if rng.random() < 0.6 else [normal, others + devices]
    sentences = [sentence for part in parts for sentence in part]
    if rng.random() < 0.12:
        sentences.append(_pick(_COMPARISONS, rng))
    impression = " ".join(f"{_capital(_bare(item.noun))}." for item in items) or _pick(_NORMAL_IMPRESSIONS, rng)
    return " ".join(sentences), impression


def _items(findings: Sequence[PhantomFinding], rng: np.random.Generator) -> list[_Item]:
    """One noun for each finding; effusions of one size on both sides share one."""
    effusions = [finding for finding in findings if finding.kind == "pleural effusion"]
    bilateral = len(effusions) == 2 and effusions[0].size == effusions[1].size
    items = []
    if bilateral:
        items.append(_Item("pleural effusion", f"{effusions[0].size} bilateral pleural effusions", plural=True))
    for finding in findings:
        if bilateral and finding in effusions:
            continue
        place = f"{finding.side} {finding.location}"
        noun = _pick(_NOUNS[finding.kind], rng).format(size=finding.size, side=finding.side, place=place)
        items.append(_Item(finding.kind, noun))
    return items


def _state(items: Sequence[_Item], rng: np.random.Generator) -> list[str]:
    """Sentences that state the items; now and then one sentence states two."""
    sentences = []
    waiting = list(items)
    while waiting:
        item = waiting.pop(0)
        if waiting and not item.plural and rng.random() < 0.2:
            sentences.append(f"There is {item.noun} and {waiting.pop(0).noun}.")
            continue
        draw = rng.random()
        if draw < 0.3:
            frame = _pick(_COMPARED, rng)
        elif draw < 0.45 and item.kind in _DOUBTABLE:
            frame = _pick(_DOUBTFUL, rng)
        elif draw < 0.7 and item.kind in _SENTENCES:
            frame = _pick(_SENTENCES[item.kind], rng)
        else:
            frame = _pick(_PLAIN, rng)
        bare = _bare(item.noun)
        words = {"noun": item.noun, "Noun": _capital(item.noun), "bare": bare, "Bare": _capital(bare)}
        verbs = {"is": "are", "has": "have"} if item.plural else {"is": "is", "has": "has"}
        sentences.append(frame.format(**words, **verbs))
    return sentences


def _negatives(kinds: set[str], rng: np.random.Generator) -> list[str]:
    """Sentences on what is normal or absent, each true of a study with exactly these kinds of findings."""
    heart = [] if "cardiomegaly" in kinds or rng.random() < 0.1 else [_pick(_NORMAL_HEART, rng)]
    lungs: list[str] = []
    effusion, pneumothorax, opacity = (kind in kinds for kind in ("pleural effusion", "pneumothorax", "opacity"))
    if not (effusion or pneumothorax or opacity) and rng.random() < 0.25:
        lungs.append(_pick(_NO_LUNG_OR_PLEURA, rng))
    else:
        if not kinds - {"cardiomegaly", "rib fracture", *DEVICES}:
            lungs.append(_pick(_CLEAR_LUNGS, rng))
        elif not opacity:
            lungs.append(_pick(_NO_CONSOLIDATION, rng))
        if not (effusion or pneumothorax):
            lungs.append(_pick(_NO_PLEURA, rng))
        elif not effusion:
            lungs.append(_pick(_NO_EFFUSION, rng))
        elif not pneumothorax:
            lungs.append(_pick(_NO_PNEUMOTHORAX, rng))
    bones = [_pick(_NORMAL_BONES, rng)] if "rib fracture" not in kinds and rng.random() < 0.6 else []
    groups = [heart, lungs, bones]
    if rng.random() < 0.5:
        groups = [groups[index] for index in rng.permutation(3)]
    return [sentence for group in groups for sentence in group]


def _bare(noun: str) -> str:
    return noun.removeprefix("a ").removeprefix("an ")


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _pick(options: Sequence[str], rng: np.random.Generator) -> str:
    return options[int(rng.integers(len(options)))]
