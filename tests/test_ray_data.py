"""Rows of Ray Data, of which nothing goes on behind a reader's back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from rarrg.cluster import Cluster
from rarrg.ray_data import cause_of, rows_of

ray = pytest.importorskip("ray", reason="needs rarrg[ray]")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with Cluster("local"):
        yield


def numbers(count: int) -> Any:
    """Squares in a block each; the first takes longest."""

    def square(row: dict[str, int]) -> dict[str, Any]:
        time.sleep(0.5 if row["number"] == 0 else 0.01)
        return {"square": row["number"] ** 2, "parts": [str(row["number"]), ""]}

    return ray.data.from_items([{"number": number} for number in range(count)], override_num_blocks=count).map(square)


def test_rows_come_in_order():
    expected = [{"square": number**2, "parts": [str(number), ""]} for number in range(20)]
    assert list(rows_of(numbers(20))) == expected


@pytest.mark.parametrize("read", [1, 3, 20])
def test_no_thread_is_left_behind_by_a_reader_who_stops(read):
    before = set(threading.enumerate())
    rows = rows_of(numbers(20))
    for _ in range(read):
        next(rows)
    assert set(threading.enumerate()) > before, "Ray Data works in a thread of its own meanwhile"
    rows.close()
    assert set(threading.enumerate()) <= before


def test_no_thread_is_left_behind_by_a_reader_who_fails():
    before = set(threading.enumerate())

    def read() -> None:
        for row in rows_of(numbers(20)):
            raise ValueError(row["square"])

    with pytest.raises(ValueError, match="0"):
        read()
    assert set(threading.enumerate()) <= before


def test_the_cause_is_what_went_wrong_and_not_how_ray_says_it():
    said = """ray::Map(_preprocess)() (pid=1, ip=192.0.2.2)
    raise OSError("no config.json")
OSError: models/absent: no config.json

ray.exceptions.UserCodeException: UDF failed to process a data block.

To change retry attempts, configure `retried_io_errors`: they may be transient."""
    assert cause_of(RuntimeError(said)) == "OSError: models/absent: no config.json"
    assert cause_of(KeyError()) == "KeyError"
