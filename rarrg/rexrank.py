"""``rarrg rexrank``: studies and reports in the JSON of the ReXrank leaderboard (github.com/rajpurkarlab/ReXrank).

Its input is a dictionary of study id and object with ``image_path``, ``frontal_lateral`` and ``key_image_path``; its
output the same with ``model_prediction``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rarrg.artifacts import read_json, write_json
from rarrg.errors import RarrgError
from rarrg.report_files import read_report_file
from rarrg.study_list import ListedStudy, read_list
from rarrg.types import Position

# What the data sets of the leaderboard call their views.
_VIEWS: dict[str, Position] = {
    "frontal": "frontal",
    "antero-posterior": "frontal",
    "postero-anterior": "frontal",
    "lateral": "lateral",
    "left lateral": "lateral",
}


@dataclass(frozen=True)
class RexrankOptions:
    """What to turn into what.

    Args:
        input: ReXrank's input JSON, or a list of studies as rarrg infer takes it.
        images: Folder that the image paths of ReXrank's JSON start from; null takes the JSON's own.
        reports: Reports of the studies, in any form that rarrg score reads; null writes none.
        out: File to write: with reports ReXrank's output JSON; without, a list of studies of ReXrank's input, or
            ReXrank's input of a list of studies.
    """

    input: Path | None = None
    images: Path | None = None
    reports: Path | None = None
    out: Path | None = None


def convert(options: RexrankOptions, say: Callable[[str], None]) -> None:
    """Run the ``rexrank`` command.

    Args:
        options: What the user asked for.
        say: Takes each line meant for the user.

    Raises:
        RarrgError: A file is missing or of another form, or a study has no report.
    """
    if options.input is None or options.out is None:
        raise RarrgError("name what to read and what to write: --input FILE --out FILE")
    source = options.input.expanduser()
    given = read_json(source) if source.suffix.lower() == ".json" else None
    entries = given if isinstance(given, dict) else rexrank_entries(read_list(source))
    if options.reports is not None:
        texts = read_report_file(options.reports.expanduser()).texts
        missing = [name for name in entries if name not in texts]
        if missing:
            raise RarrgError(
                f"{options.reports}: {len(missing)} of {len(entries)} studies have no report ({missing[0]})"
            )
        if wrong := next((name for name, entry in entries.items() if not isinstance(entry, dict)), None):
            raise RarrgError(f"{source}, entry {wrong}: must be an object, as ReXrank's with image_path")
        write_json(options.out, {name: {**entry, "model_prediction": texts[name]} for name, entry in entries.items()})
    elif isinstance(given, dict):
        folder = (options.images or source.parent).expanduser().resolve()
        studies = listed_studies(given, folder, str(source))
        write_json(
            options.out,
            [
                {"id": study.id, "frontal": [str(path) for path in study.frontal],
                 "lateral": [str(path) for path in study.lateral]}
                for study in studies
            ],
        )  # fmt: skip
    else:
        write_json(options.out, entries)
    say(f"{len(entries)} studies written to {options.out}")


def listed_studies(entries: Mapping[str, Any], images: Path, where: str) -> list[ListedStudy]:
    """The studies of ReXrank's input.

    Args:
        entries: The JSON.
        images: Folder that its image paths start from; a leading ``/`` of theirs does not count.
        where: Name of the file, for messages.

    Raises:
        RarrgError: An entry lacks images or their views; the message names it.
    """
    studies = []
    for name, entry in entries.items():
        paths, views = (
            entry.get(key) if isinstance(entry, dict) else None for key in ("image_path", "frontal_lateral")
        )
        if not isinstance(paths, list) or not isinstance(views, list) or not paths or len(paths) != len(views):
            raise RarrgError(f"{where}, entry {name}: needs image_path and frontal_lateral, lists of the same length")
        found: dict[Position, list[Path]] = {"frontal": [], "lateral": []}
        for path, view in zip(paths, views, strict=True):
            position = _VIEWS.get(str(view).strip().lower())
            if position is None:
                raise RarrgError(f"{where}, entry {name}: unknown view {view!r}; expected one of {', '.join(_VIEWS)}")
            found[position].append(images / str(path).lstrip("/"))
        studies.append(ListedStudy(name, tuple(found["frontal"]), tuple(found["lateral"])))
    return studies


def rexrank_entries(studies: Sequence[ListedStudy]) -> dict[str, dict[str, Any]]:
    """ReXrank's input of studies: their images, each with its view, and the one that stands for the study.

    Args:
        studies: The studies.
    """
    entries: dict[str, dict[str, Any]] = {}
    for study in studies:
        paths = [str(path) for path in (*study.frontal, *study.lateral)]
        views = ["Frontal"] * len(study.frontal) + ["Lateral"] * len(study.lateral)
        entries[study.id] = {"image_path": paths, "frontal_lateral": views, "key_image_path": paths[0]}
    return entries
