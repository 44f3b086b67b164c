"""Killed at any moment, or beside another process: what is there is the earlier or the later one, never a mixture."""

from __future__ import annotations

import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from rarrg.data import features
from rarrg.errors import RarrgError
from tests.robustness import jobs
from tests.robustness.jobs import ARTEFACTS
from tests.robustness.processes import CONTEXT, Job, kill_at, run, wait_at

KILLED = ["features", "store", "model", "step of an extraction"]
MOMENTS = 6
# Words of the errors that may be told of an artefact whose writing was cut short.
INCOMPLETE = ("holds no trained model, or one whose writing was cut short", "cannot be read (No such file")


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    """Jobs in this process make shards of a few images; the next test's are as large as ever."""
    monkeypatch.setattr(features, "SHARD_BYTES", features.SHARD_BYTES)


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("drawn")
    jobs.draw_images(folder)
    return folder


@pytest.fixture
def place(tmp_path, images) -> Path:
    shutil.copytree(images, tmp_path / "place")  # with their times of change
    return tmp_path / "place"


def found(name: str, folder: Path) -> Any:
    try:
        return jobs.read(name, folder)
    except RarrgError as error:
        return error


def check_one_of_two(name: str, place: Path, earlier: Any, later: Any, where: object) -> None:
    """The folder holds the earlier or the later version in full, or says that it is incomplete."""
    held = found(name, place)
    if isinstance(held, RarrgError):
        assert any(words in str(held) for words in INCOMPLETE), (where, str(held))
        # Only of a model the files go one by one; of the others an earlier version stays until there is a later one.
        assert earlier is None or name == "model", (where, str(held))
    elif ARTEFACTS[name].grows:
        assert (earlier or {}).items() <= held.items() <= later.items(), where
    else:
        assert held in (earlier, later), where


@pytest.mark.slow
@pytest.mark.parametrize("name", KILLED)
def test_a_kill_at_any_file_operation(name, place, tmp_path):
    run(jobs.make, name, place, 1)
    earlier = jobs.read(name, place)
    begun = tmp_path / "begun"
    place.rename(begun)
    shutil.copytree(begun, place)
    operations = run(jobs.count_operations, name, place, 2)
    later = jobs.read(name, place)
    assert earlier != later
    assert operations > 5
    for number in range(1, operations + 1):
        shutil.rmtree(place)
        shutil.copytree(begun, place)
        assert run(jobs.make, name, place, 2, prepare=(kill_at, str(place), number)) == signal.SIGKILL
        check_one_of_two(name, place, earlier, later, number)
        jobs.make(name, place, 2)
        assert jobs.read(name, place) == later, number


@pytest.mark.slow
@pytest.mark.parametrize("name", KILLED)
def test_a_kill_at_any_moment(name, place):
    """Moments between file operations too, as in the middle of a write; of a first writing."""
    operations = run(jobs.count_operations, name, place, 2)
    later = jobs.read(name, place)
    assert operations
    draw = random.Random(6)
    for moment in range(MOMENTS):
        for path in place.iterdir():
            if path.name not in ("images", "adapted"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        here = CONTEXT.Event()
        go_on = CONTEXT.Event()
        go_on.set()
        # From the first file operation on, and for as long as the writing is likely to take.
        job = Job(jobs.make, name, place, 2, prepare=(wait_at, str(place), 1, here, go_on))
        here.wait(60)
        time.sleep(draw.random() ** 2 * 0.1)
        job.process.kill()
        assert job.result() in (signal.SIGKILL, None)
        check_one_of_two(name, place, None if not ARTEFACTS[name].grows else {}, later, moment)
        jobs.make(name, place, 2)
        assert jobs.read(name, place) == later, moment


def test_a_store_is_read_while_it_is_replaced(place, caplog):
    """Between the two renames of a save the folder is not there; readers take the store that makes way."""
    jobs.make("store", place, 1)
    earlier = jobs.read("store", place)
    operations = run(jobs.count_operations, "store", place, 1)
    gone = 0
    for number in range(1, operations + 1):
        here, go_on = CONTEXT.Event(), CONTEXT.Event()
        job = Job(jobs.make, "store", place, 1, prepare=(wait_at, str(place), number, here, go_on))
        assert here.wait(60)
        gone += not (place / "store").exists()
        assert jobs.read("store", place) == earlier, number
        go_on.set()
        assert job.result() is None
    assert gone == 1
    assert len([record for record in caplog.records if "is under way or was cut short" in record.getMessage()]) == 1
    assert not [path for path in place.iterdir() if path.name.endswith((".tmp", ".old"))]


def bytes_of(folder: Path) -> dict[str, bytes]:
    """All but the manifest, which tells the time, by name."""
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    files.pop("manifest.json")
    return files


@pytest.mark.slow
def test_two_processes_fill_one_cache(place, tmp_path):
    """One is stopped at each of its file operations in turn, while the other fills the cache from end to end."""
    alone = place / "cache"
    operations = run(jobs.count_operations, "features", place, 2)
    expected, held = bytes_of(alone), jobs.read("features", place)
    assert len(expected) == 2 * jobs.IMAGES // jobs.SHARD
    for number in range(1, operations + 1):
        shutil.rmtree(alone)
        here, go_on = CONTEXT.Event(), CONTEXT.Event()
        job = Job(jobs.make, "features", place, 2, prepare=(wait_at, str(place), number, here, go_on))
        assert here.wait(60)
        jobs.make("features", place, 2)
        go_on.set()
        assert job.result() is None
        assert bytes_of(alone) == expected, number
        assert jobs.read("features", place) == held, number


def test_two_processes_fill_one_cache_side_by_side(place):
    run(jobs.make, "features", place, 2)
    expected, held = bytes_of(place / "cache"), jobs.read("features", place)
    for _ in range(4):
        shutil.rmtree(place / "cache")
        both = [Job(jobs.make, "features", place, 2) for _ in range(2)]
        assert [job.result() for job in both] == [None, None]
        assert bytes_of(place / "cache") == expected
        assert jobs.read("features", place) == held
