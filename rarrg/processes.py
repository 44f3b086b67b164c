"""Several processes that train one model: who starts them, and which of them writes files.

The first process prepares everything; Lightning then starts the others, which run the same command from its beginning,
find all of it prepared, and end where training ends.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from lightning.pytorch.strategies import DDPStrategy, Strategy

# What Lightning sets when it starts processes; left behind, they would tell a later run that its own are started.
_VARIABLES = ("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def is_first() -> bool:
    """Whether this process writes files: every one but those that were started to share its batches."""
    return int(os.environ.get("LOCAL_RANK", "0")) == 0


def strategy_of(devices: int) -> str | Strategy:
    """Lightning's strategy for so many processes.

    Plain data parallelism: a decoder of 50 million parameters with its optimiser's state takes 0.8 GB, so that nothing
    would be gained by dealing it out (FSDP).
    """
    # Buffers are constants, the table of phrases among them: they must not be sent at every step.
    return DDPStrategy(broadcast_buffers=False, gradient_as_bucket_view=True) if devices > 1 else "auto"


@contextmanager
def shared_training(devices: int) -> Iterator[None]:
    """What training by several processes leaves behind is cleared away; all but the first end with it."""
    before = {name: os.environ.get(name) for name in _VARIABLES}
    yield
    if devices == 1:
        return
    first = is_first()
    torch.distributed.destroy_process_group()
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    if not first:
        raise SystemExit(0)
