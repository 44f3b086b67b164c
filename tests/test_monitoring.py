from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from rarrg import monitoring
from rarrg.grouping import PhraseGroups
from rarrg.metrics.findings import positive_findings
from rarrg.monitoring import (
    PhraseTable,
    Validation,
    choose_offset,
    choose_threshold,
    figures,
    matched_cosine,
    query_usage,
    sweep,
)

NONE = np.nan


@pytest.fixture
def table() -> PhraseTable:
    embeddings = np.array([[1, 0], [0, 1], [0, -1], [0.96, 0.28]], dtype=np.float32)
    findings = np.array([[1, 0], [0, 1], [0, 1], [1, 1]], dtype=bool)
    return PhraseTable(["a", "b", "c", "d"], embeddings, findings)


@pytest.fixture
def validation() -> Validation:
    """Two images of three queries; no query of the second passes 0.4."""
    return Validation(
        logits=torch.logit(torch.tensor([[0.9, 0.6, 0.1], [0.3, 0.2, 0.1]])),
        cosines=np.array([[0.5, NONE, 0.3], [NONE, 0.7, NONE]], dtype=np.float32),
        retrieved=np.array([[0, 0, 1], [2, 1, 3]]),
        similarities=np.ones((2, 3), dtype=np.float32),
        references=[np.array([0, 3]), np.array([1])],
    )


def test_figures_by_hand(validation: Validation, table: PhraseTable) -> None:
    assert matched_cosine(validation) == pytest.approx(0.5)
    # The first image retrieves a twice, the second c by its most probable query, which is no selected one.
    assert figures(validation, table, 0.4) == pytest.approx(
        {
            "selection_precision": 1 / 2,
            "selection_recall": 1 / 3,
            "selection_f1": 2 / 5,
            "phrases_per_image": 1,
            "phrase_precision": 1 / 2,
            "phrase_recall": 2 / 3,
            "findings_micro_f1": 4 / 5,
            "findings_macro_f1": (1 + 2 / 3) / 2,
            "distinct_phrases": 2,
            "distinct_reports": 2,
        }
    )


def test_nothing_selected_is_0_and_each_image_still_retrieves_one(validation: Validation, table: PhraseTable) -> None:
    found = figures(validation, table, 0.95)
    assert [found[f"selection_{name}"] for name in ("precision", "recall", "f1")] == [0, 0, 0]
    assert found["phrases_per_image"] == 1


def test_the_same_phrases_for_every_image_are_one_report(validation: Validation, table: PhraseTable) -> None:
    collapsed = dataclasses.replace(validation, retrieved=np.array([[0, 1, 0], [1, 0, 1]]))
    found = figures(collapsed, table, 0.05)
    assert (found["distinct_phrases"], found["distinct_reports"]) == (2, 1)


def test_the_sweep_has_the_figures_of_each_threshold(validation: Validation, table: PhraseTable) -> None:
    rows = sweep(validation, table)
    assert [row["threshold"] for row in rows] == pytest.approx(np.arange(0.05, 0.96, 0.05))
    assert {"threshold": 0.4} | figures(validation, table, 0.4) == rows[7]
    assert [row["phrases_per_image"] for row in rows[:3:2]] == [2.5, 1.5]  # a b and b c d, then a and b c


def test_the_chosen_threshold_has_the_best_findings_of_studies_in_the_mean_of_thresholds_nearby(
    table: PhraseTable,
) -> None:
    # Two studies of two images; phrase 0 affirms the first finding, 1 the second, 4 none.
    table = PhraseTable([*table.texts, "e"], np.zeros((5, 2)), np.vstack([table.findings, [False, False]]))
    validation = Validation(
        logits=torch.logit(torch.tensor([[0.9, 0.4525], [0.9, 0.1], [0.9, 0.3525], [0.9, 0.1]])),
        cosines=np.full((4, 2), 0.5, dtype=np.float32),
        retrieved=np.array([[4, 0], [4, 4], [4, 1], [4, 4]]),
        similarities=np.ones((4, 2), dtype=np.float32),
        references=[np.array([0]), np.array([0]), np.array([4]), np.array([4])],
    )
    # Above 0.45 nothing is found, from 0.355 to 0.45 the first finding, below that the second too, which is wrong.
    # 0.39 is the highest from which 0.06 upwards still finds something.
    assert choose_threshold(validation, table, ["a", "a", "b", "b"]) == 0.39
    # As one study, finding it in one image is enough, and the second finding is wrong all the same.
    assert choose_threshold(validation, table, ["a"] * 4) == 0.39
    # Views together: 0.4525 and 0.1 are 0.276 for both images of the study, which retrieve phrases 0 and 4.
    assert choose_threshold(validation, table, ["a", "a", "b", "b"], together=True) == 0.215
    # Where nothing is to be found, the strictest threshold says least.
    assert (
        choose_threshold(dataclasses.replace(validation, references=[np.array([4])] * 4), table, list("aabb")) == 0.95
    )


def test_with_the_offset_other_queries_retrieve_as_many_phrases_as_reports_have() -> None:
    # Query 0 stands for a finding, which phrase 0 affirms; queries 1 and 2, of phrases 1 to 3, do not.
    validation = Validation(
        logits=torch.logit(torch.tensor([[0.4, 0.6975, 0.1], [0.4, 0.5975, 0.2975], [0.4, 0.4975, 0.1]])),
        cosines=np.full((3, 3), 0.5, dtype=np.float32),
        retrieved=np.array([[0, 1, 2], [0, 1, 1], [0, 2, 3]]),
        similarities=np.ones((3, 3), dtype=np.float32),
        references=[np.array([0, 1]), np.array([0, 1, 1]), np.array([0])],
    )
    groups = PhraseGroups(np.zeros((3, 2), np.float32), np.array([0, -1, -1]), np.array([0, 1, 1, 2]))
    studies = ["a", "a", "b"]

    def offset_to(candidate: float) -> float:
        return float(np.log(0.3 / 0.7) - np.log(candidate / (1 - candidate)))

    # Reports have 2 other phrases. Up to 0.495 images retrieve 3, up to 0.595 2, up to 0.695 1.
    offset = choose_offset(validation, groups, 0.3, studies)
    assert offset == pytest.approx(offset_to(0.595))
    moved = dataclasses.replace(validation, logits=validation.logits + offset * torch.from_numpy(~groups.findings))
    assert moved.retrieves(0.3).tolist() == [[True, True, False], [True, True, False], [True, False, False]]
    # Together, both images of study a have 0.6475 and 0.1988.
    assert choose_offset(validation, groups, 0.3, studies, together=True) == pytest.approx(offset_to(0.645))
    # Longer reports let less probable queries speak; what an image retrieves twice counts once.
    longer = dataclasses.replace(validation, references=[np.arange(3), np.arange(2), np.arange(3)])
    assert choose_offset(longer, groups, 0.3, studies) == pytest.approx(offset_to(0.095))
    # None wanted, none retrieved from 0.7 on; of thresholds that do as well, the highest.
    none = dataclasses.replace(validation, references=[np.array([0])] * 3)
    assert choose_offset(none, groups, 0.3, studies) == pytest.approx(offset_to(0.95))


def test_use_of_queries_by_hand(validation: Validation) -> None:
    assert query_usage(validation, 0.4) == [
        {"query": 0, "selected": 1.0, "distinct_phrases": 2},
        {"query": 1, "selected": 0.5, "distinct_phrases": 1},
        {"query": 2, "selected": 0.0, "distinct_phrases": 0},
    ]


def test_a_phrase_that_was_not_looked_up_is_refused(validation: Validation, table: PhraseTable) -> None:
    partly = dataclasses.replace(validation, retrieved=np.array([[0, 0, -1], [2, -1, -1]]))
    assert figures(partly, table, 0.4) == figures(validation, table, 0.4)
    with pytest.raises(ValueError, match=r"as low as 0\.05"):
        figures(partly, table, 0.05)


def test_batches_join_in_their_order(validation: Validation, table: PhraseTable) -> None:
    parts = [
        Validation(
            validation.logits[[i]],
            validation.cosines[[i]],
            validation.retrieved[[i]],
            validation.similarities[[i]],
            [validation.references[i]],
        )
        for i in range(2)
    ]
    joined = Validation.join(parts)
    assert figures(joined, table, 0.4) == figures(validation, table, 0.4)
    assert [rows.tolist() for rows in joined.references] == [[0, 3], [1]]


def test_phrases_are_labelled_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["cardiomegaly", "no pleural effusion", "left pleural effusion", "displaced rib fracture", "clear lungs"]
    monkeypatch.setattr(monitoring, "LABELLED_AT_ONCE", 2)
    table = PhraseTable.of(texts, np.eye(5, dtype=np.float32))
    assert np.array_equal(table.findings, positive_findings(texts))
    assert table.findings.any(axis=1).tolist() == [True, False, True, True, False]
    merged = table.findings_of([np.array([0, 1]), np.array([1, 4]), np.array([2, 3])])
    assert merged.sum(axis=1).tolist() == [1, 0, 2]
