"""Phantom studies: drawn chest X-rays with a report, for a first run and for tests without any data set.

They are schematic and teach a model nothing about patients. What they give is truth: every finding of the report is
in the pixels, at a place that is kept.

A folder of phantom studies holds ``images/<study>_frontal.png``, ``images/<study>_lateral.png``, ``studies.jsonl``
and ``findings.jsonl``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image
from tqdm import tqdm

from rarrg.artifacts import atomic_write, read_jsonl, write_jsonl
from rarrg.data.phantom_drawing import VIEWS, Kind, Patient, PhantomFinding, PhantomView, Side, box_round
from rarrg.data.phantom_places import draw_changes
from rarrg.data.phantom_reports import write_report
from rarrg.errors import RarrgError
from rarrg.types import Split, Study, View

VERSION = 1
"""Raised with every change that draws or words a study otherwise."""

STUDIES = "studies.jsonl"
FINDINGS = "findings.jsonl"

_NORMAL = 0.3  # share of studies without any finding
_LOBES: dict[Side, tuple[str, ...]] = {
    "right": ("upper lobe", "middle lobe", "lower lobe"),
    "left": ("upper lobe", "lower lobe"),
}
_WEIGHTS: dict[Kind, float] = {
    "cardiomegaly": 3,
    "pleural effusion": 4,
    "pneumothorax": 2,
    "nodule": 2,
    "opacity": 4,
    "endotracheal tube": 1,
    "central venous catheter": 2,
    "nasogastric tube": 1,
    "pacemaker": 2,
    "rib fracture": 2,
    "hyperinflation": 2,
}
_EFFUSION_SIDES: tuple[tuple[Side, ...], ...] = (("left",), ("right",), ("right", "left"))
_SIDED = ("pneumothorax", "nodule", "opacity", "central venous catheter", "rib fracture")


@dataclass(frozen=True)
class FindingPlace:
    """Where a finding changed the pixels of a view.

    Attributes:
        study: Id of the study.
        view: ``frontal`` or ``lateral``.
        finding: Kind of finding, as ``pleural effusion``.
        side: The patient's side, ``left`` or ``right`` (left is on the right of a frontal image); empty for neither.
        location: ``upper lobe``, ``middle lobe`` or ``lower lobe`` of that side, or empty.
        size: ``small``, ``moderate``, ``large`` or empty.
        box: ``(x0, y0, x1, y1)`` in pixels from the upper left corner, the ends not included.
    """

    study: str
    view: PhantomView
    finding: Kind
    side: Side
    location: str
    size: str
    box: tuple[int, int, int, int]


def draw_studies(folder: Path, count: int, seed: int) -> list[Study]:
    """Draw studies into a folder.

    Study number i depends on the seed and on i alone, not on ``count``. ``studies.jsonl`` is written last, so an
    interrupted drawing is never taken for a whole one. Of eight studies in a row six are for training, one for
    validation, one for testing.

    Args:
        folder: Where to; made if missing.
        count: Number of studies, from 1.
        seed: Seed, from 0.

    Returns:
        The studies, as ``read`` gives them.

    Raises:
        RarrgError: ``count`` or ``seed`` is out of range.
    """
    if count < 1 or seed < 0:
        raise RarrgError(f"phantom studies: need a count from 1 and a seed from 0, got {count} and {seed}")
    (folder / STUDIES).unlink(missing_ok=True)
    studies, places = [], []
    for index in tqdm(range(count), desc="drawing phantom studies", unit="study"):
        study_id = f"phantom{index:05d}"
        patient, findings = case(seed, index)
        views = []
        for view in VIEWS:
            pixels, boxes = draw_view(patient, findings, view)
            path = folder / "images" / f"{study_id}_{view}.png"
            with atomic_write(path) as temporary:
                Image.fromarray(pixels).save(temporary, format="PNG")
            views.append(View(str(path), view, path.stem))
            for finding, box in zip(findings, boxes, strict=True):
                if box is not None:
                    about = (finding.kind, finding.side, finding.location, finding.size)
                    places.append(FindingPlace(study_id, view, *about, box))
        text, impression = write_report(findings, _random(seed, index, "report"))
        studies.append(Study(study_id, _split_of(index), tuple(views), text, impression))
    write_jsonl(folder / FINDINGS, (asdict(place) for place in places))
    write_jsonl(folder / STUDIES, (_row(study, folder) for study in studies))
    return studies


def read(root: Path) -> list[Study]:
    """Read the studies of a folder that ``draw_studies`` wrote.

    Raises:
        RarrgError: The folder holds no phantom studies, or a row of them is malformed.
    """
    path = root / STUDIES
    if not path.is_file():
        raise RarrgError(f"{root}: holds no phantom studies ({STUDIES} is missing)")
    studies = []
    for number, row in enumerate(read_jsonl(path), start=1):
        try:
            views = tuple(View(str(root / v["path"]), v["position"], Path(v["path"]).stem) for v in row["views"])
            studies.append(Study(row["id"], row["split"], views, row["findings"], row["impression"]))
        except (KeyError, TypeError) as error:
            raise RarrgError(f"{path}, row {number}: is not a phantom study ({error!r})") from error
    return studies


def read_places(root: Path) -> list[FindingPlace]:
    """Read where the findings of a phantom folder are; a view in which a finding is not visible has no row.

    Raises:
        RarrgError: The file is missing, or a row of it is malformed.
    """
    path = root / FINDINGS
    places = []
    for number, row in enumerate(read_jsonl(path), start=1):
        try:
            x0, y0, x1, y1 = row.pop("box")
            places.append(FindingPlace(**row, box=(x0, y0, x1, y1)))
        except (KeyError, TypeError, ValueError) as error:
            raise RarrgError(f"{path}, row {number}: is not the place of a finding ({error!r})") from error
    return places


def case(seed: int, index: int) -> tuple[Patient, tuple[PhantomFinding, ...]]:
    """The patient and the findings of study number ``index``; each has its own stream of random numbers."""
    return Patient.of(_random(seed, index, "patient")), _findings(_random(seed, index, "findings"))


def draw_view(
    patient: Patient, findings: Sequence[PhantomFinding], view: PhantomView
) -> tuple[np.ndarray, list[tuple[int, int, int, int] | None]]:
    """Draw one view, with and without each finding.

    Returns:
        The image, uint8 ``[256, 256]``, and for each finding the box of the pixels that it changes, None where it is
        not visible.
    """
    pixels, changes = draw_changes(patient, findings, view)
    return pixels, [None if changed is None else box_round(changed) for changed in changes]


def _row(study: Study, folder: Path) -> dict[str, object]:
    views = [{"position": view.position, "path": view.path.relative_to(folder).as_posix()} for view in study.views]
    return {
        "id": study.id,
        "split": study.split,
        "views": views,
        "findings": study.findings,
        "impression": study.impression,
    }


def _random(seed: int, index: int, stream: Literal["patient", "findings", "report"]) -> np.random.Generator:
    return np.random.default_rng([seed, index, ("patient", "findings", "report").index(stream)])


def _split_of(index: int) -> Split:
    return "val" if index % 8 == 6 else "test" if index % 8 == 7 else "train"


def _findings(rng: np.random.Generator) -> tuple[PhantomFinding, ...]:
    if rng.random() < _NORMAL:
        return ()
    count = int(rng.choice([1, 2, 3], p=[0.4, 0.4, 0.2]))
    weights = np.array(list(_WEIGHTS.values())) / sum(_WEIGHTS.values())
    while True:
        kinds: list[Kind] = [list(_WEIGHTS)[i] for i in rng.choice(len(weights), count, replace=False, p=weights)]
        findings = tuple(finding for kind in kinds for finding in _of_kind(kind, rng))
        if _compatible(findings):
            return findings


def _of_kind(kind: Kind, rng: np.random.Generator) -> list[PhantomFinding]:
    """One finding of a kind, or two where fluid lies on both sides."""
    sides: list[Side] = [""]
    if kind == "pleural effusion":
        sides = list(_EFFUSION_SIDES[int(rng.integers(3))])
    elif kind == "pacemaker":
        sides = ["left" if rng.random() < 0.8 else "right"]
    elif kind in _SIDED:
        sides = ["left" if rng.random() < 0.5 else "right"]
    location = str(rng.choice(_LOBES[sides[0]])) if kind in ("nodule", "opacity") else ""
    findings = []
    for side in sides:
        size = str(rng.choice(["small", "moderate", "large"])) if kind in ("pleural effusion", "pneumothorax") else ""
        a, b, c = rng.uniform(-1, 1, 3).tolist()
        findings.append(PhantomFinding(kind, side, location, size, (a, b, c)))
    return findings


def _compatible(findings: Sequence[PhantomFinding]) -> bool:
    """Whether no finding hides or contradicts another."""
    kinds = {finding.kind for finding in findings}
    if "hyperinflation" in kinds and kinds & {"cardiomegaly", "pleural effusion", "pneumothorax"}:
        return False
    chest = [f for f in findings if f.kind in ("pleural effusion", "pneumothorax", "nodule", "opacity")]
    sides = [finding.side for finding in chest]
    return len(sides) == len(set(sides))
