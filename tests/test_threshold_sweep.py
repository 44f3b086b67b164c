from __future__ import annotations

import pytest

from rarrg.comparison import Retrieved, spoken_in
from rarrg.data.evaluation_set import EvaluationSet, evaluation_set
from rarrg.metrics.classification import label_measures
from rarrg.metrics.systems import SystemOutput
from rarrg.monitoring import THRESHOLDS
from rarrg.report.study import Retrieval
from rarrg.threshold_sweep import lowest, sweep, sweep_table
from rarrg.types import RetrievedPhrase, Study, View


def retrieval(**probabilities: float) -> Retrieval:
    phrases = {"effusion": "pleural effusion", "heart": "cardiomegaly", "clear": "clear lungs"}
    found = [RetrievedPhrase(phrases[name], value, 1.0, 0) for name, value in probabilities.items()]
    return Retrieval(tuple(sorted(found, key=lambda phrase: -phrase.probability)), False)


@pytest.fixture
def evaluated() -> EvaluationSet:
    """A study of two views whose report says pleural effusion, and one of a frontal view that is clear."""
    views = [View(f"{name}.png", name, name) for name in ("frontal", "lateral")]
    studies = [
        Study("1", "test", tuple(views), "Pleural effusion."),
        Study("2", "test", (views[0],), "The lungs are clear."),
    ]
    return evaluation_set(studies)


@pytest.fixture
def found() -> Retrieved:
    images = [
        retrieval(effusion=0.62, heart=0.31),
        retrieval(effusion=0.81, clear=0.11),
        retrieval(clear=0.93, heart=0.52),
    ]
    return Retrieved([], images)


@pytest.fixture
def reference(evaluated: EvaluationSet) -> SystemOutput:
    said = [["pleural effusion"], ["pleural effusion"], ["clear lungs"]]
    return spoken_in(evaluated, "study", said)


def test_each_threshold_by_hand(evaluated: EvaluationSet, found: Retrieved, reference: SystemOutput) -> None:
    rows = {row["threshold"]: row for row in sweep(evaluated, found, reference, 0.33)}
    assert list(rows) == sorted({*THRESHOLDS, 0.33})
    assert [threshold for threshold, row in rows.items() if row["in_use"]] == [0.33]
    # effusion, heart and clear of study 1; clear and heart of study 2
    assert rows[0.1]["phrases_per_study"] == 2.5
    assert [rows[0.1][f"findings_micro_{each}"] for each in ("precision", "recall")] == [1 / 3, 1]
    # effusion; clear and heart
    assert rows[0.33]["phrases_per_study"] == 1.5
    assert rows[0.33]["findings_micro_f1"] == pytest.approx(2 / 3)
    assert rows[0.33]["findings_macro_f1"] == pytest.approx(1 / 13)
    # effusion; clear
    assert (rows[0.6]["phrases_per_study"], rows[0.6]["findings_micro_f1"]) == (1, 1)
    assert (rows[0.6]["findings_example_precision"], rows[0.6]["findings_example_f1"]) == (0.5, 0.5)
    # nothing passes: the most probable phrase of each image
    assert rows[0.95]["phrases_per_study"] == 1


def test_a_row_has_the_measures_of_what_is_said(
    evaluated: EvaluationSet, found: Retrieved, reference: SystemOutput
) -> None:
    (row,) = [row for row in sweep(evaluated, found, reference, 0.5) if row["in_use"]]
    said = spoken_in(evaluated, "study", found.above(0.5).texts()["study"])
    expected = label_measures(reference.findings, said.findings, "findings_").values()
    assert {name: row[name] for name in expected} == expected
    assert set(row) == {"threshold", "in_use", "phrases_per_study", *expected}


def test_phrases_are_retrieved_low_enough_for_every_row() -> None:
    assert lowest(0.4) == THRESHOLDS[0]
    assert lowest(0.01) == 0.01


def test_the_table_points_out_the_threshold_in_use(
    evaluated: EvaluationSet, found: Retrieved, reference: SystemOutput
) -> None:
    table = sweep_table(sweep(evaluated, found, reference, 0.33))
    assert [row[0] for row in table.rows if "use" in row[0]] == ["0.33 (in use)"]
    assert len(table.rows) == len(THRESHOLDS) + 1
    assert {len(row) for row in table.rows} == {len(table.header)}
    (row,) = [row for row in table.rows if row[0] == "0.1"]
    assert row[1:5] == ["2.50", "0.500", "0.333", "1.000"]
    assert "quoted: the paper's example-based CheXbert F1 is largest at 0.4" in table.note
    findings, phrases = table.charts
    assert (findings.mark, findings.marked) == (0.33, "in use, 0.33")
    assert list(findings.lines) == ["micro-F1", "micro-precision", "micro-recall", "macro-F1", "example-F1"]
    assert phrases.lines["phrases a study"][1] == 2.5
