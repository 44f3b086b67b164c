"""What another selection threshold would retrieve, and how many phrases it would take (RA-RRG, Figure 11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rarrg.comparison import Retrieved, spoken_in
from rarrg.data.evaluation_set import EvaluationSet
from rarrg.line_chart import Chart
from rarrg.metrics.classification import label_measures
from rarrg.metrics.systems import SystemOutput
from rarrg.monitoring import THRESHOLDS
from rarrg.score_tables import Table, paper_figures

_FINDINGS = {
    "findings_micro_f1": "micro-F1",
    "findings_micro_precision": "micro-precision",
    "findings_micro_recall": "micro-recall",
    "findings_macro_f1": "macro-F1",
    "findings_example_f1": "example-F1",
    "findings_example_precision": "example-precision",
    "findings_example_recall": "example-recall",
}
_DRAWN = tuple(_FINDINGS)[:5]


def lowest(in_use: float) -> float:
    """The threshold to retrieve at, so that :func:`sweep` has what it needs.

    Args:
        in_use: The threshold that the reports are made with.
    """
    return min(in_use, *THRESHOLDS)


def sweep(evaluated: EvaluationSet, found: Retrieved, reference: SystemOutput, in_use: float) -> list[dict[str, Any]]:
    """Measure the retrieved phrases of each study at each threshold; no network runs, and no language model.

    Selection probabilities do not depend on the threshold, so what is retrieved at one is part of what is retrieved at
    a lower one, or the most probable phrase where none passes. The offset of a model's logits and views that share
    their probabilities are in the probabilities already.

    Args:
        evaluated: The studies.
        found: What their images retrieve at :func:`lowest`.
        reference: What their reports say.
        in_use: The threshold that the reports are made with.

    Returns:
        For it and each of ``THRESHOLDS``, rising: ``threshold``, ``in_use``, ``phrases_per_study`` (different phrases
        of all images of a study, on average) and the measures of :func:`rarrg.metrics.classification.label_measures`.
    """
    rows = []
    for threshold in sorted({*THRESHOLDS, in_use}):
        said = spoken_in(evaluated, "study", found.above(threshold).texts()["study"])
        assert said.phrases is not None
        rows.append(
            {
                "threshold": threshold,
                "in_use": threshold == in_use,
                "phrases_per_study": sum(map(len, said.phrases)) / len(said.phrases),
                **label_measures(reference.findings, said.findings, "findings_").values(),
            }
        )
    return rows


def sweep_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The sweep as a table and two charts.

    Args:
        rows: Of :func:`sweep`.
    """
    (mark,) = [row["threshold"] for row in rows if row["in_use"]]
    quoted = paper_figures()["threshold"]

    def chart(title: str, lines: Mapping[str, str]) -> Chart:
        drawn = {name: [row[key] for row in rows] for key, name in lines.items()}
        return Chart(title, "threshold", [row["threshold"] for row in rows], drawn, mark, f"in use, {mark:g}")

    return Table(
        title="Selection threshold",
        note=f"Of the retrieved phrases, without a language model; findings by the rule-based labeler over 13 "
        f"observations. Figure {quoted['figure']}, quoted: the paper's example-based CheXbert F1 is largest at "
        f"{quoted['best']:g}. A threshold that is picked from these rows makes the figures of these studies worthless; "
        "validation is to choose it.",
        header=["threshold", "phrases a study", *_FINDINGS.values()],
        rows=[
            [f"{row['threshold']:g}" + " (in use)" * row["in_use"], f"{row['phrases_per_study']:.2f}",
             *(f"{row[name]:.3f}" for name in _FINDINGS)]
            for row in rows
        ],
        charts=[
            chart("Findings", {name: _FINDINGS[name] for name in _DRAWN}),
            chart("Phrases", {"phrases_per_study": "phrases a study"}),
        ],
    )  # fmt: skip
