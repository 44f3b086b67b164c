"""Stages of work on a sequence: one goes on in threads of its own while the results before are used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


def ahead(
    function: Callable[[Given], Made],
    items: Iterable[Given],
    workers: int = 1,
    depth: int = 2,
    prepare: Callable[[], None] | None = None,
) -> Iterator[Made]:
    """Apply a function to items ahead of their use.

    Stages are chained by taking one as the items of the next. Each then works on another item at the same time, and no
    more than the sum of their depths are held in memory, however slowly the results are used.

    Args:
        function: What to apply; an error that it raises is raised in the place of its result. Of chained stages, what
            later ones have under way then is lost.
        items: Drawn in the caller's thread, as results are.
        workers: Threads.
        depth: Items drawn and not yet used, at most; at least ``workers`` to keep all of them at work.
        prepare: Called in each thread before its first item.

    Yields:
        The results, in the order of the items.
    """
    source = iter(items)
    under_way: deque[Future[Made]] = deque()
    with ThreadPoolExecutor(workers, initializer=prepare) as pool:
        try:
            while True:
                under_way.extend(pool.submit(function, item) for item in islice(source, depth - len(under_way)))
                if not under_way:
                    return
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()
