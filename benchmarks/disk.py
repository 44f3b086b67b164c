"""Reading a cache that is not in memory: images from all over it, and in windows of shards.

    python benchmarks/disk.py FOLDER [--json FILE] [--quick]

Writes 4 GB of shards into FOLDER (on the disk in question), has the system drop them from memory before each epoch, and
removes them. Both orders read every byte once; what a cache larger than memory reads again is not shown, and is worse
for images from all over it. Not a part of ``rarrg bench``: what it measures is the disk.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.measuring import Report, Table, arguments, finish, measurement, spread
from rarrg.data.sampling import StepwiseBatches
from rarrg.data.shards import SHARD_BYTES
from rarrg.data.windows import Shards

IMAGE = (1536, 37, 37)
BATCH = 128
WINDOW = 4


def write(folder: Path, shards: int, images: int) -> list[Path]:
    """Shards of float16 features of the paper's encoders, of random bytes."""
    files = [folder / f"{number}.npy" for number in range(shards)]
    for number, file in enumerate(files):
        generator = np.random.default_rng(number)
        np.save(file, generator.integers(0, 1000, (images, *IMAGE), dtype=np.uint16).view(np.float16))
    os.sync()
    return files


def epoch(files: list[Path], images: int, shards: Shards | None) -> float:
    """Seconds to copy every batch out of mapped files that are not in memory."""
    for file in files:
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    arrays = [torch.from_numpy(np.lib.format.open_memmap(file, mode="c")) for file in files]
    batches = StepwiseBatches(len(files) * images, BATCH, 0, lambda: 0, shards=shards)
    start = perf_counter()
    for batch in batches:
        torch.stack([arrays[image // images][image % images] for image in batch])
    return perf_counter() - start


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("folder", type=Path, help="folder on the disk to measure")
    options = parser.parse_args()
    images = SHARD_BYTES // (2 * int(np.prod(IMAGE)))
    number, repeats, window = (4, 1, 1) if options.quick else (16, 3, WINDOW)
    orders: dict[str, list[float]] = {"all images": [], f"windows of {window} shards": []}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        files = write(Path(folder), number, images)
        where = Shards.holding(((files[image // images],) for image in range(number * images)), window)
        for _ in range(repeats):
            for seconds, shards in zip(orders.values(), (None, where), strict=True):
                seconds.append(epoch(files, images, shards))
        size = sum(file.stat().st_size for file in files)
    rows = [
        (name, spread(measurement("", seconds), "s"), f"{size / measurement('', seconds).median / 1e6:.0f}")
        for name, seconds in orders.items()
    ]
    about = f"{number * images} images of 4.2 MB in {number} shards, batches of {BATCH}, nothing in memory before."
    finish(Report("Reading a cache", about, [Table("An epoch", ("shuffled", "s", "MB/s"), rows)]), options)


if __name__ == "__main__":
    main()
