"""What the C library does with freed memory, and when Python looks for garbage."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def keep_freed_memory() -> None:
    """Tell glibc to keep blocks of up to 1 GiB for reuse instead of giving them back to the kernel.

    Tensors over 32 MiB are otherwise mapped and zeroed anew at every use. On two cores of a virtual machine that took
    half the time of the frozen encoders (20 against 45 images a second). Does nothing where the C library is another.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 2**30)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


@contextmanager
def no_collection() -> Iterator[None]:
    """Leave Python's cycle collector off; also a decorator.

    Reading a data set makes millions of objects that stay. The collector would look at all of them over and over, for
    two fifths of the time, and find no garbage.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
