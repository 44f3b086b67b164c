"""What every radiograph goes through, whatever its file: limits on its size, and levels stretched to 8 bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from rarrg.errors import ImageError

MAX_PIXELS = 64_000_000  # a radiograph has about 10 million
MAX_BYTES = 6 * MAX_PIXELS  # three samples of 16 bits a pixel
MIN_SIDE = 32
STRIP = 1 << 20  # pixels worked on at a time


def check_size(path: Path, width: int, height: int) -> None:
    """Refuse what is too large or too small for a radiograph.

    Args:
        path: The file, for messages.
        width: In pixels, as its header says.
        height: In pixels.

    Raises:
        ImageError: It has over ``MAX_PIXELS`` pixels, or below ``MIN_SIDE`` on a side.
    """
    if width * height > MAX_PIXELS:
        raise ImageError(f"{path}: has {width} x {height} pixels; a radiograph has at most {MAX_PIXELS:,}")
    if min(width, height) < MIN_SIDE:
        raise ImageError(f"{path}: has {width} x {height} pixels; a radiograph has at least {MIN_SIDE} on each side")


def strips(array: np.ndarray) -> Iterator[slice]:
    """Rows of an image ``[height, width, ...]`` by the megapixel.

    Work on a strip takes eight bytes a pixel of it, not of the whole image.
    """
    height, width = array.shape[:2]
    step = max(1, STRIP // width)
    return (slice(top, min(top + step, height)) for top in range(0, height, step))


def by_rows(array: np.ndarray, show: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Grey levels, uint8 ``[height, width]``, of an image ``[height, width, ...]``, each strip as ``show`` makes it."""
    grey = np.empty(array.shape[:2], dtype=np.uint8)
    for rows in strips(array):
        grey[rows] = show(array[rows])
    return grey


def stretch(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Map ``low`` to 0 and ``high`` to 255, clipped and rounded, uint8; where they are equal, all to 0."""
    if high <= low:
        return np.zeros(values.shape, dtype=np.uint8)
    return np.rint(np.clip((values - low) / (high - low), 0, 1) * 255).astype(np.uint8)


def printable(found: object) -> str:
    """What a file or a decoder says, fit for a line: short, and without what a terminal would act on."""
    text = " ".join(str(found).split()) or type(found).__name__
    return "".join(letter if letter.isprintable() else "?" for letter in text[:200])
