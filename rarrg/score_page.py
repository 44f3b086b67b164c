"""Scores beside the paper's tables, as a Markdown page.

The paper's figures are quoted (``templates/paper.json``). A table says so where its figures and ours are of different
samples and cannot be compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from rarrg.metrics.classification import LabelScore
from rarrg.protocols import EXPECTED

_environment = Environment(
    loader=PackageLoader("rarrg"), autoescape=False, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
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
class _Table:
    title: str
    note: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def page(scores: Mapping[str, Any], chexbert: Sequence[LabelScore], before: Mapping[str, Any] | None = None) -> str:
    """Write the page.

    Args:
        scores: What ``scores.json`` holds.
        chexbert: CheXbert's scores of each observation; empty where it was not run.
        before: ``scores.json`` of the same samples' reports before a language model wrote them.

    Returns:
        Markdown: a table for Tables 1 to 3 together, 4, 5, 6, 9 and 10 of the paper, as far as there are figures of
        ours for it, and one for what the paper does not have.
    """
    paper = json.loads((files("rarrg") / "templates" / "paper.json").read_text(encoding="utf-8"))
    measured = scores["scopes"]["all"]
    tables = [
        _headline(paper, scores),
        _terms(paper, scores),
        *([_levels(paper, scores)] if "chexbert_micro_f1" in measured or "radgraph_f1" in measured else []),
        *([_stages(paper, scores, before)] if before is not None else []),
        *([_labels(paper, scores, chexbert)] if chexbert else []),
        *([_examples(paper, scores)] if _shots(scores) else []),
        _others(scores),
    ]
    return _environment.get_template("scores.md.jinja").render(
        **scores, made_by=_made_by(scores), source=paper["source"], tables=tables
    )


def _made_by(scores: Mapping[str, Any]) -> list[str]:
    """What the reports say of their making, a line each."""
    lines = []
    for part, values in scores["reports"]["made_by"].items():
        for made in values:
            fields = dict(made) if isinstance(made, dict) else {"": made}
            if "sha256" in fields:
                fields["sha256"] = str(fields["sha256"])[:12]
            told = {name: fields[name] for name in ("", "name", "model", "examples", "sha256") if name in fields}
            lines.append(
                f"{part} of the reports: " + ", ".join(f"{name} {value}".strip() for name, value in told.items())
            )
    return lines


def comparable(scores: Mapping[str, Any], protocol: str) -> bool:
    """Whether the figures are of all the samples that the paper's figures of a protocol are of."""
    ours, reports = scores["protocol"], scores["reports"]
    whole = reports["missing"] == 0 and ours["samples"] == EXPECTED[protocol]
    return bool(ours["name"] == protocol and whole)


def _note(scores: Mapping[str, Any], quoted: Mapping[str, Any]) -> str:
    where = f"Table {quoted['table']}"
    if comparable(scores, quoted["protocol"]):
        return f"{where} is of the same samples ({quoted['protocol']})."
    theirs = f"{quoted['protocol']} ({EXPECTED[quoted['protocol']]} samples)"
    ours = f"{scores['reports']['scored']} samples of {scores['protocol']['name']}"
    return f"**Not comparable**: {where} is of {theirs}, ours of {ours}."


def _value(measured: Mapping[str, Any], name: str, scale: float = 1, digits: int = 3, interval: bool = False) -> str:
    if name not in measured:
        return "-"
    found = measured[name]
    plain = f"{scale * found['value']:.{digits}f}"
    ends = f" [{scale * found['low']:.{digits}f}, {scale * found['high']:.{digits}f}]"
    return plain + ends if interval else plain


def _headline(paper: Mapping[str, Any], scores: Mapping[str, Any]) -> _Table:
    rows = []
    for quoted in paper["headline"]:
        fits = "yes" if comparable(scores, quoted["protocol"]) else "not comparable"
        what = f"RA-RRG, quoted, Table {quoted['table']} ({quoted['protocol']})"
        rows.append([what, *(f"{quoted['values'][name]:.1f}" for name in _HEADLINE), fits])
    which = {"all": "ours", "unseen": "ours, unseen references"}
    for scope, measured in scores["scopes"].items():
        rows.append([which[scope], *(_value(measured, name, 100, 1, interval=True) for name in _HEADLINE), ""])
    header = ["", *_HEADLINE.values(), "same samples as ours"]
    return _Table("Tables 1 to 3: report generation", "In percent; 95 % intervals over samples.", header, rows)


def _terms(paper: Mapping[str, Any], scores: Mapping[str, Any]) -> _Table:
    measured, quoted = scores["scopes"]["all"], paper["terms"]
    rows = [
        [term, str(count), f"{rate:.2f}", _value(measured, f"comparison_count/{term}", digits=0),
         _value(measured, f"comparison_rate/{term}", 100, 2)]
        for term, (count, rate) in quoted["values"].items()
    ]  # fmt: skip
    header = ["term", "count, quoted", "reports in %, quoted", "count, ours", "reports in %, ours"]
    return _Table("Table 4: terms of comparison", _note(scores, quoted), header, rows)


def _levels(paper: Mapping[str, Any], scores: Mapping[str, Any]) -> _Table:
    measured, quoted = scores["scopes"]["all"], paper["levels"]
    figures = ("precision", "recall", "f1")
    rows = [
        [what, *(f"{value:.3f}" for value in quoted["values"][what]),
         *(_value(measured, f"{prefix}_{figure}") for figure in figures)]
        for what, prefix in _LEVELS.items()
    ]  # fmt: skip
    header = ["", *(f"{figure}, {side}" for side in ("quoted", "ours") for figure in figures)]
    return _Table("Table 5: entities and relations", _note(scores, quoted), header, rows)


def _stages(paper: Mapping[str, Any], scores: Mapping[str, Any], before: Mapping[str, Any]) -> _Table:
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
    return _Table("Table 6: before and after the language model", _note(scores, quoted), header, rows)


def _labels(paper: Mapping[str, Any], scores: Mapping[str, Any], chexbert: Sequence[LabelScore]) -> _Table:
    quoted = paper["labels"]
    rows = [
        [each.label, *(f"{value:.3f}" for value in quoted["values"][each.label]),
         *(f"{value:.3f}" for value in (each.f1, each.recall, each.precision, each.specificity, each.accuracy)),
         str(each.support)]
        for each in chexbert
    ]  # fmt: skip
    figures = ("F1", "recall", "precision", "specificity", "accuracy")
    header = ["", *(f"{figure}, {side}" for side in ("quoted", "ours") for figure in figures), "support, ours"]
    note = f"{_note(scores, quoted)} The paper's are of retrieval alone, without a language model."
    return _Table("Table 9: CheXbert by observation", note, header, rows)


def _shots(scores: Mapping[str, Any]) -> list[str]:
    """Numbers of in-context examples that the reports were written with."""
    return [str(each["examples"]) for each in scores["reports"]["made_by"].get("writer", []) if "examples" in each]


def _examples(paper: Mapping[str, Any], scores: Mapping[str, Any]) -> _Table:
    quoted, measured = paper["examples"], scores["scopes"]["all"]
    rows = [[f"{count}, quoted", *(f"{value:.1f}" for value in values)] for count, values in quoted["values"].items()]
    rows.append(
        [f"{', '.join(dict.fromkeys(_shots(scores)))}, ours", *(_value(measured, m, 100, 1) for m in _EXAMPLES)]
    )
    header = ["examples in the prompt", *(_HEADLINE[name] for name in _EXAMPLES)]
    return _Table("Table 10: in-context examples", _note(scores, quoted), header, rows)


def _others(scores: Mapping[str, Any]) -> _Table:
    scopes = scores["scopes"]
    rows = [
        [name, *(_value(measured, name, interval=True) for measured in scopes.values())]
        for name in _OTHERS
        if name in scopes["all"]
    ]
    note = "findings_* are of the rule-based labeler over 13 observations; they are not CheXbert's."
    return _Table("Measures that the paper does not have", note, ["", *scopes], rows)
