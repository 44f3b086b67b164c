"""Reports of a list of studies from a Ray cluster: ids and paths out, reports back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from rarrg.cluster import Cluster, Row, Work
from rarrg.errors import ImageError
from rarrg.pipeline import ReportGenerator
from rarrg.study_list import ListedStudy
from rarrg.study_stages import report_each

BATCH = 16
"""Studies of a batch: enough for the stages of a worker to overlap, few enough to lose at a crash."""


def reports_on_ray(
    cluster: Cluster, load: Callable[[], ReportGenerator], studies: Iterable[ListedStudy], gpus: int
) -> Iterator[tuple[str, dict[str, Any] | ImageError]]:
    """Write the reports of studies on a cluster.

    Args:
        cluster: Does the work.
        load: Loads the model there.
        studies: Their images must have the same paths there.
        gpus: GPUs that a model needs, where the cluster has any.

    Yields:
        Each id with its report as JSON has it, or with what is wrong with one of its images; in the order given.

    Raises:
        RarrgError: The model, its store or the language model cannot be had on a machine of the cluster.
    """
    waiting: deque[str] = deque()

    def rows() -> Iterator[Row]:
        for study in studies:
            waiting.append(study.id)
            yield {"id": study.id, "frontal": list(map(str, study.frontal)), "lateral": list(map(str, study.lateral))}

    for result in cluster.map(rows(), partial(_worker, load), BATCH, gpus):
        yield waiting.popleft(), result["report"] if "report" in result else ImageError(result["error"])


def _worker(load: Callable[[], ReportGenerator]) -> Work:
    generator = load()

    def work(rows: list[Row]) -> list[Row]:
        studies = [(row["id"], row["frontal"], row["lateral"]) for row in rows]
        made = dict(report_each(generator, studies))
        found = [made[row["id"]] for row in rows]
        return [{"error": str(each)} if isinstance(each, ImageError) else {"report": each} for each in found]

    return work
