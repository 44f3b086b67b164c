"""Which images of a data set can be read. Unreadable ones are counted, listed and left out, never passed over."""

from __future__ import annotations

import csv
import json
import os
import stat
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from tqdm.auto import tqdm

from rarrg.artifacts import atomic_write, writing
from rarrg.data.images import read_image
from rarrg.errors import ImageError, RarrgError
from rarrg.types import View


def image_key(file: str | Path) -> str:
    """What names a file's content without reading it: its real path, size in bytes, modification time in ns.

    Raises:
        OSError: There is no such file.
    """
    # One question to the file system for most files: what follows from the folder is known from the file before.
    status = os.lstat(file)
    place = _real(file if os.path.isabs(file) else os.path.join(os.getcwd(), file), status)  # noqa: PTH109, PTH117, PTH118
    if stat.S_ISLNK(status.st_mode):
        status = os.stat(file)  # noqa: PTH116
    return f"{place}|{status.st_size}|{status.st_mtime_ns}"


def _real(path: str | Path, status: os.stat_result) -> str:
    """As ``os.path.realpath``, which asks about every folder of the path again for every image."""
    folder, name = os.path.split(path)
    if name in ("", ".", "..") or stat.S_ISLNK(status.st_mode):
        return os.path.realpath(path)
    return f"{_real_folder(folder).rstrip(os.sep)}{os.sep}{name}"


@lru_cache(maxsize=4096)
def _real_folder(folder: str) -> str:
    return _real(folder, os.lstat(folder))


def _fault(view: View) -> tuple[str | None, bool]:
    """Why an image cannot be read, and whether that lies in the file: a right to read it may be had tomorrow."""
    try:
        read_image(view.path)
    except ImageError as error:
        # What a decoder has to say comes as an OSError too, without a number.
        outside = isinstance(error.__cause__, OSError) and error.__cause__.errno is not None
        return str(error), not outside
    return None, True


def _recorded(ledger: Path) -> dict[str, str | None]:
    """Verdicts of earlier runs; a last line torn by a kill is passed over, its image is read again."""
    verdicts: dict[str, str | None] = {}
    if ledger.is_file():
        with ledger.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    key, fault = json.loads(line)
                    verdicts[key] = fault
                except (ValueError, TypeError):
                    continue
    return verdicts


def screen_images(views: Sequence[View], ledger: Path) -> dict[str, str]:
    """Read every image once and find those that cannot be.

    Args:
        views: The images.
        ledger: JSON-lines file of verdicts, appended to; an unchanged file is not read a second time, unless the file
            system did not give it.

    Returns:
        Image id -> reason, for the unreadable ones.
    """
    verdicts = _recorded(ledger)
    faults: dict[str, str] = {}
    pending: list[tuple[str, View]] = []
    for view in views:
        try:
            key = image_key(view.file)
        except OSError:
            faults[view.image_id] = f"{view.file}: no such file"
            continue
        if key not in verdicts:
            pending.append((key, view))
        elif (fault := verdicts[key]) is not None:
            faults[view.image_id] = fault
    if not pending:
        return faults
    with writing(ledger):
        ledger.parent.mkdir(parents=True, exist_ok=True)
        torn = ledger.is_file() and ledger.stat().st_size > 0 and not ledger.read_bytes().endswith(b"\n")
        with ledger.open("a", encoding="utf-8") as file, ThreadPoolExecutor(os.cpu_count()) as pool:
            if torn:
                file.write("\n")
            checked = pool.map(_fault, (view for _, view in pending))
            bar = tqdm(checked, total=len(pending), desc="checking images", unit="image")
            for (key, view), (fault, lasting) in zip(pending, bar, strict=True):
                if lasting:
                    file.write(json.dumps([key, fault], ensure_ascii=False) + "\n")
                if fault is not None:
                    faults[view.image_id] = fault
    return faults


def write_skipped(path: Path, views: Sequence[View], faults: dict[str, str], limit: float) -> None:
    """Write ``skipped.csv`` (image_id, path, reason) and stop the run where too much is broken.

    Args:
        path: The file to write; written even when nothing was skipped.
        views: All images that were screened.
        faults: Image id -> reason, from :func:`screen_images`.
        limit: Largest share of unreadable images that a run accepts.

    Raises:
        RarrgError: More than ``limit`` of the images cannot be read, or none can.
    """
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["image_id", "path", "reason"])
        rows.writerows((view.image_id, view.file, faults[view.image_id]) for view in views if view.image_id in faults)
    if not faults:
        return
    share = len(faults) / len(views)
    if share > limit or len(faults) == len(views):
        raise RarrgError(
            f"{len(faults)} of {len(views)} images cannot be read ({share:.1%}, data.max_bad_images is {limit:.1%}): "
            f"see {path}"
        )
