"""An order of images for caches on disks that seek: shards are read whole, a window of them at a time.

A permutation of all images reads here and there, which a spinning or networked disk does far more slowly than it reads
on, unless the cache fits into memory. So shards come in random order, some of them at a time, and images
are shuffled among those; WebDataset and MosaicML's StreamingDataset shuffle alike. The window after the one in use is
asked for ahead, so that it lies in the system's page cache when its images are mapped: nothing is copied for it.
"""

from __future__ import annotations

import hashlib
import os
import threading
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

READ_AHEAD = "read-ahead"
"""Name of the threads that ask."""
_PIECE = 128 * 2**10


@dataclass(frozen=True)
class Shards:
    """Where the images of a data set lie.

    Attributes:
        of: Number of the shard of each image, int64 ``[images]``.
        files: Files of each shard, with those of other sizes of the same images.
        window: Shards that are shuffled together.
    """

    of: Tensor
    files: Sequence[Sequence[Path]]
    window: int

    @classmethod
    def holding(cls, files: Iterable[tuple[Path, ...]], window: int) -> Shards:
        """Number the shards of images.

        Args:
            files: Files that hold each image; the first of them is its shard.
            window: Shards that are shuffled together.
        """
        numbers: dict[Path, int] = {}
        held: list[dict[Path, None]] = []
        of = []
        for first, *others in files:
            number = numbers.setdefault(first, len(numbers))
            if number == len(held):
                held.append({})
            held[number].update(dict.fromkeys((first, *others)))
            of.append(number)
        return cls(torch.tensor(of), [list(each) for each in held], window)

    @property
    def digest(self) -> str:
        """16 hex digits over what an order follows from besides the seed: another cut of the cache has another."""
        return hashlib.sha256(self.of.numpy().tobytes()).hexdigest()[:16]

    def order(self, generator: torch.Generator) -> tuple[Tensor, list[Window]]:
        """An epoch's order: every image once.

        Args:
            generator: What the order is drawn from.

        Returns:
            Image indices, int64 ``[images]``, and the windows in which they come.
        """
        inside = self.of.argsort(stable=True).split(torch.bincount(self.of).tolist())
        pieces, windows, start = [], [], 0
        for group in torch.randperm(len(self.files), generator=generator).split(self.window):
            shards = group.tolist()
            images = torch.cat([inside[shard] for shard in shards])
            pieces.append(images[torch.randperm(len(images), generator=generator)])
            windows.append(Window(start, [file for shard in shards for file in self.files[shard]]))
            start += len(images)
        return torch.cat(pieces), windows


@dataclass(frozen=True)
class Window:
    """Images of an epoch that come one after another.

    Attributes:
        start: Place of the first in the epoch's order.
        files: Files that hold them.
    """

    start: int
    files: Sequence[Path]


class ReadAhead:
    """Asks the system for a window's files before its images are wanted.

    Args:
        windows: Of an epoch, in order.
    """

    def __init__(self, windows: Sequence[Window]) -> None:
        self._windows = windows
        self._starts = [window.start for window in windows]
        self._asked = 0

    def before(self, batch: slice) -> None:
        """Ask for what a batch reads, and for the window after it.

        Args:
            batch: Its places in the epoch's order; batches come in this order, from any of them on.
        """
        first, last = (bisect_right(self._starts, place) - 1 for place in (batch.start, batch.stop - 1))
        wanted = [file for window in self._windows[max(self._asked, first) : last + 2] for file in window.files]
        self._asked = max(self._asked, last + 2)
        if wanted:
            # The call waits where the disk has enough to do already.
            threading.Thread(target=will_need, args=(wanted,), name=READ_AHEAD, daemon=True).start()


def will_need(files: Iterable[Path]) -> None:
    """Have the system read files into its page cache, one after another; does nothing where it has no such call.

    Linux reads no more of a call than the device's read-ahead, so each asks for a piece of 128 KiB, the usual one. A
    file that is gone is passed over: who maps it says so.
    """
    if not hasattr(os, "posix_fadvise"):
        return
    for file in files:
        with suppress(OSError), file.open("rb") as opened:
            descriptor = opened.fileno()
            for start in range(0, os.fstat(descriptor).st_size, _PIECE):
                os.posix_fadvise(descriptor, start, _PIECE, os.POSIX_FADV_WILLNEED)
