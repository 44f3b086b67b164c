"""The steps of an extraction on a Ray cluster: reports out, rows back; files are written here alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

from rarrg.cluster import Cluster, Row, Work
from rarrg.extract.reports import ReportText
from rarrg.extract.stage import Do, Item

BATCH = 64
"""Reports of a batch: enough to keep a model busy, few enough to lose at a crash."""


def spread(cluster: Cluster, make: Callable[[], Do], gpus: int = 0) -> Do:
    """Work on items on a cluster.

    Args:
        cluster: Does the work.
        make: Loads what works on items, on the machine that works.
        gpus: GPUs that it needs, where the cluster has any.
    """

    def do(todo: Iterator[Item]) -> Iterator[tuple[Item, Row | str]]:
        waiting: deque[Item] = deque()

        def rows() -> Iterator[Row]:
            for item in todo:
                waiting.append(item)
                yield {"id": item.key, "report": vars(item.report), "phrases": item.phrases}

        for result in cluster.map(rows(), partial(_worker, make), BATCH, gpus):
            yield waiting.popleft(), result["outcome"]

    return do


def _worker(make: Callable[[], Do]) -> Work:
    do = make()

    def work(rows: list[Row]) -> list[Row]:
        items = [Item(row["id"], ReportText(**row["report"]), tuple(row["phrases"])) for row in rows]
        outcomes = {item.key: outcome for item, outcome in do(iter(items))}
        return [{"outcome": outcomes[item.key]} for item in items]

    return work
