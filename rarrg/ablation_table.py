"""The table of an ablation: each measure over seeds, and how far it is from one experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rarrg.artifacts import read_json, read_jsonl
from rarrg.errors import RarrgError
from rarrg.evaluated_reports import SCORES_OF_REPORTS
from rarrg.metrics.bootstrap import weights_by_group
from rarrg.metrics.measured import Measured
from rarrg.metrics.saved_terms import SavedTerms, read_terms
from rarrg.score_tables import NOT_COMPARABLE, comparable, paper_figures
from rarrg.scoring import SCORES, SHOWN, TERMS

DISTINCT = "distinct_reports"


@dataclass(frozen=True)
class Cell:
    """A measure of an experiment.

    Attributes:
        experiment: Its name.
        measure: The measure.
        value: Mean over the seeds.
        lowest: Of the single seeds.
        highest: Of the single seeds.
        difference: Value minus that of the experiment that the others are compared with.
        low: Lower end of the difference's 95 % interval: paired bootstrap over studies, mean over seeds in each
            resample. None where the measure has none.
        high: Its upper end.
    """

    experiment: str
    measure: str
    value: float
    lowest: float
    highest: float
    difference: float
    low: float | None
    high: float | None


def cells_of(folders: Mapping[str, Sequence[Path]], against: str, draws: int) -> list[Cell]:
    """Read what the evaluations of each experiment wrote.

    Args:
        folders: The output folders of ``rarrg evaluate`` of each experiment, a seed each, in the same order of seeds.
        against: Experiment that the others are compared with.
        draws: Bootstrap resamples.

    Raises:
        RarrgError: A folder lacks its scores, or two are over different studies.
    """
    read = {name: [_measures(place) for place in places] for name, places in folders.items()}
    terms = read[against][0][0]
    if any(each.ids != terms.ids for runs in read.values() for each, _ in runs):
        raise RarrgError("the evaluations are over different studies; remove the output folder and run them again")
    _refuse_others(folders)
    cells = []
    base = read[against]
    weights = weights_by_group(terms.groups, draws, seed=0)
    for name, runs in read.items():
        for measure in SHOWN:
            if all(measure in found for _, found in (*runs, *base)):
                both = np.logical_and.reduce([found[measure].present for _, found in (*runs, *base)])
                ours = [_drawn(found[measure], measure, weights, both) for _, found in runs]
                theirs = [_drawn(found[measure], measure, weights, both) for _, found in base]
                values = [found[measure].values()[measure] for _, found in runs]
                apart = np.mean([drawn for _, drawn in ours], axis=0) - np.mean([drawn for _, drawn in theirs], axis=0)
                low, high = np.quantile(apart, [0.025, 0.975])
                difference = float(np.mean([value for value, _ in ours]) - np.mean([value for value, _ in theirs]))
                spread = (float(np.mean(values)), min(values), max(values))
                cells.append(Cell(name, measure, *spread, difference, float(low), float(high)))
        counts = [_distinct(place) for place in folders[name]]
        apart_from = float(np.mean(counts) - np.mean([_distinct(place) for place in folders[against]]))
        cells.append(Cell(name, DISTINCT, float(np.mean(counts)), min(counts), max(counts), apart_from, None, None))
    return cells


def as_markdown(cells: Sequence[Cell], about: Mapping[str, str], against: str, seeds: int) -> str:
    """The table, an experiment a row: mean over seeds, and where the difference's interval leaves out 0, its sign.

    Args:
        cells: Of :func:`cells_of`.
        about: What each experiment is, in the order of the rows.
        against: Experiment that the others are compared with.
        seeds: Number of seeds.
    """
    measures = list(dict.fromkeys(cell.measure for cell in cells))
    found = {(cell.experiment, cell.measure): cell for cell in cells}
    lines = [
        f"| | | {' | '.join(measure.removeprefix('findings_').replace('_', ' ') for measure in measures)} |",
        f"|---|---|{'---|' * len(measures)}",
    ]
    for name, words in about.items():
        shown = [_shown(found.get((name, measure))) for measure in measures]
        lines.append(f"| {name} | {words} | {' | '.join(shown)} |")
    over = f"{seeds} seeds" if seeds > 1 else "one seed"
    lines += [
        "",
        f"Mean over {over} (lowest to highest). ▲ ▼: above or below {against}, the 95 % interval of the paired "
        "difference leaves out 0.",
    ]
    return "\n".join(lines) + "\n"


def beside_the_paper(experiments: Sequence[str], scores: Mapping[str, Any]) -> str:
    """What stands below the table: measures that were not computed, and the paper's rows of the same experiments.

    Args:
        experiments: Their names.
        scores: What ``scores.json`` of one of them holds.

    Returns:
        Markdown; the paper's rows only where the protocol is that of its table.
    """
    lines = [f"{name}: not computed; {how}" for name, how in scores["not_computed"].items()]
    quoted = paper_figures()["ablation"]
    rows = {name: quoted["values"][name] for name in experiments if name in quoted["values"]}
    if scores["protocol"]["name"] == quoted["protocol"] and rows:
        measures = list(next(iter(rows.values())))
        lines += [
            f"Table {quoted['table']} of the paper, quoted, in percent"
            + (":" if comparable(scores, quoted["protocol"]) else f" ({NOT_COMPARABLE}):"),
            "\n".join(
                [
                    f"| | {' | '.join(measure.replace('_', ' ') for measure in measures)} |",
                    f"|---|{'---|' * len(measures)}",
                    *(
                        f"| {name} | {' | '.join(f'{row[each]:.1f}' for each in measures)} |"
                        for name, row in rows.items()
                    ),
                ]
            ),
        ]
    return "".join(f"\n{line}\n" for line in lines)


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    digits = 0 if cell.measure == DISTINCT else 3
    mark = ""
    if cell.low is not None and cell.high is not None:
        mark = " ▲" if cell.low > 0 else " ▼" if cell.high < 0 else ""
    spread = "" if cell.lowest == cell.highest else f" ({cell.lowest:.{digits}f} to {cell.highest:.{digits}f})"
    return f"{cell.value:.{digits}f}{spread}{mark}"


def _measures(place: Path) -> tuple[SavedTerms, dict[str, Measured]]:
    terms = read_terms(place / SCORES_OF_REPORTS / TERMS)
    return terms, {name: each for each in terms.measured.values() for name in each.statistics}


def _refuse_others(folders: Mapping[str, Sequence[Path]]) -> None:
    """Refuse evaluations against other references, or by another version, whose rules may differ."""
    known: tuple[str, str] | None = None
    for place in (place for places in folders.values() for place in places):
        scores = read_json(place / SCORES_OF_REPORTS / SCORES)
        own = (scores["protocol"]["references_sha256"], scores["measured_with"]["rarrg"])
        known = own if known is None else known
        if own != known:
            raise RarrgError(
                f"{place}: was evaluated against other references or by another version of rarrg than the others; "
                "remove it and run again"
            )


def _drawn(measured: Measured, measure: str, weights: np.ndarray, where: np.ndarray) -> tuple[float, np.ndarray]:
    """A measure on some studies as they are and on each resample; the others count nothing."""
    statistic = measured.statistics[measure]
    terms = np.where(where[:, None], measured.terms, 0)
    return float(statistic(terms.sum(axis=0))), np.asarray(statistic(weights @ terms))


def _distinct(place: Path) -> int:
    return len({row["text"] for row in read_jsonl(place / "reports.jsonl")})
