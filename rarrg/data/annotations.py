"""Annotation files of other projects: samples of images and a report, in R2Gen's and in PromptMRG's form.

R2Gen's ``annotation.json`` (github.com/cuhksz-nlp/R2Gen) is a dictionary of the splits train, val and test.
PromptMRG's ``iu_annotation_promptmrg.json`` (github.com/jhb86253817/PromptMRG) is one list. In both an entry has
``image_path``, a list of files below the folder of images, and ``report``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from rarrg.artifacts import read_json
from rarrg.data.sections import one_line
from rarrg.errors import RarrgError

R2GEN = "annotation.json"
PROMPTMRG = "iu_annotation_promptmrg.json"


@dataclass(frozen=True)
class Annotated:
    """One entry of an annotation file.

    Attributes:
        id: Unique within its file.
        images: The image files, in the entry's order; at least one.
        report: Its report on one line.
    """

    id: str
    images: tuple[Path, ...]
    report: str


def read_r2gen(root: Path) -> dict[str, list[Annotated]]:
    """Read R2Gen's annotation file.

    Args:
        root: Folder of ``annotation.json``; the images lie in its folder ``images``, or in itself where there is none.
            They are not opened.

    Returns:
        The entries of ``train``, ``val`` and ``test``, with the ids of the file.

    Raises:
        RarrgError: The file is missing or of another form, or an id occurs twice.
    """
    path = root / R2GEN
    splits = read_json(path)
    if not isinstance(splits, dict) or not all(isinstance(splits.get(split), list) for split in _SPLITS):
        raise RarrgError(f"{path}: must have the lists {', '.join(_SPLITS)}, as R2Gen's annotation file")
    seen: set[str] = set()
    return {
        split: [
            _entry(row, f"{path}, {split} entry {place}", root, seen, "id") for place, row in enumerate(splits[split])
        ]
        for split in _SPLITS
    }


def read_promptmrg(root: Path) -> list[Annotated]:
    """Read PromptMRG's annotation file of IU X-Ray.

    Args:
        root: Folder of ``iu_annotation_promptmrg.json``; the images lie in its folder ``images``, or in itself where
            there is none. They are not opened.

    Returns:
        The entries with their first image alone, as PromptMRG reads them. An entry's id is that image's path without
        its ending, as ``CXR1000_IM-0003-1001/0``.

    Raises:
        RarrgError: The file is missing or of another form, or an image occurs twice.
    """
    path = root / PROMPTMRG
    rows = read_json(path)
    if not isinstance(rows, list):
        raise RarrgError(f"{path}: must be a list, as PromptMRG's annotation file of IU X-Ray")
    seen: set[str] = set()
    return [_entry(row, f"{path}, entry {place}", root, seen, "image_path") for place, row in enumerate(rows)]


_SPLITS = ("train", "val", "test")


def _entry(row: Any, where: str, root: Path, seen: set[str], named_by: str) -> Annotated:
    fields = row if isinstance(row, dict) else {}
    images, report = fields.get("image_path"), fields.get("report")
    listed = isinstance(images, list) and bool(images) and all(isinstance(image, str) and image for image in images)
    if not listed or not isinstance(report, str) or not fields.get(named_by):
        raise RarrgError(f"{where}: needs report, a list image_path" + (" and id" if named_by == "id" else ""))
    assert isinstance(images, list)  # listed says so
    folder = root / "images" if (root / "images").is_dir() else root
    if named_by == "image_path":
        images = images[:1]
        name = str(PurePosixPath(images[0]).with_suffix(""))
    else:
        name = str(fields[named_by])
    if name in seen:
        raise RarrgError(f"{where}: {name} occurs twice")
    seen.add(name)
    return Annotated(name, tuple(folder / image for image in images), one_line(report))
