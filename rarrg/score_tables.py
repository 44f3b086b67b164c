"""Scores beside the paper's tables.

The paper's figures are quoted (``templates/paper.json``). A table says so where its figures and ours are of different
samples and cannot be compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from rarrg.line_chart import Chart
from rarrg.metrics.classification import LabelScore
from rarrg.protocols import EXPECTED

NOT_COMPARABLE = "Not comparable"
_HEADLINE = {
    "chexbert_micro_f1": "CheXbert micro-F1",
    "chexbert_macro_f1": "CheXbert macro-F1",
    "chexbert_example_f1": "CheXbert example-F1",
    "radgraph_f1": "RadGraph F1",
    "rouge_l": "ROUGE-L",
    "bleu_1": "BLEU-1",
    "bleu_4": "BLEU-4",
}
_LEVELS = {
    "CheXbert, example-based": "chexbert_example",
    "RadGraph entity": "radgraph_entity",
    "RadGraph relation": "radgraph_relation",
}
JOINED = "E10"
"""The paper's experiment whose phrases are joined, and not written anew by a language model."""
_STAGES = ("micro_f1", "micro_recall", "micro_precision", "micro_specificity")
_EXAMPLES = ("chexbert_micro_f1", "chexbert_macro_f1", "radgraph_f1", "rouge_l", "bleu_1")
_OTHERS = (
    "findings_micro_f1",
    "findings_macro_f1",
    "findings_example_f1",
    "chexbert_uncertain_micro_f1",
    "chexbert_uncertain_macro_f1",
    "radgraph_lower_f1",
    "bleu_2",
    "bleu_3",
    "comparison_count",
    "comparison_rate",
)


@dataclass(frozen=True)
class Table:
    """A table of a page.

    Attributes:
        title: What it holds.
        note: What a reader must know of it.
        header: A name for each column.
        rows: Cells of each row.
        caution: A word of warning before the note; empty where none is called for.
        charts: The same figures as lines, where they are better seen than read.
    """

    title: str
    note: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caution: str = ""
    charts: Sequence[Chart] = ()


def paper_figures() -> dict[str, Any]:
    """The figures quoted from the paper."""
    quoted: dict[str, Any] = json.loads((files("rarrg") / "templates" / "paper.json").read_text(encoding="utf-8"))
    return quoted


def score_tables(
    scores: Mapping[str, Any], chexbert: Sequence[LabelScore], before: Mapping[str, Any] | None = None
) -> list[Table]:
    """The tables of scored reports.

    Args:
        scores: What ``scores.json`` holds.
        chexbert: CheXbert's scores of each observation; empty where it was not run.
        before: ``scores.json`` of the same samples' reports before a language model wrote them.

    Returns:
        A table for Tables 1 to 3 together, 4, 5, 6, 9 and 10 of the paper, as far as there are figures of ours for it,
        and one for what the paper does not have.
    """
    paper = paper_figures()
    measured = scores["scopes"]["all"]
    return [
        _headline(paper, scores),
        _terms(paper, scores),
        *([_levels(paper, scores)] if "chexbert_micro_f1" in measured or "radgraph_f1" in measured else []),
        *([_stages(paper, scores, before)] if before is not None else []),
        *([_labels(paper, scores, chexbert)] if chexbert else []),
        *([_examples(paper, scores)] if _shots(scores) else []),
        _others(scores),
    ]


def comparable(scores: Mapping[str, Any], protocol: str) -> bool:
    """Whether the figures are of all the samples that the paper's figures of a protocol are of."""
    ours, reports = scores["protocol"], scores["reports"]
    whole = reports["missing"] == 0 and ours["samples"] == EXPECTED[protocol]
    return bool(ours["name"] == protocol and whole)


def _beside(
    title: str,
    scores: Mapping[str, Any],
    quoted: Mapping[str, Any],
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    more: str = "",
) -> Table:
    """A table of the paper's with ours in it, and whether the two can be compared."""
    where = f"Table {quoted['table']}"
    if comparable(scores, quoted["protocol"]):
        return Table(title, f"{where} is of the same samples ({quoted['protocol']}).{more}", header, rows)
    theirs = f"{quoted['protocol']} ({EXPECTED[quoted['protocol']]} samples)"
    ours = f"{scores['reports']['scored']} samples of {scores['protocol']['name']}"
    return Table(title, f"{where} is of {theirs}, ours of {ours}.{more}", header, rows, NOT_COMPARABLE)


def _value(measured: Mapping[str, Any], name: str, scale: float = 1, digits: int = 3, interval: bool = False) -> str:
    if name not in measured:
        return "-"
    found = measured[name]
    plain = f"{scale * found['value']:.{digits}f}"
    ends = f" [{scale * found['low']:.{digits}f}, {scale * found['high']:.{digits}f}]"
    return plain + ends if interval else plain


def _headline(paper: Mapping[str, Any], scores: Mapping[str, Any]) -> Table:
    rows = []
    for quoted in paper["headline"]:
        fits = "yes" if comparable(scores, quoted["protocol"]) else "not comparable"
        what = f"RA-RRG, quoted, Table {quoted['table']} ({quoted['protocol']})"
        rows.append([what, *(f"{quoted['values'][name]:.1f}" for name in _HEADLINE), fits])
    ablation = paper["ablation"]
    fits = "yes" if comparable(scores, ablation["protocol"]) else "not comparable"
    joined = f"phrases joined, quoted, Table {ablation['table']}, {JOINED} ({ablation['protocol']})"
    rows.append([joined, *(f"{ablation['values'][JOINED][name]:.1f}" for name in _HEADLINE), fits])
    which = {"all": "ours", "unseen": "ours, unseen references"}
    for scope, measured in scores["scopes"].items():
        rows.append([which[scope], *(_value(measured, name, 100, 1, interval=True) for name in _HEADLINE), ""])
    header = ["", *_HEADLINE.values(), "same samples as ours"]
    return Table("Tables 1 to 3: report generation", "In percent; 95 % intervals over samples.", header, rows)


def _terms(paper: Mapping[str, Any], scores: Mapping[str, Any]) -> Table:
    measured, quoted = scores["scopes"]["all"], paper["terms"]
    rows = [
        [term, str(count), f"{rate:.2f}", _value(measured, f"comparison_count/{term}", digits=0),
         _value(measured, f"comparison_rate/{term}", 100, 2)]
        for term, (count, rate) in quoted["values"].items()
    ]  # fmt: skip
    header = ["term", "count, quoted", "reports in %, quoted", "count, ours", "reports in %, ours"]
    return _beside("Table 4: terms of comparison", scores, quoted, header, rows)


def _levels(paper: Mapping[str, Any], scores: Mapping[str, Any]) -> Table:
    measured, quoted = scores["scopes"]["all"], paper["levels"]
    figures = ("precision", "recall", "f1")
    rows = [
        [what, *(f"{value:.3f}" for value in quoted["values"][what]),
         *(_value(measured, f"{prefix}_{figure}") for figure in figures)]
        for what, prefix in _LEVELS.items()
    ]  # fmt: skip
    header = ["", *(f"{figure}, {side}" for side in ("quoted", "ours") for figure in figures)]
    return _beside("Table 5: entities and relations", scores, quoted, header, rows)


def _stages(paper: Mapping[str, Any], scores: Mapping[str, Any], before: Mapping[str, Any]) -> Table:
    quoted = paper["stages"]
    named = {"before": "retrieval only", "after": "after generation"}
    rows = [[f"{named[stage]}, quoted", *(f"{value:.3f}" for value in quoted["values"][stage])] for stage in named]
    own = {"before": before["scopes"]["all"], "after": scores["scopes"]["all"]}
    for labeler in ("chexbert", "findings"):
        if f"{labeler}_micro_f1" in own["after"]:
            by = "" if labeler == "chexbert" else " (rule-based labeler, 13 observations, not CheXbert)"
            rows += [
                [f"{named[stage]}, ours{by}", *(_value(values, f"{labeler}_{name}") for name in _STAGES),
                 _value(values, "radgraph_f1")]
                for stage, values in own.items()
            ]  # fmt: skip
    header = ["", "micro-F1", "recall", "precision", "specificity", "RadGraph F1"]
    return _beside("Table 6: before and after the language model", scores, quoted, header, rows)


def _labels(paper: Mapping[str, Any], scores: Mapping[str, Any], chexbert: Sequence[LabelScore]) -> Table:
    quoted = paper["labels"]
    rows = [
        [each.label, *(f"{value:.3f}" for value in quoted["values"][each.label]),
         *(f"{value:.3f}" for value in (each.f1, each.recall, each.precision, each.specificity, each.accuracy)),
         str(each.support)]
        for each in chexbert
    ]  # fmt: skip
    figures = ("F1", "recall", "precision", "specificity", "accuracy")
    header = ["", *(f"{figure}, {side}" for side in ("quoted", "ours") for figure in figures), "support, ours"]
    alone = " The paper's are of retrieval alone, without a language model."
    return _beside("Table 9: CheXbert by observation", scores, quoted, header, rows, alone)


def _shots(scores: Mapping[str, Any]) -> list[str]:
    """Numbers of in-context examples that the reports were written with."""
    return [str(each["examples"]) for each in scores["reports"]["made_by"].get("writer", []) if "examples" in each]


def _examples(paper: Mapping[str, Any], scores: Mapping[str, Any]) -> Table:
    quoted, measured = paper["examples"], scores["scopes"]["all"]
    rows = [[f"{count}, quoted", *(f"{value:.1f}" for value in values)] for count, values in quoted["values"].items()]
    rows.append(
        [f"{', '.join(dict.fromkeys(_shots(scores)))}, ours", *(_value(measured, m, 100, 1) for m in _EXAMPLES)]
    )
    header = ["examples in the prompt", *(_HEADLINE[name] for name in _EXAMPLES)]
    return _beside("Table 10: in-context examples", scores, quoted, header, rows)


def _others(scores: Mapping[str, Any]) -> Table:
    scopes = scores["scopes"]
    rows = [
        [name, *(_value(measured, name, interval=True) for measured in scopes.values())]
        for name in _OTHERS
        if name in scopes["all"]
    ]
    note = "findings_* are of the rule-based labeler over 13 observations; they are not CheXbert's."
    return Table("Measures that the paper does not have", note, ["", *scopes], rows)
