"""MIMIC-CXR-JPG (PhysioNet).

The folder holds ``mimic-cxr-2.0.0-metadata.csv``, ``mimic-cxr-2.0.0-split.csv`` (any version from 2 on),
``mimic_cxr_sectioned.csv``, each plain or gzipped, and ``files/p10/p10000032/s50414267/<dicom_id>.jpg``. Without
``mimic_cxr_sectioned.csv`` the sections are cut from the report texts, ``files/p10/p10000032/s50414267.txt``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tqdm import tqdm

from rarrg.data.sections import extract_sections, one_line
from rarrg.data.tables import read_rows
from rarrg.errors import RarrgError
from rarrg.types import Position, Split, Study, View

SECTIONED = "mimic_cxr_sectioned.csv"

_SPLITS: dict[str, Split] = {"train": "train", "validate": "val", "test": "test"}
_VIEW_POSITIONS: dict[str, Position] = {"AP": "frontal", "PA": "frontal", "LATERAL": "lateral", "LL": "lateral"}
_VIEW_CODES: dict[str, Position] = {
    "antero-posterior": "frontal",
    "postero-anterior": "frontal",
    "lateral": "lateral",
    "left lateral": "lateral",
}

# Studies whose reports MIT-LCP cut by hand and left out of mimic_cxr_sectioned.csv (txt/section_parser.py): those of
# another section's name, then those of hand-set spans. Left out here too, so that texts and table give the same set.
_CUT_BY_HAND = frozenset(
    """
    s50913680 s59363654 s59279892 s59768032 s57936451 s50058765 s53356173 s53202765 s50808053 s51966317 s50743547
    s56451190 s59067458 s59215320 s55124749 s54365831 s59087630 s58157373 s56482935 s58375018 s54654948 s55157853
    s51491012
    s50525523 s57564132 s59982525 s53488209 s54875119 s50196495 s56579911 s52648681 s59889364 s53514462 s59505494
    s53182247 s51410602 s56412866 s54986978 s59003148 s57150433 s56760320 s59562049 s52674888 s55258338 s59330497
    s52119491 s58235663 s50798377 s54168089 s53071062 s56724958 s54231141 s53607029 s52035334
    """.split()
)


def read(root: Path) -> list[Study]:
    """Read the studies that have a non-empty FINDINGS section; no other section stands in for it.

    The whole data set gives 270,790 / 2,130 / 3,858 images (train / val / test). Study ids are ``s50414267``, image
    ids the ``dicom_id``. Image files are not opened: one that is missing shows when it is read.

    Args:
        root: The data folder.

    Returns:
        The studies in the metadata's order, all their images included.

    Raises:
        RarrgError: No such folder, a missing table, column or report, an image without a split or listed twice, a
            study in two splits, an unknown split, or no study with findings.
    """
    if not root.is_dir():
        raise RarrgError(f"{root}: no such folder")
    metadata = _table(root, "metadata")
    splits_path = _table(root, "split")
    splits = _read_splits(splits_path)
    reports = _read_reports(root, metadata)

    views: dict[str, list[View]] = {}
    split_of: dict[str, Split] = {}
    files = str(root / "files")
    for line, dicom, subject, study, position in _read_metadata(metadata):
        if study not in reports:
            continue
        if dicom not in splits:
            raise RarrgError(f"{metadata}, line {line}: image {dicom} has no row in {splits_path.name}")
        split, splits[dicom] = splits[dicom], None
        if split is None:
            raise RarrgError(f"{metadata}, line {line}: image {dicom} is listed twice")
        if split_of.setdefault(study, split) != split:
            raise RarrgError(f"{splits_path}: study {study} is in two splits, {split_of[study]} and {split}")
        file = f"{files}/p{subject[:2]}/p{subject}/{study}/{dicom}.jpg"
        views.setdefault(study, []).append(View(file, position, dicom))
    if not views:
        raise RarrgError(f"{metadata}: lists no study with a FINDINGS section")
    return [Study(study, split_of[study], tuple(images), *reports[study]) for study, images in views.items()]


def frontal_images(root: Path) -> set[str]:
    """Ids of the images whose ViewPosition is AP or PA, as papers count frontal images; the view code has no say.

    Args:
        root: The data folder.

    Raises:
        RarrgError: The metadata are missing or malformed.
    """
    return {
        dicom
        for _, (dicom, position) in read_rows(_table(root, "metadata"), ("dicom_id", "ViewPosition"))
        if position.strip().upper() in ("AP", "PA")
    }


def position_of(view_position: str, view_code: str) -> Position:
    """Frontal, lateral or other.

    AP and PA are frontal, LATERAL and LL lateral, as in MIT-LCP's own analysis; oblique, decubitus and the like are
    ``other``. About 16,000 images have no ViewPosition: for them the DICOM view code decides where it is plain
    ("postero-anterior", "antero-posterior", "lateral", "left lateral"). Counts that papers give for PA/AP images rest
    on ViewPosition alone.

    Args:
        view_position: ViewPosition of the metadata.
        view_code: ViewCodeSequence_CodeMeaning of the metadata.
    """
    if view_position.strip():
        return _VIEW_POSITIONS.get(view_position.strip().upper(), "other")
    return _VIEW_CODES.get(view_code.strip().lower(), "other")


def _table(root: Path, kind: str) -> Path:
    name = re.compile(rf"mimic-cxr-(\d+)\.(\d+)\.(\d+)-{kind}\.csv(\.gz)?")
    found = [(match, path) for path in root.iterdir() if (match := name.fullmatch(path.name))]
    if not found:
        raise RarrgError(f"{root}: holds no mimic-cxr-2.0.0-{kind}.csv(.gz); is it a MIMIC-CXR-JPG folder?")
    # The newest version; of the same version the one that needs no unpacking.
    return max(found, key=lambda item: ([int(item[0][part]) for part in (1, 2, 3)], item[0][4] is None))[1]


def _read_splits(path: Path) -> dict[str, Split | None]:
    splits: dict[str, Split | None] = {}
    for line, (dicom, split) in read_rows(path, ("dicom_id", "split")):
        if split not in _SPLITS:
            raise RarrgError(f"{path}, line {line}: unknown split {split!r}; expected {', '.join(_SPLITS)}")
        if dicom in splits:
            raise RarrgError(f"{path}, line {line}: image {dicom} is listed twice")
        splits[dicom] = _SPLITS[split]
    return splits


def _read_metadata(path: Path) -> Iterator[tuple[int, str, str, str, Position]]:
    """Line, dicom id, subject id (no prefix), study id (``s`` prefix) and position of every image."""
    columns = ("dicom_id", "subject_id", "study_id", "ViewPosition", "ViewCodeSequence_CodeMeaning")
    for line, (dicom, subject, study, view_position, view_code) in read_rows(path, columns):
        yield line, dicom, subject, f"s{study}", position_of(view_position, view_code)


def _read_reports(root: Path, metadata: Path) -> dict[str, tuple[str, str]]:
    """Findings and impression on one line, of the studies with findings."""
    for name in (SECTIONED, f"{SECTIONED}.gz"):
        if (root / name).is_file():
            return _read_sectioned(root / name)
    return _read_texts(root, dict.fromkeys((subject, study) for _, _, subject, study, _ in _read_metadata(metadata)))


def _read_sectioned(path: Path) -> dict[str, tuple[str, str]]:
    reports: dict[str, tuple[str, str]] = {}
    for line, (study, findings, impression) in read_rows(path, ("study", "findings", "impression")):
        if not study.startswith("s"):
            raise RarrgError(f"{path}, line {line}: study {study!r} is no study id such as s50414267")
        if study in reports:
            raise RarrgError(f"{path}, line {line}: study {study} is listed twice")
        if findings.strip():
            reports[study] = (one_line(findings), one_line(impression))
    return reports


def _read_texts(root: Path, studies: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    reports: dict[str, tuple[str, str]] = {}
    for subject, study in tqdm(studies, desc="reports", delay=2, leave=False):
        if study in _CUT_BY_HAND:
            continue
        path = root / "files" / f"p{subject[:2]}" / f"p{subject}" / f"{study}.txt"
        try:
            sections = extract_sections(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise RarrgError(
                f"{path}: cannot be read ({error.strerror}); "
                f"put {SECTIONED} into {root}, or the text of every report of MIMIC-CXR"
            ) from error
        except UnicodeDecodeError as error:
            raise RarrgError(f"{path}: is not UTF-8 text") from error
        if sections.get("findings"):
            reports[study] = (one_line(sections["findings"]), one_line(sections.get("impression", "")))
    return reports
