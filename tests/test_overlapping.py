from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import count

import pytest

from rarrg.overlapping import ahead


def test_results_come_in_order_however_long_each_takes():
    def late(item: int) -> int:
        time.sleep(0.002 * (item % 3 == 0))
        return -item

    assert list(ahead(late, range(50), workers=4, depth=8)) == [-item for item in range(50)]
    assert list(ahead(late, [])) == []


def test_stages_work_at_the_same_time():
    meeting = threading.Barrier(2, timeout=20)  # the second stage's item 0 waits for the first stage's item 1

    def first(item: int) -> int:
        if item == 1:
            meeting.wait()
        return item

    def second(item: int) -> int:
        if item == 0:
            meeting.wait()
        return item

    assert list(ahead(second, ahead(first, range(4)))) == [0, 1, 2, 3]


def test_no_more_than_the_depths_are_drawn_ahead():
    drawn: list[int] = []

    def items() -> Iterator[int]:
        for item in count():
            drawn.append(item)
            yield item

    results = ahead(str, ahead(int, items(), workers=2, depth=4), depth=2)
    for used in range(1, 20):
        next(results)
        assert len(drawn) <= used + 4 + 2
    results.close()
    assert len(drawn) <= 19 + 4 + 2


def test_an_error_comes_in_the_place_of_its_result():
    def fussy(item: int) -> int:
        if item == 2:
            raise ValueError("not two")
        return item

    got = []
    with pytest.raises(ValueError, match="not two"):
        got.extend(ahead(fussy, range(9), workers=3, depth=6))
    results = ahead(fussy, range(9), workers=3, depth=6)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="not two"):
        next(results)


def test_leaving_early_ends_the_threads():
    before = threading.active_count()
    results = ahead(str, ahead(int, count(), workers=3, depth=6))
    next(results)
    results.close()
    assert threading.active_count() == before
