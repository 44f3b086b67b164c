"""What a report system is measured by, with bootstrap intervals over the studies.

A system is anything that gives each study key phrases, findings or both. All systems of a comparison are measured on
the same studies with the same resamples, so that differences between them have intervals too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rarrg.metrics import classification, phrases
from rarrg.metrics.bootstrap import Estimate, differences, estimate

FINDINGS_MEASURES = ("findings_micro_f1", "findings_macro_f1", "findings_example_f1")
PHRASE_MEASURES = ("phrase_precision", "phrase_recall", "phrase_f1")
COUNTS = ("distinct_phrases", "distinct_reports")
MEASURES = (*FINDINGS_MEASURES, *PHRASE_MEASURES, *COUNTS)


@dataclass(frozen=True)
class SystemOutput:
    """What a system says about each study.

    Attributes:
        findings: Positive findings, bool ``[studies, labels]``.
        phrases: Key phrases of each study; None for a system that gives findings alone.
    """

    findings: np.ndarray
    phrases: Sequence[Sequence[str]] | None


def measure(
    output: SystemOutput, reference: SystemOutput, embeddings: Mapping[str, np.ndarray], weights: np.ndarray
) -> dict[str, Estimate | None]:
    """Measure a system against the reference.

    ``distinct_phrases`` and ``distinct_reports`` count over the studies at hand; reports that say the same phrases in
    another order are one. A resample repeats studies, so it has no say on such counts: their ends are the value.

    Args:
        output: The system's.
        reference: What the reports say.
        embeddings: Unit embedding of every phrase of both.
        weights: Resamples ``[draws, studies]``.

    Returns:
        An estimate for each of ``MEASURES``; None where the system gives no phrases.
    """
    measured: dict[str, Estimate | None] = dict.fromkeys(MEASURES)
    confusion = classification.confusion(reference.findings, output.findings)
    example = classification.example_f1_terms(reference.findings, output.findings)
    measured["findings_micro_f1"] = estimate(confusion, classification.micro_f1, weights)
    measured["findings_macro_f1"] = estimate(confusion, classification.macro_f1, weights)
    measured["findings_example_f1"] = estimate(example, classification.mean, weights)
    if output.phrases is not None:
        assert reference.phrases is not None
        hits = phrase_terms(output.phrases, reference.phrases, embeddings)
        measured["phrase_precision"] = estimate(hits, phrases.precision, weights)
        measured["phrase_recall"] = estimate(hits, phrases.recall, weights)
        measured["phrase_f1"] = estimate(hits, phrases.f1, weights)
        counts = {
            "distinct_phrases": phrases.distinct(phrase for said in output.phrases for phrase in said),
            "distinct_reports": phrases.distinct(frozenset(said) for said in output.phrases),
        }
        measured |= {name: Estimate(count, count, count) for name, count in counts.items()}
    return measured


def lead(
    output: SystemOutput, other: SystemOutput, reference: SystemOutput, weights: np.ndarray
) -> dict[str, Estimate]:
    """By how much a system is ahead of another in micro- and macro-F1, with paired bootstrap intervals.

    Args:
        output: The system's.
        other: The other's, on the same studies.
        reference: What the reports say.
        weights: Resamples ``[draws, studies]``.
    """
    ours, theirs = (classification.confusion(reference.findings, each.findings) for each in (output, other))
    statistics = {"findings_micro_f1": classification.micro_f1, "findings_macro_f1": classification.macro_f1}
    return {
        name: Estimate(ahead.value, ahead.low, ahead.high)
        for name, ahead in differences(ours, theirs, statistics, weights).items()
    }


def phrase_terms(
    said: Sequence[Sequence[str]], reference: Sequence[Sequence[str]], embeddings: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Counts of :func:`rarrg.metrics.phrases.phrase_hits` for each study, int ``[studies, 4]``."""
    dim = len(next(iter(embeddings.values())))

    def stacked(texts: Sequence[str]) -> np.ndarray:
        return np.stack([embeddings[text] for text in texts]) if texts else np.zeros((0, dim), np.float32)

    return np.array([phrases.phrase_hits(stacked(a), stacked(b)) for a, b in zip(said, reference, strict=True)])
