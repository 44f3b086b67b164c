"""Indiana University chest X-rays (IU X-Ray, Open-i) in the three layouts that people have.

- ``manifest.csv``: one row an image, with its view (frontal, PA or AP; lateral or LL; other; in any case), report and
  the R2Gen split.
- Kaggle: ``indiana_reports.csv``, ``indiana_projections.csv`` and ``images/images_normalized/*.png`` (or
  ``images/*.png``).
- Open-i: the XML reports of ``NLMCXR_reports.tgz`` (``ecgen-radiology/*.xml`` or ``*.xml``) and the PNG files of
  ``NLMCXR_png.tgz``, in the folder itself or in one folder below it.

A study has the same id (``CXR1`` is ``1``) in all three. The latter two bring no split; theirs is a hash of the study
id, about 70 % train, 10 % val, 20 % test (R2Gen's proportions, not its lists), so a study keeps its split in both.

Data: Demner-Fushman et al., JAMIA 2016.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree

from tqdm import tqdm

from rarrg.data.sections import one_line
from rarrg.data.tables import read_rows
from rarrg.errors import RarrgError
from rarrg.types import Position, Split, Study, View

MANIFEST = "manifest.csv"
KAGGLE_REPORTS = "indiana_reports.csv"
KAGGLE_PROJECTIONS = "indiana_projections.csv"

_VIEWS: dict[str, Position] = {
    "frontal": "frontal",
    "pa": "frontal",
    "ap": "frontal",
    "lateral": "lateral",
    "ll": "lateral",
    "other": "other",
}
_PROJECTIONS: dict[str, Position] = {"frontal": "frontal", "lateral": "lateral"}
_SPLITS: dict[str, Split] = {"train": "train", "val": "val", "test": "test", "extra": "extra"}
_ENDINGS = re.compile(r"(\.(dcm|png|jpe?g))+$", re.IGNORECASE)

# Image numbers of an Open-i study (what follows IM-nnnn- in the id) -> positions; see open_i_positions.
_OPEN_I_POSITIONS: dict[tuple[str, ...], tuple[Position, ...]] = {
    ("1001", "2001"): ("frontal", "lateral"),  # 1,892 studies, 95.5 % of their images agree
    ("1001", "1002"): ("frontal", "lateral"),  # 381, 99.5 %
    ("1001",): ("frontal",),  # 238, 96.6 %
    ("2001",): ("lateral",),  # 111, 88.3 %
    ("1001", "3001"): ("frontal", "lateral"),  # 80, 98.1 %
    ("2002", "3003"): ("frontal", "lateral"),  # 64, 93.8 %
    ("1001", "3003"): ("frontal", "lateral"),  # 50, 98.0 %
    ("1001", "4004"): ("lateral", "frontal"),  # 45, 100 %
    ("2001", "4004"): ("lateral", "frontal"),  # 23, 97.8 %
    ("1002",): ("lateral",),  # 21, 90.5 %
    ("1001", "2002"): ("frontal", "lateral"),  # 13, 92.3 %
    ("1002001", "1003002"): ("frontal", "lateral"),  # 11, 100 %
}


def read(root: Path, images: bool = True) -> list[Study]:
    """Read the studies of an IU X-Ray folder, whichever of the three layouts it has.

    Studies without FINDINGS are kept (``findings=""``), reports without an image are left out. Image files are not
    opened: one that is missing or broken shows when it is read. ``XXXX`` marks of de-identification stay in the text.

    Args:
        root: The data folder.
        images: The studies are wanted for their images. Without, the XML reports may come alone, and those without an
            image are kept.

    Returns:
        The studies in the source's order.

    Raises:
        RarrgError: No such folder, none of the three layouts, a missing column, an unknown view or split, two rows of
            a study that disagree, or an image listed twice.
    """
    if not root.is_dir():
        raise RarrgError(f"{root}: no such folder")
    if (root / MANIFEST).is_file():
        studies = _read_manifest(root)
    elif (root / KAGGLE_REPORTS).is_file() or (root / KAGGLE_PROJECTIONS).is_file():
        studies = _read_kaggle(root)
    elif reports := _xml_reports(root):
        studies = _read_open_i(root, reports, images)
    else:
        raise RarrgError(
            f"{root}: is not an IU X-Ray folder; expected {MANIFEST}, or {KAGGLE_REPORTS} with {KAGGLE_PROJECTIONS}, "
            "or the XML reports of Open-i (ecgen-radiology/*.xml) with their PNG files"
        )
    if not studies:
        raise RarrgError(f"{root}: holds no study with an image")
    return studies


def hashed_split(study_id: str) -> Split:
    """Split of a study by a hash of its id: train 70 %, val 10 %, test 20 %, the same on every machine."""
    digest = hashlib.sha256(f"iu_xray/{study_id}".encode()).digest()
    share = int.from_bytes(digest[:8], "big") / 2**64
    return "train" if share < 0.7 else "val" if share < 0.8 else "test"


def open_i_positions(image_ids: Sequence[str]) -> tuple[Position, ...]:
    """Guess the positions of a study's images from their names, ``CXR12_IM-0135-1001`` as an example.

    The XML holds no view position, its captions name the whole examination ("PA and lateral", the same text for every
    image of a study), and the order of the images follows their names. The image numbers do tell: the twelve patterns
    that settle the position (at least 10 studies, each position right in at least 85 % of them) cover 81 % of the
    6,785 images with a labelled view, and agree with the labels on 96.1 % of these (5,275 of 5,488). Taking the first
    of two images for frontal and the second for lateral would agree on 89 %. All other patterns are rare or near
    chance: ``other``. The tables of the Kaggle layout have labelled views.

    Args:
        image_ids: The images of one study.

    Returns:
        A position for each image, in the same order.
    """
    # "0001-0002" has two parts; it is no pattern of the table and stays whole.
    numbers = [image_id.rpartition("_IM-")[2].partition("-")[2] for image_id in image_ids]
    known = dict(zip(sorted(numbers), _OPEN_I_POSITIONS.get(tuple(sorted(numbers)), ()), strict=False))
    return tuple(known.get(number, "other") for number in numbers)


def _read_manifest(root: Path) -> list[Study]:
    path = root / MANIFEST
    columns = ("study_id", "view", "image_path", "findings", "impression", "split")
    reports: dict[str, tuple[Split, str, str]] = {}
    views: dict[str, list[View]] = {}
    seen: set[str] = set()
    for line, (study_id, view, image, findings, impression, split) in read_rows(path, columns):
        where = f"{path}, line {line}"
        position = _VIEWS.get(view.lower())
        if position is None:
            raise RarrgError(f"{where}: unknown view {view!r}; expected frontal, PA, AP, lateral, LL or other")
        if split not in _SPLITS:
            raise RarrgError(f"{where}: unknown split {split!r}; expected {', '.join(_SPLITS)}")
        report = (_SPLITS[split], one_line(findings), one_line(impression))
        if reports.setdefault(study_id, report) != report:
            raise RarrgError(f"{where}: split or report of study {study_id} differs from an earlier row")
        views.setdefault(study_id, []).append(_view(root, image, position, seen, where))
    return [
        Study(study_id, split, tuple(views[study_id]), findings, impression)
        for study_id, (split, findings, impression) in reports.items()
    ]


def _read_kaggle(root: Path) -> list[Study]:
    for name in (KAGGLE_REPORTS, KAGGLE_PROJECTIONS):
        if not (root / name).is_file():
            raise RarrgError(f"{root / name}: is missing; the Kaggle layout has both tables")
    folder = root / "images" / "images_normalized"
    if not folder.is_dir():
        folder = root / "images"
    path = root / KAGGLE_REPORTS
    reports: dict[str, tuple[str, str]] = {}
    for line, (uid, findings, impression) in read_rows(path, ("uid", "findings", "impression")):
        if uid in reports:
            raise RarrgError(f"{path}, line {line}: study {uid} is listed twice")
        reports[uid] = (one_line(findings), one_line(impression))
    path = root / KAGGLE_PROJECTIONS
    views: dict[str, list[View]] = {uid: [] for uid in reports}
    seen: set[str] = set()
    for line, (uid, filename, projection) in read_rows(path, ("uid", "filename", "projection")):
        where = f"{path}, line {line}"
        if projection.lower() not in _PROJECTIONS:
            raise RarrgError(f"{where}: unknown projection {projection!r}; expected Frontal or Lateral")
        if uid not in views:
            raise RarrgError(f"{where}: study {uid} has no report in {KAGGLE_REPORTS}")
        views[uid].append(_view(folder, filename, _PROJECTIONS[projection.lower()], seen, where))
    return [Study(uid, hashed_split(uid), tuple(views[uid]), *report) for uid, report in reports.items() if views[uid]]


def _xml_reports(root: Path) -> list[Path]:
    reports = [*root.glob("*.xml"), *(root / "ecgen-radiology").glob("*.xml")]
    return sorted(reports, key=lambda path: (len(path.stem), path.stem))


def _read_open_i(root: Path, reports: Sequence[Path], images: bool) -> list[Study]:
    folder = _png_folder(root) if images else root
    studies: dict[str, Study] = {}
    seen: set[str] = set()
    for path in tqdm(reports, desc="reports", delay=2, leave=False):
        try:
            document = ElementTree.parse(path).getroot()
        except OSError as error:
            raise RarrgError(f"{path}: cannot be read ({error.strerror})") from error
        except ElementTree.ParseError as error:
            raise RarrgError(f"{path}: is not valid XML ({error})") from error
        uid = document.find("uId")
        study_id = "" if uid is None else uid.get("id", "").removeprefix("CXR")
        if not study_id:
            raise RarrgError(f"{path}: has no <uId id=...>; is it a report of Open-i?")
        if study_id in studies:
            raise RarrgError(f"{path}: study CXR{study_id} is also in another report")
        image_ids = [image.get("id", "") for image in document.iter("parentImage")]
        views = tuple(
            _view(folder, f"{image_id}.png", position, seen, str(path))
            for image_id, position in zip(image_ids, open_i_positions(image_ids), strict=True)
        )
        studies[study_id] = Study(
            study_id, hashed_split(study_id), views, _abstract(document, "FINDINGS"), _abstract(document, "IMPRESSION")
        )
    return [study for study in studies.values() if study.views or not images]


def _png_folder(root: Path) -> Path:
    candidates = [root, *sorted(path for path in root.iterdir() if path.is_dir())]
    folders = [folder for folder in candidates if next(folder.glob("CXR*_IM-*.png"), None)]
    if len(folders) != 1:
        found = (
            f"PNG images in {' and '.join(map(str, folders))}" if folders else "no PNG images (CXR1_1_IM-0001-3001.png)"
        )
        raise RarrgError(f"{root}: holds {found}; expected them in the folder itself or in one folder below it")
    return folders[0]


def _abstract(document: ElementTree.Element, label: str) -> str:
    texts = ("".join(text.itertext()) for text in document.iter("AbstractText") if text.get("Label") == label)
    return one_line(" ".join(texts))


def _view(folder: Path, image: str, position: Position, seen: set[str], where: str) -> View:
    image_id = _ENDINGS.sub("", PurePosixPath(image).name)
    if not image_id:
        raise RarrgError(f"{where}: names no image file")
    if image_id in seen:
        raise RarrgError(f"{where}: image {image_id} is listed twice")
    seen.add(image_id)
    return View(str(folder / image), position, image_id)
