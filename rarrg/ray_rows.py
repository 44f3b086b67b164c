"""The rows of a dataset of Ray Data, read in the thread that asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def ray_rows(dataset: Any) -> Iterator[dict[str, Any]]:
    """Carry out what a dataset stands for and read its rows as they are ready.

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
