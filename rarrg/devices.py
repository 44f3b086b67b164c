"""The processor or GPU that networks run on."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch

from rarrg.errors import RarrgError


def device_of(name: str) -> torch.device:
    """The device that a user names.

    Args:
        name: ``auto`` (a GPU if there is one), ``cpu``, ``cuda`` or ``cuda:INDEX``.

    Raises:
        RarrgError: There is no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    # torch has more devices, on which these networks do not run (meta, which holds no data, is one).
    if not re.fullmatch(r"cpu|cuda(:(0|[1-9][0-9]*))?", name):
        raise RarrgError(f"device {name}: is none of auto, cpu, cuda, cuda:INDEX")
    if name == "cpu":
        return torch.device(name)
    if not torch.cuda.is_available():
        raise RarrgError(f"device {name}: no GPU is available here; take cpu or auto")
    count = torch.cuda.device_count()
    if int(name.partition(":")[2] or 0) >= count:
        raise RarrgError(f"device {name}: the GPUs here are cuda:0 to cuda:{count - 1}")
    return torch.device(name)


def device_name(device: torch.device) -> str:
    """What a device is called: a GPU's name, or the processor's with the threads that torch uses."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{_processor()}, {threads} thread{'s' * (threads != 1)}"


def _processor() -> str:
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


@contextmanager
def encoder_threads(device: torch.device) -> Iterator[tuple[int, Callable[[], None]]]:
    """How many threads are to run frozen networks side by side, and what each of them calls before its first work.

    On a processor there are as many as torch has, each of which computes by itself: threads that share an image wait
    for each other at every layer, for long where another reads images. A GPU has one.

    Args:
        device: Where the networks run.
    """
    threads = torch.get_num_threads()
    try:
        yield threads if device.type == "cpu" else 1, partial(torch.set_num_threads, 1)
    finally:
        torch.set_num_threads(threads)  # what new threads start with is one number for the process
