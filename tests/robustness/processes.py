"""Processes that a test may kill, starve or let hang: forked from one that has the package in memory already."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

CONTEXT = get_context("forkserver")
CONTEXT.set_forkserver_preload(["pytest", "tests.robustness.jobs", "tests.robustness.reading"])

SECONDS = 60.0  # far more than any job takes; one that takes longer hangs


class Job:
    """A function that runs in a process of its own.

    Args:
        function: A function of a module.
        arguments: Its arguments.
        prepare: Called before it in the process: a function and its arguments.
    """

    def __init__(self, function: Callable[..., Any], *arguments: Any, prepare: tuple[Any, ...] = ()) -> None:
        self._answer, end = CONTEXT.Pipe(duplex=False)
        self.process = CONTEXT.Process(target=_work, args=(end, function, arguments, prepare))
        self.process.start()
        end.close()

    def result(self) -> Any:
        """Wait for what it returns, or for the exception that it raises, which is returned as well.

        Returns:
            ``signal.SIGKILL`` where it was killed.
        """
        if not self._answer.poll(SECONDS):
            self.process.kill()
            raise AssertionError(f"the job took more than {SECONDS:g} seconds")
        try:
            return self._answer.recv()
        except EOFError:
            self.process.join()
            return signal.Signals(-(self.process.exitcode or 0))
        finally:
            self.process.join()


def run(function: Callable[..., Any], *arguments: Any, prepare: tuple[Any, ...] = ()) -> Any:
    """Run a function in a process of its own; see :class:`Job`."""
    return Job(function, *arguments, prepare=prepare).result()


def _work(end: Connection, function: Callable[..., Any], arguments: tuple[Any, ...], prepare: tuple[Any, ...]) -> None:
    # Progress bars would count against a limit on the size of files where the output is one.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        if prepare:
            prepare[0](*prepare[1:])
        answer = function(*arguments)
    except BaseException as error:  # noqa: BLE001  whatever it is, the test judges it
        answer = error
    end.send(answer)


# What may be done to a process before its job


def limit_memory(size: int) -> None:
    """Let the process have ``size`` bytes of memory more than it has now."""
    with open("/proc/self/statm") as file:  # noqa: PTH123
        taken = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + size, taken + size))


_FILE_EVENTS = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink")


def on_file_operation(root: str, act: Callable[[int], None]) -> None:
    """Call ``act`` with its number, from 1, at each operation that changes a file or folder under ``root``.

    That is before the operation, and once more when a file has been opened to be written, which empties it.
    """
    count = 0
    opening = False

    def reach() -> None:
        nonlocal count
        count += 1
        act(count)

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal opening
        if event == "open":
            path, _, flags = arguments
            changes = bool(flags & (os.O_WRONLY | os.O_RDWR))
        else:
            path = arguments[0] if event in _FILE_EVENTS else None
            changes = path is not None
        # A relative path is that of shutil.rmtree, within a folder that it has opened.
        if changes and isinstance(path, str | os.PathLike):
            name = os.fspath(path)
            if name.startswith(root) or not os.path.isabs(name):  # noqa: PTH117
                opening = event == "open"
                reach()

    def profile(_frame: FrameType, event: str, function: Any) -> None:
        nonlocal opening
        if opening and event == "c_return" and function.__name__ == "open":
            opening = False
            reach()

    sys.addaudithook(audit)
    sys.setprofile(profile)


def kill_at(root: str, number: int) -> None:
    """Be killed at the n-th file operation under a folder, as by kill -9."""

    def act(count: int) -> None:
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    on_file_operation(root, act)


def wait_at(root: str, number: int, here: Any, go_on: Any) -> None:
    """Set an event at the n-th file operation under a folder, and wait for another."""

    def act(count: int) -> None:
        if count == number:
            here.set()
            go_on.wait(SECONDS)

    on_file_operation(root, act)
