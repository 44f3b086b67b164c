"""The table of all measures: what it holds, what it leaves out, and how two systems compare."""

from __future__ import annotations

import numpy as np
import pytest

from rarrg.metrics.chexbert import chexbert_measures
from rarrg.metrics.nlg import nlg_measures, tokenise
from rarrg.metrics.report_scores import ReportScores, compare_reports, score_reports

REFERENCES = [
    "Small left pleural effusion. Heart size is normal.",
    "No pneumothorax. The heart is enlarged.",
    "Lungs are clear.",
    "Left lower lobe consolidation.",
] * 3
HYPOTHESES = [
    "Small pleural effusion. Heart is normal.",
    "No pneumothorax. Stable normal heart.",
    "Lungs are clear.",
    "Right effusion, unchanged.",
] * 3
RNG = np.random.default_rng(0)
CLASSES = RNG.integers(0, 2, (2, 12, 14))
CLEAR = {"entities": {"1": {"tokens": "clear", "label": "OBS-DP", "relations": []}}}


def row(scores: ReportScores, measure: str):
    (found,) = [row for row in scores.rows if row.measure == measure]
    return found


def test_texts_alone_give_what_needs_no_model_and_say_how_to_get_the_rest():
    scores = score_reports(REFERENCES, HYPOTHESES, draws=200)
    named = {row.measure for row in scores.rows if row.estimate is not None}
    assert {"bleu_1", "bleu_4", "rouge_l", "comparison_rate", "comparison_count/stable"} <= named
    assert {"findings_micro_f1", "findings_macro_f1", "findings_example_f1"} <= named
    assert not any(name.startswith(("chexbert", "radgraph")) for name in named)
    assert all(row.reports == 12 and not row.note for row in scores.rows if row.estimate is not None)
    left = {row.measure: row.note for row in scores.rows if row.estimate is None}
    assert list(left) == ["chexbert_*", "radgraph_*", "radgraph_lower_*"]
    assert "not computed" in left["chexbert_*"]
    assert "load_chexbert" in left["chexbert_*"]
    assert "lower-cased" in left["radgraph_lower_*"]
    # Effusion and consolidation of 3 affirmed; effusion said in the place of consolidation.
    assert row(scores, "findings_micro_f1").estimate.value == pytest.approx(2 * 3 / (6 + 3 + 6))
    assert row(scores, "comparison_count").estimate.value == 6
    assert row(scores, "comparison_rate").estimate.value == pytest.approx(1 / 2)
    assert set(scores.labels) == {"findings"}


def test_nlg_is_of_tokenised_texts():
    estimate = row(score_reports(REFERENCES, HYPOTHESES, draws=100), "bleu_2").estimate
    tokenised = nlg_measures([tokenise(text) for text in REFERENCES], [tokenise(text) for text in HYPOTHESES])
    assert estimate.value == pytest.approx(tokenised.values()["bleu_2"])
    assert estimate.low < estimate.value < estimate.high


def test_classes_and_annotations_add_their_measures():
    annotations = [CLEAR] * 11 + [None], [None, *[CLEAR] * 11]
    none = [None] * 12, [None] * 12
    scores = score_reports(
        REFERENCES, HYPOTHESES, chexbert=tuple(CLASSES), radgraph=annotations, radgraph_lower=none, draws=50
    )
    expected = chexbert_measures(*CLASSES).values()["chexbert_micro_f1"]
    assert row(scores, "chexbert_micro_f1").estimate.value == pytest.approx(expected)
    assert row(scores, "chexbert_uncertain_micro_f1").estimate.value == pytest.approx(expected)  # none is uncertain
    found = row(scores, "radgraph_entity_f1")
    assert (found.estimate, found.reports) == ((1, 1, 1), 10)
    assert found.note == "2 of 12 reports lack an annotation and are left out"
    assert np.isnan(scores.per_sample["radgraph_f1"]).sum() == 2
    assert "no report has an annotation" in row(scores, "radgraph_lower_*").note
    assert [score.label for score in scores.labels["chexbert"]][-1] == "No Finding"


def test_every_report_has_its_own_scores():
    scores = score_reports(REFERENCES, HYPOTHESES, chexbert=tuple(CLASSES), draws=10)
    assert {len(column) for column in scores.per_sample.values()} == {12}
    assert scores.per_sample["rouge_l"][2] == 1
    assert scores.per_sample["findings_example_f1"][:4].tolist() == [1, 0, 0, 0]
    assert scores.per_sample["comparison_count"][:4].tolist() == [0, 1, 0, 1]
    assert not any("macro" in name or "micro" in name for name in scores.per_sample)


def test_where_leaves_reports_out_of_table_and_labels():
    where = np.array([text != "Lungs are clear." for text in REFERENCES])
    part = score_reports(REFERENCES, HYPOTHESES, chexbert=tuple(CLASSES), where=where, draws=50, seed=4)
    kept = np.flatnonzero(where)
    texts = ([side[at] for at in kept] for side in (REFERENCES, HYPOTHESES))
    alone = score_reports(*texts, chexbert=tuple(CLASSES[:, kept]), draws=50, seed=4)
    assert part.rows == alone.rows
    assert part.labels == alone.labels
    assert row(part, "rouge_l").reports == 9
    assert len(part.per_sample["rouge_l"]) == 12
    assert part.per_sample["rouge_l"][2] == 1


def test_references_can_be_cut():
    cut = score_reports(REFERENCES, HYPOTHESES, reference_words=5, draws=10)
    expected = score_reports(["Small left pleural effusion.", "No pneumothorax. The heart", "Lungs are clear.",
                              "Left lower lobe consolidation."] * 3, HYPOTHESES, draws=10)  # fmt: skip
    assert cut.rows == expected.rows


def test_two_systems_are_compared_in_what_both_have():
    ours = score_reports(REFERENCES, REFERENCES, radgraph=([CLEAR] * 12,) * 2, draws=10)
    theirs = score_reports(REFERENCES, HYPOTHESES, chexbert=tuple(CLASSES), draws=10)
    ahead = compare_reports(ours, theirs, draws=300)
    assert not any(name.startswith(("chexbert", "radgraph")) for name in ahead)
    found = ahead["rouge_l"]
    assert found.value == pytest.approx(1 - row(theirs, "rouge_l").estimate.value)
    assert 0 < found.low < found.value < found.high
    assert found.p_value == pytest.approx(2 / 301)
    same = compare_reports(theirs, theirs, draws=50)
    assert set(same.values()) == {(0, 0, 0, 1)}
    with pytest.raises(ValueError, match="different reports"):
        compare_reports(ours, score_reports(REFERENCES, HYPOTHESES, where=np.arange(12) < 6, draws=10))


@pytest.mark.parametrize(
    "given",
    [
        {"hypotheses": HYPOTHESES[:-1]},
        {"where": np.zeros(12, dtype=bool)},
        {"where": np.ones(11, dtype=bool)},
        {"chexbert": tuple(CLASSES[:, :5])},
        {"radgraph": ([CLEAR] * 5, [CLEAR] * 5)},
        {"reference_words": 0},
    ],
    ids=["hypotheses", "empty where", "short where", "classes", "annotations", "no words"],
)
def test_what_does_not_fit_is_refused(given):
    with pytest.raises(ValueError, match=r"at least|is of 5 reports"):
        score_reports(**{"references": REFERENCES, "hypotheses": HYPOTHESES, **given})
