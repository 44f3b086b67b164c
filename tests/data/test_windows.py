from __future__ import annotations

import os
import threading
from itertools import chain
from pathlib import Path

import pytest
import torch

from rarrg.data import windows
from rarrg.data.sampling import StepwiseBatches
from rarrg.data.windows import READ_AHEAD, ReadAhead, Shards, Window, will_need

SHARDS = 7
IMAGES_OF = [i % SHARDS for i in range(40)]  # shards of six and five images, spread over the data set


def shards(window: int) -> Shards:
    return Shards.holding([(Path(f"{number}.npy"), Path(f"{number}.scale.npy")) for number in IMAGES_OF], window)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("window", [1, 3, 7, 100])
def test_an_epoch_has_every_image_once_and_a_window_whole_shards(window: int) -> None:
    where = shards(window)
    order, parts = where.order(seeded())
    assert sorted(order.tolist()) == list(range(len(IMAGES_OF)))
    ends = [part.start for part in parts[1:]] + [len(order)]
    seen: list[int] = []
    for part, end in zip(parts, ends, strict=True):
        held = {IMAGES_OF[image] for image in order[part.start : end].tolist()}
        assert {file for shard in held for file in where.files[shard]} == {*part.files}
        assert len(held) <= window
        seen += held
    assert sorted(seen) == list(range(SHARDS))


def test_images_of_a_window_and_windows_are_shuffled_anew_each_epoch() -> None:
    (first, parts), (second, others) = (shards(3).order(seeded(epoch)) for epoch in (0, 1))
    assert {*parts[0].files} != {*others[0].files}
    assert first.tolist() != second.tolist()
    inside = [IMAGES_OF[image] for image in first[: parts[1].start].tolist()]
    assert inside != sorted(inside, key=inside.index)  # not shard by shard


def test_a_window_of_all_shards_mixes_all_images() -> None:
    order, parts = shards(SHARDS).order(seeded())
    assert len(parts) == 1
    assert len({IMAGES_OF[image] for image in order[:12].tolist()}) > 3


class Asked(list[str]):
    """Names of the files that were asked for, by threads that have ended."""

    def settled(self) -> list[str]:
        for thread in threading.enumerate():
            if thread.name == READ_AHEAD:
                thread.join()
        return list(self)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    names = Asked()
    monkeypatch.setattr(windows, "will_need", lambda files: names.extend(file.name for file in files))
    return names


def test_a_window_is_asked_for_one_window_ahead_and_once(asked: Asked) -> None:
    ahead = ReadAhead([Window(start, [Path(name)]) for start, name in ((0, "a"), (10, "b"), (20, "c"), (30, "d"))])
    ahead.before(slice(0, 8))
    assert asked.settled() == ["a", "b"]
    ahead.before(slice(8, 16))  # reaches into the second
    assert asked.settled() == ["a", "b", "c"]
    ahead.before(slice(16, 20))
    assert asked.settled() == ["a", "b", "c"]
    ahead.before(slice(20, 40))
    assert asked.settled() == ["a", "b", "c", "d"]


def test_a_resumed_epoch_asks_for_nothing_that_is_past(asked: Asked) -> None:
    ahead = ReadAhead([Window(start, [Path(name)]) for start, name in ((0, "a"), (10, "b"), (20, "c"))])
    ahead.before(slice(15, 25))
    assert asked.settled() == ["b", "c"]


def test_a_resumed_run_sees_the_batches_that_were_left(asked: Asked) -> None:
    def batches(taken: int) -> list[list[int]]:
        return list(StepwiseBatches(len(IMAGES_OF), 6, 3, lambda: taken, shards=shards(2)))

    epochs = [*batches(0), *batches(7)]
    for epoch in (epochs[:7], epochs[7:]):
        assert sorted(chain.from_iterable(epoch)) == list(range(len(IMAGES_OF)))
    assert epochs[:7] != epochs[7:]
    for step in range(14):
        assert batches(step) == epochs[step : 7 * (step // 7 + 1)]


def test_two_processes_see_every_image_once(asked: Asked) -> None:
    ranks = [
        list(StepwiseBatches(len(IMAGES_OF), 6, 3, lambda: 0, part=(rank, 2), shards=shards(2))) for rank in (0, 1)
    ]
    alone = list(StepwiseBatches(len(IMAGES_OF), 6, 3, lambda: 0, shards=shards(2)))
    for first, second, both in zip(*ranks, alone, strict=True):
        assert sorted(first + second) == sorted(both)


def test_every_byte_of_a_file_is_asked_for_in_pieces_that_the_system_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"a.npy": 3 * 2**17 + 1, "b.npy": 5}
    for name, size in sizes.items():
        (tmp_path / name).write_bytes(b"0" * size)
    calls: dict[int, list[tuple[int, int, int]]] = {}
    monkeypatch.setattr(
        os, "posix_fadvise", lambda file, *call: calls.setdefault(os.fstat(file).st_ino, []).append(call)
    )
    will_need([tmp_path / "a.npy", tmp_path / "gone.npy", tmp_path / "b.npy"])
    for name, size in sizes.items():
        end = 0
        for start, length, advice in calls[(tmp_path / name).stat().st_ino]:
            assert (start, advice) == (end, os.POSIX_FADV_WILLNEED)
            assert length <= 2**17
            end = start + length
        assert end >= size


def test_sizes_of_the_same_images_belong_to_the_shard_of_the_first() -> None:
    first, second, third = Path("518/a.npy"), Path("512/b.npy"), Path("512/c.npy")
    where = Shards.holding([(first, second), (first, third)], 1)
    assert where.of.tolist() == [0, 0]
    assert list(where.files) == [[first, second, third]]


def test_the_digest_tells_one_cut_of_a_cache_from_another() -> None:
    def digest(of: list[str]) -> str:
        return Shards.holding([(Path(name),) for name in of], 1).digest

    assert digest(["a", "a", "b"]) == digest(["x", "x", "y"]) != digest(["a", "b", "b"])
