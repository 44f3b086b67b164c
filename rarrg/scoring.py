"""``rarrg score``: reports of any system, measured by a protocol.

The output folder gets ``scores.json`` and ``scores.csv`` (every measure), ``labels.csv`` (each observation),
``per_sample.jsonl`` (scores of each report, no wording), ``terms.npz`` (what ``rarrg compare`` works on),
``unmatched.csv`` (reports without a sample, samples without a report), and ``report.md`` and ``report.html`` (beside
the paper's tables).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rarrg import __version__
from rarrg.artifacts import read_json, write_csv, write_json, write_jsonl, write_text
from rarrg.errors import RarrgError, require
from rarrg.metrics.report_scores import ReportScores, Row, score_reports
from rarrg.metrics.saved_terms import SavedTerms, write_terms
from rarrg.protocols import Protocol, ProtocolName, Sample, read_protocol
from rarrg.report_files import Reports, read_references, read_report_file
from rarrg.score_page import page
from rarrg.score_tables import Table, score_tables
from rarrg.scorers import HOW_TO_GET, ScorerConfig, Scorers
from rarrg.types import Split

SCORES, TERMS, PAGE = "scores.json", "terms.npz", "report"
OF_EVALUATION = "report_scores"
"""Where ``rarrg evaluate`` puts the scores of its reports, in its output folder."""

MAX_UNMATCHED = 0.01
"""Share of samples without a report, or of reports without a sample, that is let pass."""

TOKENS = "lower case, punctuation apart (rarrg.metrics.nlg.tokenise)"
SHOWN = (
    "chexbert_micro_f1",
    "chexbert_macro_f1",
    "chexbert_example_f1",
    "radgraph_f1",
    "rouge_l",
    "bleu_1",
    "bleu_4",
    "findings_micro_f1",
    "findings_macro_f1",
    "findings_example_f1",
    "comparison_rate",
)
"""Measures that are printed."""


@dataclass(frozen=True)
class ScoreData:
    """The data set that a protocol is made of.

    Args:
        root: Its folder; for iu-promptmrg and iu-r2gen that of the annotation file and the folder images.
        source: iu_xray or mimic_cxr, for studies; the other protocols have theirs.
    """

    root: Path | None = None
    source: Literal["iu_xray", "mimic_cxr"] = "iu_xray"


@dataclass(frozen=True)
class ScoreOptions(ScorerConfig):
    """What to score, and where the scores go.

    Args:
        reports: JSON Lines (id, text), CSV (id, report), JSON (id to report, or ReXrank's), or a folder of ID.txt.
        protocol: What is reported on: studies, mimic-single, mimic-multi, iu-promptmrg or iu-r2gen.
        data: The data set of the protocol.
        references: References in place of a protocol's, in any form of reports.
        split: Split of studies.
        out: Folder of the scores.
        allow_missing: Go on where many samples have no report, or many reports no sample; only pairs are scored.
        device: Where CheXbert runs: auto (a GPU if there is one), cpu, cuda or cuda:INDEX.
        draws: Bootstrap resamples.
        seed: Seed of the resamples.
    """

    reports: Path | None = None
    protocol: ProtocolName = "studies"
    data: ScoreData = field(default_factory=ScoreData)
    references: Path | None = None
    split: Split = "test"
    out: Path | None = None
    allow_missing: bool = False
    device: str = "cpu"
    draws: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.draws >= 1, "draws", "at least 1", self.draws)


def score(options: ScoreOptions, say: Callable[[str], None]) -> dict[str, Any]:
    """Run the ``score`` command.

    Args:
        options: What the user asked for.
        say: Takes each line meant for the user.

    Returns:
        What ``scores.json`` holds.

    Raises:
        RarrgError: Reports, data or weights are missing or do not fit.
    """
    if options.reports is None or options.out is None:
        raise RarrgError("name the reports and the folder of the scores: --reports FILE --out DIR")
    if (options.references is None) == (options.data.root is None):
        raise RarrgError("name either the data of the protocol (--data.root DIR) or references (--references FILE)")
    if options.references is not None and options.protocol != "studies":
        raise RarrgError(
            f"--protocol {options.protocol} is made of its data (--data.root DIR); references of a file are a protocol "
            "of their own, leave --protocol out"
        )
    reports = read_report_file(options.reports.expanduser())
    if options.references is not None:
        path = options.references.expanduser()
        samples = tuple(Sample(name, {}, text) for name, text in read_references(path).items())
        protocol = Protocol("references", samples, {"file": path.name})
    else:
        assert options.data.root is not None
        protocol = read_protocol(options.protocol, options.data.root.expanduser(), options.data.source, options.split)
    say(f"{protocol.name}: {len(protocol.samples)} samples, {len(reports.texts)} reports")
    limit = 1.0 if options.allow_missing else MAX_UNMATCHED
    scorers = Scorers(options, options.device)
    return score_samples(protocol, reports, scorers, options.out.expanduser(), say, limit, options.draws, options.seed)


def score_samples(
    protocol: Protocol,
    reports: Reports,
    scorers: Scorers,
    out: Path,
    say: Callable[[str], None],
    max_unmatched: float = MAX_UNMATCHED,
    draws: int = 1000,
    seed: int = 0,
    before: Path | None = None,
    more: Sequence[Table] = (),
) -> dict[str, Any]:
    """Score reports against a protocol's references and write the output folder.

    Args:
        protocol: The samples.
        reports: The reports by the samples' ids.
        scorers: What they are measured with beside their texts.
        out: The folder.
        say: Takes each line meant for the user.
        max_unmatched: Share of samples without a report, and of reports without a sample, that is let pass, in [0, 1].
        draws: Bootstrap resamples.
        seed: Their seed.
        before: Output folder of the same samples' reports before a language model wrote them, for the page.
        more: Tables of the page after those of the scores.

    Returns:
        What ``scores.json`` holds.

    Raises:
        RarrgError: Too much is unmatched, or nothing is left to score.
    """
    if warning := protocol.warning():
        say(warning)
    pairs, unmatched = _matched(protocol, reports)
    write_csv(out / "unmatched.csv", unmatched, ("id", "problem"))
    counts = {problem: sum(row["problem"] == problem for row in unmatched) for problem in ("missing", "surplus")}
    _refuse_unmatched(counts, protocol, reports, max_unmatched, out)
    references, texts = [sample.reference for sample, _ in pairs], [text for _, text in pairs]
    given = scorers.run(references, texts)
    seen = np.array([sample.seen for sample, _ in pairs])
    scopes = {"all": np.ones(len(pairs), dtype=bool)}
    if protocol.training_reports and not seen.all():
        scopes["unseen"] = ~seen
    groups = [sample.group for sample, _ in pairs]
    results = {
        scope: score_reports(references, texts, **given, where=where, groups=groups, draws=draws, seed=seed)
        for scope, where in scopes.items()
    }
    scores = {
        "protocol": {
            "name": protocol.name,
            "samples": len(protocol.samples),
            "settings": protocol.settings,
            "references_sha256": protocol.checksum(),
            "training_reports": protocol.training_reports,
        },
        "reports": {
            "scored": len(pairs),
            **counts,
            "empty": sum(not text for text in texts),
            "seen": int(seen.sum()),
            "made_by": reports.made_by,
        },
        "measured_with": {"rarrg": __version__, "tokens": TOKENS, "draws": draws, "seed": seed, **scorers.versions},
        "scopes": {scope: _as_json(result.rows) for scope, result in results.items()},
        "not_computed": _not_computed(given, results["all"].rows),
    }
    _write(out, scores, results, [sample.id for sample, _ in pairs], seen)
    chexbert = results["all"].labels.get("chexbert", [])
    own = score_tables(scores, chexbert, None if before is None else read_json(before / SCORES))
    shown = page(scores, [*own, *more])
    write_text(out / f"{PAGE}.md", shown.markdown)
    write_text(out / f"{PAGE}.html", shown.html)
    for line in (*summary(scores), f"written to {out}"):
        say(line)
    return scores


def summary(scores: Mapping[str, Any]) -> list[str]:
    """Lines of what was scored, of the main measures of each scope, and of what could not be computed.

    Args:
        scores: What ``scores.json`` holds.
    """
    counts = scores["reports"]
    lines = [
        f"scored {counts['scored']} reports, {counts['empty']} of them empty; {counts['missing']} samples have none, "
        f"{counts['surplus']} reports have no sample"
    ]
    for scope, measured in scores["scopes"].items():
        which = "" if scope == "all" else ": references that no training report says"
        lines += ["", f"{scope}{which}"]
        for name in (name for name in SHOWN if name in measured):
            value = measured[name]
            lines.append(f"  {name:20} {value['value']:.3f} [{value['low']:.3f}, {value['high']:.3f}]")
    if not scores["protocol"]["training_reports"]:
        lines.append("training reports are not known here, so there is no scope unseen")
    return [*lines, *(f"{name}: not computed; {how}" for name, how in scores["not_computed"].items())]


def _matched(protocol: Protocol, reports: Reports) -> tuple[list[tuple[Sample, str]], list[dict[str, str]]]:
    """Samples with their reports, and what has no counterpart."""
    pairs = [(sample, reports.texts[sample.id]) for sample in protocol.samples if sample.id in reports.texts]
    wanted = {sample.id for sample in protocol.samples}
    unmatched = [{"id": name, "problem": "missing"} for name in wanted - reports.texts.keys()]
    unmatched += [{"id": name, "problem": "surplus"} for name in reports.texts.keys() - wanted]
    return pairs, sorted(unmatched, key=lambda row: (row["problem"], row["id"]))


def _refuse_unmatched(counts: Mapping[str, int], protocol: Protocol, reports: Reports, limit: float, out: Path) -> None:
    missing, samples = counts["missing"], len(protocol.samples)
    surplus, given = counts["surplus"], len(reports.texts)
    if missing == samples:
        raise RarrgError(
            f"none of the {given} reports has the id of one of the {samples} samples: see {out}/unmatched.csv"
        )
    if missing > limit * samples or surplus > limit * given:
        raise RarrgError(
            f"{missing} of {samples} samples have no report and {surplus} of {given} reports no sample (see "
            f"{out}/unmatched.csv); --allow-missing scores the pairs that there are"
        )


def _not_computed(given: Container[str], rows: Iterable[Row]) -> dict[str, str]:
    """What the table lacks: how to get it, or why it could not be had."""
    lacking = {row.measure.removesuffix("_*"): row.note for row in rows if row.estimate is None}
    failed = {kind: note for kind, note in lacking.items() if kind in given}
    return {kind: how for kind, how in HOW_TO_GET.items() if kind not in given} | failed


def _as_json(rows: Iterable[Row]) -> dict[str, dict[str, Any]]:
    return {
        row.measure: {**row.estimate._asdict(), "reports": row.reports, **({"note": row.note} if row.note else {})}
        for row in rows
        if row.estimate is not None
    }


def _write(
    out: Path,
    scores: dict[str, Any],
    results: Mapping[str, ReportScores],
    ids: Sequence[str],
    seen: np.ndarray,
) -> None:
    everything = results["all"]
    write_json(out / SCORES, scores)
    rows = [
        {"scope": scope, "measure": name, "value": value["value"], "low": value["low"], "high": value["high"],
         "reports": value["reports"]}
        for scope, measured in scores["scopes"].items()
        for name, value in measured.items()
    ]  # fmt: skip
    write_csv(out / "scores.csv", rows, tuple(rows[0]))
    labels = [
        {"scope": scope, "labeler": labeler, **asdict(label)}
        for scope, result in results.items()
        for labeler, found in result.labels.items()
        for label in found
    ]
    write_csv(out / "labels.csv", labels, tuple(labels[0]))
    own = everything.per_sample
    write_jsonl(
        out / "per_sample.jsonl",
        (
            {"id": name, "seen": bool(seen[row])}
            | {key: None if math.isnan(values[row]) else float(values[row]) for key, values in own.items()}
            for row, name in enumerate(ids)
        ),
    )
    write_terms(out / TERMS, SavedTerms(ids, everything.groups, seen, everything.measured))
