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
    # Kept: cardiomegaly, no left effusion. Two phrases compare; one is put right, the other leaves.
    assert quality.as_dict() == {
        "reports": 1,
        "without_phrases": 0,
        "said": 5,
        "kept": 2,
        "comparing_before": 2,
        "comparing_after": 0,
        "repaired": 1,
        "removed": {"comparison": 1, "unsupported": 1, "negation": 1},
        "flagged": 0,
        "findings": 3,
        "turned": 1,
        "lost": 1,
    }
    assert rows == [
        {"observation": "Pneumothorax", "report": "negative", "phrases": "blank"},
        {"observation": "Pleural Effusion", "report": "positive", "phrases": "negative"},
    ]
    assert any("2 before, 0 after" in line for line in quality.lines())


def test_a_report_that_keeps_nothing_is_counted():
    quality = Quality()
    quality.add(
        ["emphysema"], refine(["emphysema"], "Clear lungs.", (), label_findings), "Clear lungs.", label_findings
    )
    assert (quality.reports, quality.without_phrases, quality.kept) == (1, 1, 0)
    assert Quality().lines()  # of nothing at all
