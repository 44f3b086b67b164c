"""Everything that can be measured of generated reports against references, in one table.

From the texts alone: BLEU and ROUGE-L, comparison terms, and the findings of the rule-based labeler, which are not
CheXbert's. CheXbert's classes and RadGraph's annotations come from the caller, who has the models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rarrg.metrics.bootstrap import Difference, Estimate
from rarrg.metrics.chexbert import chexbert_labels, chexbert_measures
from rarrg.metrics.classification import LabelScore, label_measures, per_label
from rarrg.metrics.comparison_terms import comparison_measures
from rarrg.metrics.findings import OBSERVATIONS, positive_findings
from rarrg.metrics.measured import Measured
from rarrg.metrics.nlg import first_words, nlg_measures, tokenise
from rarrg.metrics.radgraph_f1 import Annotation, radgraph_measures

Annotations = Sequence[Annotation | None]

_HOW = {
    "chexbert": "label references and reports by rarrg.models.chexbert.load_chexbert and give both as chexbert",
    "radgraph": "annotate references and reports by RadGraph (model_type radgraph) and give both as radgraph",
    "radgraph_lower": "annotate both again, lower-cased, and give them as radgraph_lower",
}


@dataclass(frozen=True)
class Row:
    """A measure of the table.

    Attributes:
        measure: Its name.
        estimate: Its value and 95 % interval; None where it was not computed.
        reports: Number of reports it is over.
        note: How to get it where it was not computed, or what it leaves out; empty otherwise.
    """

    measure: str
    estimate: Estimate | None
    reports: int
    note: str


@dataclass(frozen=True)
class ReportScores:
    """What generated reports are worth against references.

    Attributes:
        rows: The table; a row for each measure, and one for each kind that was not computed.
        per_sample: Scores of each report, float64 ``[reports]`` by measure, those outside ``where`` included; NaN where
            one was not measured.
        labels: Scores of each observation over ``where``: ``findings`` of 13, and ``chexbert`` of 14 if it was given.
        measured: The measures by kind, from which :func:`compare_reports` takes them.
        where: The reports that rows and labels are over, bool ``[reports]``.
        groups: Group of each report; intervals resample those of one together.
    """

    rows: list[Row]
    per_sample: dict[str, np.ndarray]
    labels: dict[str, list[LabelScore]]
    measured: dict[str, Measured]
    where: np.ndarray
    groups: Sequence[str]


def score_reports(
    references: Sequence[str],
    hypotheses: Sequence[str],
    *,
    chexbert: tuple[np.ndarray, np.ndarray] | None = None,
    radgraph: tuple[Annotations, Annotations] | None = None,
    radgraph_lower: tuple[Annotations, Annotations] | None = None,
    reference_words: int | None = None,
    where: np.ndarray | None = None,
    groups: Sequence[str] | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> ReportScores:
    """Measure generated reports against references.

    Args:
        references: What was written of each study, as it was written.
        hypotheses: What was generated for it.
        chexbert: CheXbert's classes of references and of reports, integers ``[reports, 14]`` each.
        radgraph: RadGraph's annotations of references and of reports; None for a text that has none.
        radgraph_lower: The same of the lower-cased texts.
        reference_words: Cut references after so many tokens, as PromptMRG does (100). Classes and annotations must then
            be of references that :func:`rarrg.metrics.nlg.first_words` cut alike.
        where: Reports that table and labels are over, bool ``[reports]``, as those whose reference no training study
            has word for word; None for all.
        groups: What each report is of, as its patient: intervals resample reports of one group together. None for
            independent reports.
        draws: Resamples of the intervals.
        seed: Seed of the resamples.

    Raises:
        ValueError: Lengths or shapes differ, ``where`` takes no report, ``reference_words`` is below 1, or classes or
            annotations are not of their form.
    """
    taken = np.ones(len(references), dtype=bool) if where is None else np.asarray(where, dtype=bool)
    if not len(references) == len(hypotheses) == len(taken) or not taken.any():
        raise ValueError(
            f"needs as many references ({len(references)}) as reports ({len(hypotheses)}) and places in where "
            f"({len(taken)}), and where must take at least one"
        )
    groups = [str(row) for row in range(len(references))] if groups is None else groups
    if reference_words is not None:
        references = [first_words(text, reference_words) for text in references]
    truth, found = positive_findings(references), positive_findings(hypotheses)
    measured = {
        "nlg": nlg_measures([tokenise(text) for text in references], [tokenise(text) for text in hypotheses]),
        "comparison": comparison_measures(hypotheses),
        "findings": label_measures(truth, found, "findings_"),
    }
    labels = {"findings": per_label(truth[taken], found[taken], OBSERVATIONS[:-1])}
    if chexbert is not None:
        measured["chexbert"] = chexbert_measures(*chexbert)
        measured["chexbert_uncertain"] = chexbert_measures(*chexbert, uncertain=True)
    for kind, sides in (("radgraph", radgraph), ("radgraph_lower", radgraph_lower)):
        if sides is not None:
            measured[kind] = radgraph_measures(*sides, prefix=f"{kind}_")
    for kind, each in measured.items():
        if len(each.terms) != len(taken):
            raise ValueError(f"{kind}: is of {len(each.terms)} reports, the texts are {len(taken)}")
    if chexbert is not None:
        labels["chexbert"] = chexbert_labels(*(np.asarray(classes)[taken] for classes in chexbert))
    return ReportScores(
        rows=[row for kind, each in measured.items() for row in _rows(kind, each, taken, groups, draws, seed)]
        + [Row(f"{kind}_*", None, 0, f"not computed: {how}") for kind, how in _HOW.items() if kind not in measured],
        per_sample={name: scores for each in measured.values() for name, scores in each.per_sample().items()},
        labels=labels,
        measured=measured,
        where=taken,
        groups=groups,
    )


def compare_reports(
    ours: ReportScores, theirs: ReportScores, draws: int = 1000, seed: int = 0
) -> dict[str, Difference]:
    """By how much a system is above another in every measure that both have, resampled alike.

    Measures that need annotations are over the reports that both systems have them of.

    Args:
        ours: Scores of the one system.
        theirs: Scores of the other, of the same studies in the same order and groups.
        draws: Resamples.
        seed: Seed of the resamples.

    Returns:
        Ours minus theirs, with 95 % interval and two-sided p-value. The p-values are not corrected for their number.

    Raises:
        ValueError: The two are not over the same reports.
    """
    if not np.array_equal(ours.where, theirs.where):
        raise ValueError("the two systems are scored over different reports")
    ahead: dict[str, Difference] = {}
    for kind, each in ours.measured.items():
        other = theirs.measured.get(kind)
        if other is not None and (each.present & other.present & ours.where).any():
            ahead |= each.differences(other, ours.where, ours.groups, draws, seed)
    return ahead


def _rows(kind: str, measured: Measured, where: np.ndarray, groups: Sequence[str], draws: int, seed: int) -> list[Row]:
    reports = int((measured.present & where).sum())
    if reports == 0:
        return [Row(f"{kind}_*", None, 0, "not computed: no report has an annotation on both sides")]
    absent = int(where.sum()) - reports
    note = f"{absent} of {int(where.sum())} reports lack an annotation and are left out" if absent else ""
    found = measured.estimates(where, groups, draws, seed)
    return [Row(name, estimate, reports, note) for name, estimate in found.items()]
