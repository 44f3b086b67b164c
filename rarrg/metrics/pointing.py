"""The pointing game: whether a map peaks where the thing is.

Zhang et al., Top-down Neural Attention by Excitation Backprop, IJCV 2018, https://arxiv.org/abs/1608.00507. A map
points no more finely than a cell, so a cell is on the place if it holds a pixel of it. That is the only tolerance, and
what the map is compared with has it too.
"""

from __future__ import annotations

import math

import numpy as np


def cells_on(place: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Cells of a map over the whole image that hold a pixel of a place.

    Args:
        place: bool ``[height, width]`` in image pixels.
        shape: Rows and columns of the map.

    Returns:
        bool of ``shape``; a pixel belongs to the cell that its middle lies in.
    """
    cells = np.zeros(shape, dtype=bool)
    cells[cell_of(np.argwhere(place) + 0.5, place.shape, shape)] = True
    return cells


def cell_of(point: np.ndarray, size: tuple[int, ...], shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The cell that a point lies in.

    Args:
        point: Row and column in pixels from the upper left corner, float ``[..., 2]``, inside the image.
        size: Height and width of the image in pixels.
        shape: Rows and columns of the map.

    Returns:
        Row and column of the cell, ``[...]`` each.
    """
    cell = np.floor(point * shape / np.asarray(size)).astype(int)
    return cell[..., 0], cell[..., 1]


def hit(values: np.ndarray, cells: np.ndarray) -> float:
    """Whether a map peaks on the place: 1 or 0, and with several equal peaks the share of them that lie on it.

    Args:
        values: The map, ``[rows, columns]``.
        cells: Cells on the place, bool of the same shape.

    Returns:
        In [0, 1]. A map without any preference gets what a random point gets.
    """
    return float(cells[values == values.max()].mean())


def random_hit(cells: np.ndarray) -> float:
    """Expected hit of a point drawn evenly from the image: the share of cells on the place, in [0, 1]."""
    return float(cells.mean())


def middle(region: np.ndarray) -> np.ndarray:
    """Centre of mass of a region.

    Args:
        region: bool ``[height, width]`` with a True pixel.

    Returns:
        Row and column in pixels from the upper left corner, float ``[2]``.
    """
    return np.argwhere(region).mean(axis=0) + 0.5


def wilson(hits: float, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share (Wilson, JASA 22, 1927).

    Args:
        hits: In [0, ``count``].
        count: Number of trials, at least 1.

    Returns:
        Lower and upper end, in [0, 1].
    """
    z = 1.959964
    share, weight = hits / count, z * z / count
    centre = (share + weight / 2) / (1 + weight)
    half = z * math.sqrt(share * (1 - share) / count + weight / (4 * count)) / (1 + weight)
    return max(0.0, centre - half), min(1.0, centre + half)
