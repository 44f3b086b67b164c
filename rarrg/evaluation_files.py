"""The figures of an evaluation, for a terminal and as files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rarrg.artifacts import write_csv, write_json
from rarrg.comparison import Outputs
from rarrg.data.evaluation_set import SCOPES, EvaluationSet
from rarrg.metrics.bootstrap import Estimate
from rarrg.metrics.classification import per_label
from rarrg.metrics.findings import OBSERVATIONS
from rarrg.metrics.systems import COUNTS, MEASURES
from rarrg.report.study import Retrieval

LABELS = OBSERVATIONS[:-1]

Results = dict[str, dict[str, dict[str, Estimate | None]]]
"""Scope -> system -> measure -> estimate."""


def as_table(measured: Mapping[str, Mapping[str, Estimate | None]]) -> list[str]:
    """Lines of a table, a system a line: each measure with its interval.

    Args:
        measured: System -> measure -> estimate.
    """
    head = ["", *(name.removeprefix("findings_").replace("_", " ") for name in MEASURES)]
    rows = [head, *([name, *(_cell(key, values[key]) for key in MEASURES)] for name, values in measured.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _cell(name: str, value: Estimate | None) -> str:
    if value is None:
        return "-"
    if name in COUNTS:
        return f"{value.value:.0f}"
    return f"{value.value:.3f} [{value.low:.3f}, {value.high:.3f}]"


def write_figures(
    out: Path, results: Results, leads: Sequence[dict[str, Any]], systems: Mapping[str, Outputs], reference: Outputs
) -> None:
    """Write ``metrics.json``, ``metrics.csv``, ``findings.csv`` and, where there are any, ``leads.csv``.

    Args:
        out: The output folder.
        results: What was measured.
        leads: By how much the model is ahead of each other system.
        systems: What each system says.
        reference: What the reports say.
    """

    def plain(value: Estimate | None) -> dict[str, float | None]:
        return dict.fromkeys(Estimate._fields) if value is None else value._asdict()

    write_json(
        out / "metrics.json",
        {system: {name: plain(value) for name, value in values.items()} for system, values in results["study"].items()},
    )
    rows = [
        {"scope": scope, "system": system, "measure": name, **plain(value)}
        for scope, measured in results.items()
        for system, values in measured.items()
        for name, value in values.items()
    ]
    write_csv(out / "metrics.csv", rows, list(rows[0]))
    confusions = _confusions(systems, reference)
    write_csv(out / "findings.csv", confusions, list(confusions[0]))
    (out / "leads.csv").unlink(missing_ok=True)
    if leads:
        write_csv(out / "leads.csv", leads, list(leads[0]))


def _confusions(systems: Mapping[str, Outputs], reference: Outputs) -> list[dict[str, Any]]:
    return [
        {"scope": scope, "system": name, **dataclasses.asdict(score)}
        for scope in SCOPES
        if len(reference[scope].findings)
        for name, outputs in systems.items()
        for score in per_label(reference[scope].findings, outputs[scope].findings, LABELS)
    ]


def predictions(
    evaluated: EvaluationSet, found: Sequence[Retrieval], ours: Outputs, reference: Outputs
) -> Iterator[dict[str, Any]]:
    """What the model said of each study: the rows of ``predictions.jsonl``.

    Args:
        evaluated: The studies.
        found: What each image retrieved.
        ours: What the model says.
        reference: What the reports say.
    """
    for row, (index, images) in enumerate(evaluated.members["study"]):
        study = evaluated.studies[index]
        yield {
            "study_id": study.id,
            "images": {evaluated.views[image].position: str(evaluated.views[image].path) for image in images},
            "reference": list(study.key_phrases),
            "retrieved": {
                evaluated.views[image].position: [dataclasses.asdict(phrase) for phrase in found[image].phrases]
                for image in images
            },
            "reference_findings": _named(reference["study"].findings[row]),
            "findings": _named(ours["study"].findings[row]),
        }


def _named(findings: np.ndarray) -> list[str]:
    return [label for label, positive in zip(LABELS, findings, strict=True) if positive]
