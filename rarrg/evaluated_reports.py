"""The reports that ``rarrg evaluate`` writes of what a model retrieved, and their scores.

The output folder gets ``reports.jsonl`` and ``report_scores/``; with a language model also ``reports_joined.jsonl`` and
``report_scores_joined/``, of the same phrases without it (RA-RRG, Table 6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from rarrg.artifacts import write_jsonl
from rarrg.data.evaluation_set import EvaluationSet
from rarrg.metrics.findings import label_findings
from rarrg.pipeline import ReportGenerator
from rarrg.protocols import Protocol
from rarrg.report.as_json import report_to_json
from rarrg.report.study import Retrieval, StudyRetrieval, by_view
from rarrg.report.writing import JoinWriter
from rarrg.report_files import read_report_file
from rarrg.scorers import Scorers
from rarrg.scoring import OF_EVALUATION, SCORES, score_samples

SCORES_OF_REPORTS, SCORES_OF_JOINED = OF_EVALUATION, f"{OF_EVALUATION}_joined"


def write_and_score(
    generator: ReportGenerator,
    evaluated: EvaluationSet,
    found: Sequence[Retrieval],
    protocol: Protocol,
    scorers: Scorers,
    out: Path,
    say: Callable[[str], None],
    draws: int,
    seed: int,
) -> None:
    """Write the report of each study from what its images retrieved, and score the reports by the protocol.

    Args:
        generator: The model, with its writer.
        evaluated: The studies, which have the ids of the protocol's samples.
        found: What each image retrieved.
        protocol: What the reports are measured against. Samples without a readable image have no report.
        scorers: What the reports are measured with beside their texts.
        out: The output folder of the evaluation.
        say: Takes each line meant for the user.
        draws: Bootstrap resamples.
        seed: Their seed.

    Raises:
        RarrgError: The language model or RadGraph cannot be had.
    """
    studies = list(_looked(generator, evaluated, found))
    written = tqdm(generator.write(studies), total=len(studies), desc="writing reports", unit="report", delay=2)
    write_jsonl(out / "reports.jsonl", ({"id": name, **report_to_json(report)} for name, report in written))
    before = None
    for leftover in (out / "reports_joined.jsonl", out / SCORES_OF_JOINED / SCORES):  # of an earlier run
        leftover.unlink(missing_ok=True)
    if generator.writer.settings["name"] != "join":
        say("\nbefore the language model: the phrases joined")
        write_jsonl(out / "reports_joined.jsonl", _joined(generator, studies))
        before = out / SCORES_OF_JOINED
        _score(out / "reports_joined.jsonl", before, protocol, scorers, say, draws, seed)
    say("\nreports")
    _score(out / "reports.jsonl", out / SCORES_OF_REPORTS, protocol, scorers, say, draws, seed, before)


def _looked(
    generator: ReportGenerator, evaluated: EvaluationSet, found: Sequence[Retrieval]
) -> Iterator[tuple[str, StudyRetrieval]]:
    for index, images in evaluated.members["study"]:
        views = [(evaluated.views[image], found[image]) for image in images]
        study = by_view([(view.position, str(view.path), retrieval) for view, retrieval in views])
        yield evaluated.studies[index].id, generator.resolved(study)


def _joined(generator: ReportGenerator, studies: Sequence[tuple[str, StudyRetrieval]]) -> Iterator[dict[str, Any]]:
    made_by = {"model": generator.model_reference, "store": generator.store_reference}
    for name, written in JoinWriter(label_findings).write(studies):
        yield {"id": name, "text": written.text, "writer": written.writer, **made_by}


def _score(
    reports: Path,
    out: Path,
    protocol: Protocol,
    scorers: Scorers,
    say: Callable[[str], None],
    draws: int,
    seed: int,
    before: Path | None = None,
) -> None:
    # Unreadable images are listed and limited before; a report less is no mistake here.
    score_samples(protocol, read_report_file(reports), scorers, out, say, 1.0, draws, seed, before)
