from __future__ import annotations

import numpy as np
import pytest

from rarrg.metrics.pointing import cell_of, cells_on, hit, middle, random_hit, wilson


def mask(size: tuple[int, int], *pixels: tuple[int, int]) -> np.ndarray:
    place = np.zeros(size, dtype=bool)
    place[tuple(np.array(pixels).T)] = True
    return place


def test_a_cell_with_one_pixel_of_the_place_is_on_it():
    cells = cells_on(mask((8, 12), (0, 3), (7, 4), (7, 11)), (2, 3))
    np.testing.assert_array_equal(cells, [[True, False, False], [False, True, True]])
    assert not cells_on(np.zeros((8, 12), dtype=bool), (2, 3)).any()


def test_cells_need_not_divide_the_image():
    # Cells of 5 / 2 pixels: the third pixel, whose middle is at 2.5, is the second cell's first.
    assert [int(cell_of(np.array([0.0, x + 0.5]), (5, 5), (2, 2))[1]) for x in range(5)] == [0, 0, 1, 1, 1]
    np.testing.assert_array_equal(cells_on(mask((5, 5), (1, 2)), (2, 2)), [[False, True], [False, False]])


def test_only_the_peak_decides():
    cells = np.array([[True, False, False], [False, False, True]])
    assert hit(np.array([[0.3, 0.1, 0.1], [0.2, 0.2, 0.1]]), cells) == 1
    assert hit(np.array([[0.3, 0.31, 0.0], [0.0, 0.09, 0.3]]), cells) == 0


def test_equal_peaks_share_the_hit_and_a_flat_map_points_at_random():
    cells = np.array([[True, False, False], [False, False, True]])
    assert hit(np.array([[0.4, 0.4, 0.0], [0.1, 0.1, 0.0]]), cells) == 0.5
    assert hit(np.zeros((2, 3)), cells) == pytest.approx(random_hit(cells)) == pytest.approx(1 / 3)


def test_random_hit_is_what_random_points_hit():
    rng = np.random.default_rng(0)
    place = np.zeros((64, 64), dtype=bool)
    place[10:30, 20:22] = True
    cells = cells_on(place, (8, 8))
    assert random_hit(cells) == 3 / 64  # rows 10 to 29 lie in cells 1 to 3, columns 20 and 21 in cell 2
    points = rng.uniform(0, 64, (20_000, 2))
    assert cells[cell_of(points, (64, 64), (8, 8))].mean() == pytest.approx(3 / 64, abs=0.005)


def test_middle_by_hand():
    np.testing.assert_allclose(middle(mask((9, 9), (2, 3))), [2.5, 3.5])
    np.testing.assert_allclose(middle(mask((9, 9), (0, 0), (0, 8), (6, 1))), [2.5, 3.5])
    whole = middle(np.ones((4, 6), dtype=bool))
    np.testing.assert_allclose(whole, [2, 3])
    assert [int(index) for index in cell_of(whole, (4, 6), (4, 3))] == [2, 1]


@pytest.mark.parametrize(("hits", "count", "expected"), [
    (81, 263, (0.2553, 0.3662)), (15, 148, (0.0624, 0.1605)), (0, 20, (0.0, 0.1611)), (1, 29, (0.0061, 0.1718)),
])  # fmt: skip
def test_wilson_by_the_tables_of_newcombe_1998(hits: int, count: int, expected: tuple[float, float]):
    assert wilson(hits, count) == pytest.approx(expected, abs=5e-5)
