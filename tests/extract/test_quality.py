"""Counts of what became of an LLM's phrases."""

from __future__ import annotations

from rarrg.extract.quality import Quality
from rarrg.extract.refine import refine
from rarrg.metrics.findings import label_findings

REPORT = "Stable cardiomegaly. No pneumothorax. Small left effusion."


def test_counts_and_disagreements_by_hand():
    quality = Quality()
    said = ["stable cardiomegaly", "pneumothorax", "unchanged from prior", "emphysema", "no left effusion"]
    rows = quality.add(said, refine(said, REPORT, (), label_findings), REPORT, label_findings)
    # Kept: cardiomegaly. Two phrases compare; one is put right, the other leaves.
    assert quality.as_dict() == {
        "reports": 1,
        "without_phrases": 0,
        "said": 5,
        "kept": 1,
        "comparing_before": 2,
        "comparing_after": 0,
        "repaired": 1,
        "removed": {"comparison": 1, "unsupported": 1, "negation": 2, "certainty": 0, "mark": 0},
        "flagged": 0,
        "findings": 3,
        "turned": 0,
        "lost": 2,
    }
    assert rows == [
        {"observation": "Pneumothorax", "report": "negative", "phrases": "blank"},
        {"observation": "Pleural Effusion", "report": "positive", "phrases": "blank"},
    ]
    assert any("2 before, 0 after" in line for line in quality.lines())


def test_a_finding_that_phrases_state_the_other_way_round():
    said = ["no left effusion"]
    quality = Quality()
    refined = refine(said, REPORT, (), label_findings, keep_unsupported=True)
    rows = quality.add(said, refined, REPORT, label_findings)
    assert (quality.turned, quality.lost, quality.flagged) == (1, 2, 1)
    assert {"observation": "Pleural Effusion", "report": "positive", "phrases": "negative"} in rows
    assert any("1 kept all the same" in line for line in quality.lines())


def test_counts_of_parts_add_up():
    parts = [Quality(), Quality()]
    whole = Quality()
    for number, said in enumerate((["stable cardiomegaly", "emphysema"], ["pneumothorax", "small left effusion"])):
        for quality in (parts[number], whole):
            quality.add(said, refine(said, REPORT, (), label_findings), REPORT, label_findings)
    assert Quality.sum([part.as_dict() for part in parts]) == whole


def test_a_report_that_keeps_nothing_is_counted():
    quality = Quality()
    quality.add(
        ["emphysema"], refine(["emphysema"], "Clear lungs.", (), label_findings), "Clear lungs.", label_findings
    )
    assert (quality.reports, quality.without_phrases, quality.kept) == (1, 1, 0)
    assert Quality().lines()  # of nothing at all
