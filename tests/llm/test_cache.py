from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import asdict, replace
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rarrg.errors import RarrgError
from rarrg.llm.cache import ReplyCache, request_sha256
from rarrg.llm.chat import Completion, Message, Request, Sampling

COMPLETION = Completion("épanchement 🫁 {\n}", "stop", 5, 7, 0.25, "m-1")


def request(text: str = "Clear lungs.") -> Request:
    return Request("7", (Message("system", "s"), Message("user", text)), {"type": "object"}, Sampling())


def test_a_completion_comes_back_in_another_session(tmp_path: Path) -> None:
    with ReplyCache(tmp_path / "new" / "x.sqlite") as cache:
        assert cache.get(request(), "m") is None
        cache.put(request(), "m", COMPLETION)
    with ReplyCache(tmp_path / "new" / "x.sqlite") as cache:
        assert cache.get(request(), "m") == COMPLETION


def test_what_decides_a_reply_decides_the_key_and_nothing_else_does() -> None:
    one = request()
    others = [
        request("Clear lungs"),
        replace(one, messages=(Message("user", "s"), *one.messages[1:])),
        replace(one, schema={"type": "object", "required": ["a"]}),
        *[replace(one, sampling=replace(one.sampling, **{key: 9})) for key in vars(one.sampling)],
    ]
    assert len({request_sha256(each, "m") for each in [one, *others]} | {request_sha256(one, "n")}) == 9
    assert request_sha256(replace(one, key="8"), "m") == request_sha256(one, "m")
    ordered = replace(one, schema={"a": 1, "b": 2})
    assert request_sha256(ordered, "m") == request_sha256(replace(one, schema={"b": 2, "a": 1}), "m")
    # Fixed, so that a release which would pay for every reply again is noticed.
    assert request_sha256(one, "m") == "54ec53c3cbbc5e7d356adfcf72a1bd59f32fcefce8841245b4fc82b5bde5235c"


texts = st.text(st.characters())  # halves of surrogate pairs too


@given(
    messages=st.lists(st.builds(Message, st.sampled_from(["system", "user", "assistant"]), texts), max_size=4),
    model=texts,
    schema=st.dictionaries(texts, texts | st.lists(texts)),
    seed=st.integers(),
)
def test_the_key_is_the_checksum_of_sorted_json(
    messages: list[Message], model: str, schema: dict[str, object], seed: int
) -> None:
    asked = Request("7", tuple(messages), schema, Sampling(seed=seed))
    whole = {
        "model": model,
        "messages": [[message.role, message.content] for message in messages],
        "schema": schema,
        "sampling": asdict(asked.sampling),
    }
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"))
    assert request_sha256(asked, model) == hashlib.sha256(text.encode()).hexdigest()


def test_the_first_completion_stays(tmp_path: Path) -> None:
    with ReplyCache(tmp_path / "x.sqlite") as cache:
        cache.put(request(), "m", COMPLETION)
        cache.put(request(), "m", replace(COMPLETION, text="another"))
        assert cache.get(request(), "m") == COMPLETION


def test_a_killed_process_loses_nothing_it_put(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from pathlib import Path
from tests.llm.test_cache import COMPLETION, request
from rarrg.llm.cache import ReplyCache
cache = ReplyCache(Path(sys.argv[1]))
for number in range(20):
    cache.put(request(str(number)), "m", COMPLETION)
os.kill(os.getpid(), signal.SIGKILL)
"""
    path = tmp_path / "x.sqlite"
    done = subprocess.run([sys.executable, "-c", code, str(path)], cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == -signal.SIGKILL
    with ReplyCache(path) as cache:
        assert all(cache.get(request(str(number)), "m") == COMPLETION for number in range(20))


def put_many(path: Path, worker: int, start: Barrier) -> None:
    start.wait()
    with ReplyCache(path) as cache:
        for number in range(50):
            cache.put(request(f"{worker} {number}"), "m", COMPLETION)


def test_processes_share_a_file_from_its_making_on(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for attempt in range(10):
        path = tmp_path / f"{attempt}.sqlite"
        start = context.Barrier(4)
        workers = [context.Process(target=put_many, args=(path, worker, start)) for worker in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert [worker.exitcode for worker in workers] == [0] * 4
        with ReplyCache(path) as cache:
            assert all(cache.get(request(f"{worker} {number}"), "m") for worker in range(4) for number in range(50))


def test_another_file_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    text = tmp_path / "x.txt"
    text.write_text("key phrases " * 100)
    with pytest.raises(RarrgError, match=r"x\.txt: cannot be used as a cache of replies"):
        ReplyCache(text)
    assert text.read_text() == "key phrases " * 100

    other = tmp_path / "x.db"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE patients (name TEXT)")
    before = other.read_bytes()
    with pytest.raises(RarrgError, match=r"x\.db: is a database, but no cache of replies"):
        ReplyCache(other)
    assert other.read_bytes() == before

    with pytest.raises(RarrgError, match="cannot be used as a cache"):
        ReplyCache(tmp_path)
    with pytest.raises(RarrgError, match="cannot be used as a cache"):
        ReplyCache(text / "below.sqlite")


def test_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    ReplyCache(path).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 2")
    with pytest.raises(RarrgError, match="version 2, expected 1"):
        ReplyCache(path)


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_without_leave_to_write_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(RarrgError, match="cannot be used as a cache"):
        ReplyCache(tmp_path / "x.sqlite")
