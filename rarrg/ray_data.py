"""What comes back from Ray Data: rows, or what went wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any


def rows_of(dataset: Any) -> Iterator[dict[str, Any]]:
    """Carry out what a dataset stands for and read its rows as they are ready, in the thread that asks for them.

    ``Dataset.iter_rows`` reads ahead in threads that it leaves behind when its reader stops early. One of them that
    touches Ray while the connection ends takes the process with it, without a word: Ray's ``core_worker_process.cc``
    calls that an access after the shutdown. Here nothing is left but what ends with the iterator.

    Args:
        dataset: A ``ray.data.Dataset``.

    Yields:
        The rows, in the order of the dataset's blocks.

    Raises:
        ray.exceptions.RayError: The work failed.
    """
    import ray
    from ray.data.block import BlockAccessor

    for bundle in dataset.iter_internal_ref_bundles():
        for block in ray.get(bundle.block_refs):
            yield from BlockAccessor.for_block(block).iter_rows(public_row_format=True)


def cause_of(error: Exception) -> str:
    """One line: the last error in what Ray says that is none of its own; it sends stacks as text, and advice after."""
    said = str(error)
    named = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception): .+", said, re.MULTILINE)
    causes = [each for each in named if not each.startswith("ray.")] or named or said.splitlines()[:1]
    return " ".join((causes or [type(error).__name__])[-1].split())
