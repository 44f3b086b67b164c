"""The file that holds the reports of a list of studies: what it has already, what made them, and what is added."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rarrg.artifacts import writing
from rarrg.errors import RarrgError
from rarrg.study_list import ListedStudy

if TYPE_CHECKING:
    from rarrg.pipeline import ReportGenerator


@dataclass(frozen=True)
class Settings:
    """All that decides a report of a list.

    Attributes:
        model: Checksum of the model.
        store: Checksum of the phrase store.
        threshold: Selection probability above which a query retrieves its phrase.
        resolve: Which of two phrases that contradict each other stays.
        writer: What wrote the report, by the keys of its ``settings``.
    """

    model: str
    store: str
    threshold: float
    resolve: str
    writer: dict[str, Any]

    @classmethod
    def of(cls, generator: ReportGenerator) -> Settings:
        """What decides the reports of a generator."""
        return cls(
            generator.model_reference["sha256"],
            generator.store_reference["sha256"],
            generator.threshold,
            generator.precedence,
            generator.writer.settings,
        )

    def __str__(self) -> str:
        writer = ", ".join(f"{key} {value}" for key, value in self.writer.items())
        return (
            f"model {self.model[:12]}, store {self.store[:12]}, threshold {self.threshold:g}, resolve {self.resolve}, "
            f"writer {writer}"
        )


def reports_in(out: Path, wanted: Settings) -> dict[str, dict[str, list[str]]]:
    """Ids and images of the studies that a file holds already; a torn last line is cut off it.

    Args:
        out: The file; it need not be there.
        wanted: What its reports must have been made with.

    Returns:
        For each id the images of its report, by view.

    Raises:
        RarrgError: ``out`` is no file of reports, one made otherwise than this run would, or has a study twice.
    """
    if not out.is_file():
        return {}
    with writing(out):
        content = out.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    torn = content[len(whole) :]
    done: dict[str, dict[str, list[str]]] = {}
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            row = json.loads(line)
            writer = {key: dict(row["writer"]).get(key) for key in wanted.writer}
            made = Settings(
                row["model"]["sha256"],
                row["store"]["sha256"],
                row["thresholds"]["selection"],
                row["resolve"],
                writer,
            )
            name, images = str(row["id"]), {str(view): list(files) for view, files in row["images"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RarrgError(f"{out}, line {number}: is not a report; choose another --out") from error
        if replace(made, threshold=wanted.threshold) != wanted or not math.isclose(made.threshold, wanted.threshold):
            raise RarrgError(f"{out}, line {number}: was made with {made}, this run has {wanted}; choose another --out")
        if name in done:
            raise RarrgError(f"{out}, line {number}: study {name} has a report already; did two runs write to it?")
        done[name] = images
    start = b'{"id": '
    if not torn.startswith(start[: len(torn)]):
        raise RarrgError(f"{out}: does not end in a report; choose another --out")
    if torn:
        with writing(out), out.open("r+b") as file:
            file.truncate(len(whole))
    return done


def is_of(images: dict[str, list[str]], study: ListedStudy, folder: Path) -> bool:
    """Whether a report is of the images that a list names; the list may lie elsewhere than it did.

    Args:
        images: Those of the report, as :func:`reports_in` gives them.
        study: The study of the list.
        folder: Where the list lies.
    """
    for view, files in (("frontal", study.frontal), ("lateral", study.lateral)):
        found = images.get(view, [])
        if len(found) != len(files):
            return False
        for was, now in zip(found, files, strict=True):
            name = now.relative_to(folder) if isinstance(now, Path) and now.is_relative_to(folder) else now
            if was != str(now) and not was.endswith(f"{os.sep}{name}"):
                return False
    return True


def append(path: Path, row: dict[str, Any]) -> None:
    """Add a row to a file of reports, or of failures.

    Raises:
        RarrgError: The file cannot be written.
    """
    # What a path holds may be no character; JSON has a way to write it.
    with writing(path), path.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")
