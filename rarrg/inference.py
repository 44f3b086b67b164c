"""What ``infer.py`` does: the report of one study, or of every study of a list.

Free of heavy imports at the top, so that a mistyped path costs no torch import.
"""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

import rarrg
from rarrg.artifacts import atomic_write, read_json, write_json, write_text
from rarrg.errors import ImageError, RarrgError
from rarrg.types import Position, Report

COLUMNS = ("id", "frontal", "lateral")
VIEWS: tuple[Position, ...] = ("frontal", "lateral")


@dataclass(frozen=True)
class InferOptions:
    """What to infer from, and where the results go.

    A leading ``~`` is the home folder. The folders of ``out``, ``html`` and ``attention`` must exist. The exit status
    of a list is 0 once a study has its report, though others failed, and 1 if all failed; the closing line counts them.

    Args:
        frontal: Frontal image of a single study.
        lateral: Lateral image of a single study.
        model: Model folder, or ORG/NAME of a model on the Hugging Face hub.
        store: Phrase store to use in place of the model's own.
        threshold: Selection probability in (0, 1) above which a query retrieves its phrase; null takes the model's.
        device: auto (a GPU if there is one), cpu, cuda or cuda:INDEX.
        out: JSON of the report; with ``input``, JSON Lines of all reports, and OUT.failed.jsonl of the failures.
        html: HTML page of a single study.
        attention: NPZ of a single study's attention maps, one array ``[phrases, height, width]`` a view.
        input: List of studies, CSV or JSON, with the columns ``id``, ``frontal`` and ``lateral``.
    """

    frontal: Path | None = None
    lateral: Path | None = None
    model: str = "runs/demo"
    store: Path | None = None
    threshold: float | None = None
    device: str = "auto"
    out: Path | None = None
    html: Path | None = None
    attention: Path | None = None
    input: Path | None = None


@dataclass(frozen=True)
class ListedStudy:
    """A study of a list.

    Attributes:
        id: Unique within the list.
        frontal: Frontal image, if there is one.
        lateral: Lateral image, if there is one.
    """

    id: str
    frontal: Path | None
    lateral: Path | None


def infer(options: InferOptions, say: Callable[[str], None] = print) -> int:
    """Run the ``infer`` command.

    Args:
        options: What the user asked for.
        say: Takes each line meant for the user.

    Returns:
        Exit status: 1 if every study of a list failed, else 0. A list of which some failed gives 0: its closing line
        counts them, and ``OUT.failed.jsonl`` names them.

    Raises:
        RarrgError: Options contradict each other, or a model, store, list or image cannot be used.
    """
    given = {field.name: getattr(options, field.name) for field in fields(options)}
    paths: dict[str, Any] = {name: _expanded(value) for name, value in given.items() if isinstance(value, Path)}
    options = replace(options, **paths)
    if options.input is None:
        _infer_one(options, say)
        return 0
    return _infer_list(options, options.input, say)


def _expanded(path: str | Path) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # no such user: the ~ is part of a file's name
        return Path(path)


def _generator(options: InferOptions) -> rarrg.ReportGenerator:
    # Training writes to runs/, so a missing runs/demo is a model not yet made, never one to look for on the hub.
    is_hub_name = options.model.count("/") == 1 and not options.model.startswith((".", "/", "~", "runs/"))
    if not is_hub_name and not _expanded(options.model).is_dir():
        raise RarrgError(
            f"{options.model}: no such model folder; make one with `python train.py --config demo.yaml` or "
            "`make demo`, or name another with --model"
        )
    return rarrg.ReportGenerator.from_pretrained(
        options.model, store=options.store, threshold=options.threshold, device=options.device
    )


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RarrgError(f"{path}: cannot be written ({error.strerror})") from error


def _check_target(option: str, path: Path | None) -> None:
    if path is None:
        return
    with _writing(path):
        if path.is_dir():
            raise RarrgError(f"{option} {path}: is a folder; name a file")
        if not path.parent.is_dir():
            raise RarrgError(f"{option} {path}: there is no folder {path.parent}; make it first")
        if not os.access(path.parent, os.W_OK):
            raise RarrgError(f"{option} {path}: the folder {path.parent} is not yours to write to")


def _infer_one(options: InferOptions, say: Callable[[str], None]) -> None:
    for position, path in (("frontal", options.frontal), ("lateral", options.lateral)):
        if path is not None and path.is_dir():
            raise RarrgError(f"--{position} {path}: is a folder, not an image")
        if path is not None and not path.is_file():
            raise RarrgError(f"--{position} {path}: no such file")
    if options.frontal is None and options.lateral is None:
        raise RarrgError("nothing to read: give --frontal IMAGE, --lateral IMAGE or both, or a list with --input")
    for name in ("out", "html", "attention"):
        _check_target(f"--{name}", getattr(options, name))

    report, images, attention = _generator(options).explain(options.frontal, options.lateral)
    say(describe(report))
    if options.out is not None:
        from rarrg.pipeline import report_to_json

        with _writing(options.out):
            write_json(options.out, report_to_json(report))
        say(f"Wrote {options.out}")
    if options.html is not None:
        from rarrg.report.html import render

        with _writing(options.html):
            write_text(options.html, render(report, images, attention))
        say(f"Wrote {options.html}")
    if options.attention is not None:
        import numpy as np

        maps: dict[str, Any] = {str(position): values for position, values in attention.items()}
        with _writing(options.attention), atomic_write(options.attention) as path, path.open("wb") as file:
            np.savez_compressed(file, **maps)
        say(f"Wrote {options.attention}")


def describe(report: Report) -> str:
    """The report and a table of each view's phrases, for a terminal."""
    lines = [report.text]
    for position, phrases in report.phrases.items():
        lines += ["", f"{position} view: {report.images[position]}"]
        if position in report.below_threshold:
            lines.append(f"  no query passed the threshold {report.threshold:g}; this is the most probable one")
        lines.append("  probability  similarity  phrase")
        lines += [f"  {phrase.probability:11.3f}  {phrase.similarity:10.3f}  {phrase.text}" for phrase in phrases]
    return "\n".join(lines)


def _infer_list(options: InferOptions, source: Path, say: Callable[[str], None]) -> int:
    for name in ("frontal", "lateral", "html", "attention"):
        if getattr(options, name) is not None:
            raise RarrgError(f"--{name} is for a single study; leave it out with --input")
    if options.out is None:
        raise RarrgError("--input: name the file for the reports with --out reports.jsonl")
    out = options.out
    studies = read_list(source)
    _check_target("--out", out)

    from rarrg.pipeline import report_to_json

    generator = _generator(options)
    done = _resume(out, generator)
    pending = [study for study in studies if study.id not in done]
    if len(pending) < len(studies):
        say(f"{len(studies) - len(pending)} of {len(studies)} studies are in {out} already")

    failed_path = out.with_name(f"{out.name}.failed.jsonl")
    with _writing(failed_path):
        failed_path.unlink(missing_ok=True)
    failures = 0
    for study in tqdm(pending, desc="studies", unit="study"):
        try:
            report = generator(study.frontal, study.lateral)
        except ImageError as error:
            _append(failed_path, {"id": study.id, "error": str(error)})
            failures += 1
        else:
            _append(out, {"id": study.id, **report_to_json(report)})
    say(f"{len(pending) - failures} reports written to {out}")
    if failures:
        say(f"{failures} of {len(studies)} studies failed: see {failed_path}")
    return 1 if failures == len(studies) else 0


def _append(path: Path, row: dict[str, Any]) -> None:
    with _writing(path), path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _resume(out: Path, generator: rarrg.ReportGenerator) -> set[str]:
    """Ids of the studies that ``out`` holds already; a torn last line is cut off it.

    Raises:
        RarrgError: ``out`` is no file of reports, or one made otherwise than this run would.
    """
    if not out.is_file():
        return set()
    with _writing(out):
        content = out.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    torn = content[len(whole) :]
    wanted = (generator.model_reference["sha256"], generator.store_reference["sha256"], generator.threshold)
    done = set()
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            row = json.loads(line)
            made = (row["model"]["sha256"], row["store"]["sha256"], row["thresholds"]["selection"])
            done.add(str(row["id"]))
        except (ValueError, KeyError, TypeError) as error:
            raise RarrgError(f"{out}, line {number}: is not a report; choose another --out") from error
        if made[:2] != wanted[:2] or not math.isclose(made[2], wanted[2]):
            raise RarrgError(
                f"{out}, line {number}: was made with {_settings(*made)}, this run has {_settings(*wanted)}; "
                "choose another --out"
            )
    start = b'{"id": '
    if not torn.startswith(start[: len(torn)]):
        raise RarrgError(f"{out}: does not end in a report; choose another --out")
    if torn:
        with _writing(out), out.open("r+b") as file:
            file.truncate(len(whole))
    return done


def _settings(model: str, store: str, threshold: float) -> str:
    return f"model {model[:12]}, store {store[:12]}, threshold {threshold:g}"


def read_list(path: Path) -> list[ListedStudy]:
    """Read a list of studies.

    Args:
        path: CSV with a header line, or a JSON list of objects. Columns: ``id``, and ``frontal`` or ``lateral`` or
            both; relative image paths start from the list's folder, a leading ``~`` is the home folder.

    Raises:
        RarrgError: The list is missing or malformed; the message names the row.
    """
    if path.suffix.lower() not in (".csv", ".json"):
        raise RarrgError(f"--input {path}: is neither .csv nor .json")
    rows = _csv_rows(path) if path.suffix.lower() == ".csv" else _json_rows(path)
    studies: dict[str, ListedStudy] = {}
    for place, row in rows:
        unknown = sorted(str(key) for key in row.keys() - set(COLUMNS))
        if unknown or "id" not in row:
            found = f"unknown: {', '.join(unknown)}" if unknown else "id is missing"
            raise RarrgError(f"{path}, {place}: the columns are {', '.join(COLUMNS)} ({found})")
        if any(isinstance(value, (dict, list, bool)) for value in row.values()):
            raise RarrgError(f"{path}, {place}: {', '.join(COLUMNS)} must be text")
        values = {name: "" if row.get(name) is None else str(row[name]).strip() for name in COLUMNS}
        identity = values["id"]
        if not identity:
            raise RarrgError(f"{path}, {place}: the id is empty")
        if identity in studies:
            raise RarrgError(f"{path}, {place}: the id {identity} occurs twice")
        views = {view: path.parent / _expanded(values[view]) if values[view] else None for view in VIEWS}
        if not any(views.values()):
            raise RarrgError(f"{path}, {place}: study {identity} has neither a frontal nor a lateral image")
        studies[identity] = ListedStudy(identity, views["frontal"], views["lateral"])
    if not studies:
        raise RarrgError(f"{path}: lists no study")
    return list(studies.values())


def _csv_rows(path: Path) -> list[tuple[str, dict[str, Any]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, restkey="(more than the header has)", strict=True)
            header = reader.fieldnames or ()
            if len(header) == 1 and any(mark in header[0] for mark in ";\t"):
                raise RarrgError(f"{path}: the separator must be a comma (the header is {header[0]!r})")
            return [(f"line {reader.line_num}", row) for row in reader]
    except OSError as error:
        raise RarrgError(f"{path}: cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise RarrgError(f"{path}: is not a UTF-8 CSV file ({error})") from error


def _json_rows(path: Path) -> list[tuple[str, dict[str, Any]]]:
    value = read_json(path)
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise RarrgError(f"{path}: must be a list of objects with {', '.join(COLUMNS)}")
    return [(f"entry {number}", row) for number, row in enumerate(value, start=1)]
