"""The reports that ``rarrg evaluate`` writes of what a model retrieved, and their scores.

The output folder gets ``reports.jsonl`` and ``report_scores/``; with a language model also ``reports_joined.jsonl`` and
``report_scores_joined/``, of the same phrases without it (RA-RRG, Table 6).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from tqdm.auto import tqdm

from rarrg.artifacts import write_jsonl
from rarrg.cost import Writing
from rarrg.data.evaluation_set import EvaluationSet
from rarrg.metrics.findings import label_findings
from rarrg.pipeline import ReportGenerator
from rarrg.protocols import Protocol
from rarrg.report.as_json import report_to_json
from rarrg.report.study import Retrieval, StudyRetrieval, by_view
from rarrg.report.writing import JoinWriter
from rarrg.report_files import read_report_file
from rarrg.score_tables import Table
from rarrg.scorers import Scorers
from rarrg.scoring import OF_EVALUATION, SCORES, score_samples

SCORES_OF_REPORTS, SCORES_OF_JOINED = OF_EVALUATION, f"{OF_EVALUATION}_joined"
_TOKENS = ("prompt_tokens", "completion_tokens")


def looked_at(
    generator: ReportGenerator, evaluated: EvaluationSet, found: Sequence[Retrieval]
) -> list[tuple[str, StudyRetrieval]]:
    """What each study retrieved, as its report is written from it.

    Args:
        generator: The model.
        evaluated: The studies.
        found: What each image retrieved.
    """
    studies = []
    for index, images in evaluated.members["study"]:
        views = [(evaluated.views[image], found[image]) for image in images]
        study = by_view([(view.position, str(view.path), retrieval) for view, retrieval in views])
        studies.append((evaluated.studies[index].id, generator.resolved(study)))
    return studies


def write_reports(
    generator: ReportGenerator, studies: Sequence[tuple[str, StudyRetrieval]], out: Path, timed: bool
) -> Writing:
    """Write the report of each study into ``reports.jsonl``.

    Args:
        generator: The model, with its writer.
        studies: Of :func:`looked_at`.
        out: The output folder of the evaluation.
        timed: Every reply will be asked for, so that the time is that of writing.

    Raises:
        RarrgError: The language model cannot be had.
    """
    tokens: Counter[str] = Counter()

    def written() -> Iterator[dict[str, Any]]:
        reports = generator.write(studies)
        for name, report in tqdm(reports, total=len(studies), desc="writing reports", unit="report", delay=2):
            tokens.update({kind: report.writer[kind] for kind in _TOKENS if kind in report.writer})
            yield {"id": name, **report_to_json(report)}

    start = perf_counter()
    write_jsonl(out / "reports.jsonl", written())
    seconds = perf_counter() - start
    settings = generator.writer.settings
    read, said = (tokens[kind] / len(studies) if kind in tokens else None for kind in _TOKENS)
    return Writing(settings.get("model", settings["name"]), seconds / len(studies) if timed else None, read, said)


def score_reports(
    generator: ReportGenerator,
    studies: Sequence[tuple[str, StudyRetrieval]],
    protocol: Protocol,
    scorers: Scorers,
    out: Path,
    say: Callable[[str], None],
    draws: int,
    seed: int,
    more: Sequence[Table],
) -> None:
    """Score the reports of :func:`write_reports` by the protocol.

    Args:
        generator: The model, with its writer.
        studies: What they were written from; the studies have the ids of the protocol's samples.
        protocol: What the reports are measured against. Samples without a readable image have no report.
        scorers: What the reports are measured with beside their texts.
        out: The output folder of the evaluation.
        say: Takes each line meant for the user.
        draws: Bootstrap resamples.
        seed: Their seed.
        more: Tables of the page after those of the scores.

    Raises:
        RarrgError: RadGraph cannot be had.
    """
    before = None
    for leftover in (out / "reports_joined.jsonl", out / SCORES_OF_JOINED / SCORES):  # of an earlier run
        leftover.unlink(missing_ok=True)
    if generator.writer.settings["name"] != "join":
        say("\nbefore the language model: the phrases joined")
        write_jsonl(out / "reports_joined.jsonl", _joined(generator, studies))
        before = out / SCORES_OF_JOINED
        _score(out / "reports_joined.jsonl", before, protocol, scorers, say, draws, seed)
    say("\nreports")
    _score(out / "reports.jsonl", out / SCORES_OF_REPORTS, protocol, scorers, say, draws, seed, before, more)


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
    more: Sequence[Table] = (),
) -> None:
    # Unreadable images are listed and limited before; a report less is no mistake here.
    score_samples(protocol, read_report_file(reports), scorers, out, say, 1.0, draws, seed, before, more)
