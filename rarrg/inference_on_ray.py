"""Reports of a list of studies from a Ray cluster: ids and paths out, reports or retrieved phrases back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import Any

from rarrg.cluster import Cluster, Row, Work
from rarrg.errors import ImageError
from rarrg.pipeline import ReportGenerator
from rarrg.report.as_json import report_to_json
from rarrg.report.study import StudyRetrieval
from rarrg.study_list import ListedStudy
from rarrg.study_stages import look_each, report_each
from rarrg.types import Dropped, RetrievedPhrase

BATCH = 16
"""Studies of a batch: enough for the stages of a worker to overlap, few enough to lose at a crash."""

LOOKED = 32_768
"""Studies that are looked at before vLLM writes: as many as it is asked about at once."""


def reports_on_ray(
    cluster: Cluster, load: Callable[[], ReportGenerator], studies: Iterable[ListedStudy]
) -> Iterator[tuple[str, dict[str, Any] | ImageError]]:
    """Write the reports of studies on a cluster, by actors that each have the whole model.

    Args:
        cluster: Does the work.
        load: Loads the model there.
        studies: Their images must have the same paths there.

    Yields:
        Each id with its report as JSON has it, or with what is wrong with one of its images; in the order given.

    Raises:
        RarrgError: The model, its store or the language model cannot be had on a machine of the cluster.
    """
    yield from _each(cluster, partial(_reporting, load), studies)


def reports_of_vllm_on_ray(
    cluster: Cluster,
    load: Callable[[], ReportGenerator],
    generator: ReportGenerator,
    studies: Iterable[ListedStudy],
) -> Iterator[tuple[str, dict[str, Any] | ImageError]]:
    """Write the reports of studies with a language model in vLLM on a cluster.

    Actors retrieve the phrases of 32,768 studies and give their GPUs back; then vLLM's engines take them and write.

    Args:
        cluster: Does the work.
        load: Loads there what retrieves.
        generator: The same here; its writer asks vLLM on the cluster.
        studies: Their images must have the same paths there.

    Yields:
        Each id with its report as JSON has it, or with what is wrong with one of its images; as they are ready.

    Raises:
        RarrgError: The model, its store or the language model cannot be had on a machine of the cluster.
    """
    source = iter(studies)
    while some := list(islice(source, LOOKED)):
        looked: list[tuple[str, StudyRetrieval]] = []
        for name, found in _each(cluster, partial(_looking, load), some):
            if isinstance(found, ImageError):
                yield name, found
            else:
                looked.append((name, _retrieval(found)))
        for name, report in generator.write(looked):
            yield name, report_to_json(report)


def _each(
    cluster: Cluster, make: Callable[[], Work], studies: Iterable[ListedStudy]
) -> Iterator[tuple[str, Row | ImageError]]:
    """What actors make of each study, or what is wrong with one of its images."""
    waiting: deque[str] = deque()

    def rows() -> Iterator[Row]:
        for study in studies:
            waiting.append(study.id)
            yield {"id": study.id, "frontal": list(map(str, study.frontal)), "lateral": list(map(str, study.lateral))}

    for result in cluster.map(rows(), make, BATCH, gpus=1):
        yield waiting.popleft(), result["made"] if "made" in result else ImageError(result["error"])


def _reporting(load: Callable[[], ReportGenerator]) -> Work:
    generator = load()
    return lambda rows: _made(rows, dict(report_each(generator, _studies(rows))))


def _looking(load: Callable[[], ReportGenerator]) -> Work:
    generator = load()

    def work(rows: list[Row]) -> list[Row]:
        looked = look_each(generator, _studies(rows))
        return _made(rows, {name: each if isinstance(each, ImageError) else _row(each) for name, each in looked})

    return work


def _studies(rows: list[Row]) -> Iterator[tuple[str, list[str], list[str]]]:
    return ((row["id"], row["frontal"], row["lateral"]) for row in rows)


def _made(rows: list[Row], made: dict[str, Row | ImageError]) -> list[Row]:
    found = [made[row["id"]] for row in rows]
    return [{"error": str(each)} if isinstance(each, ImageError) else {"made": each} for each in found]


def _row(study: StudyRetrieval) -> Row:
    return {
        "phrases": {view: [asdict(phrase) for phrase in phrases] for view, phrases in study.phrases.items()},
        "images": study.images,
        "below_threshold": study.below_threshold,
        "dropped": [asdict(each) for each in study.dropped],
    }


def _retrieval(row: Row) -> StudyRetrieval:
    """What :func:`_row` was given."""
    return StudyRetrieval(
        {view: tuple(RetrievedPhrase(**each) for each in phrases) for view, phrases in row["phrases"].items()},
        {view: tuple(files) for view, files in row["images"].items()},
        tuple(row["below_threshold"]),
        tuple(
            Dropped(**{**each, "phrase": RetrievedPhrase(**each["phrase"]), "kept": RetrievedPhrase(**each["kept"])})
            for each in row["dropped"]
        ),
    )
