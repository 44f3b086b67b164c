"""What every benchmark here shares: alternating repeats, tables with median and spread, and their JSON.

A benchmark is a script beside this one that measures rarrg and what one would pick instead in one run, on the same data
and threads. It takes ``--json FILE`` and ``--quick`` and hands :func:`finish` a :class:`Report`; ``rarrg bench`` runs
all of them and writes ``docs/performance.md``.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from rarrg.artifacts import write_json

if TYPE_CHECKING:
    from torch.utils.benchmark import Measurement

LIBRARIES = (
    "rarrg",
    "torch",
    "timm",
    "numpy",
    "scipy",
    "faiss-cpu",
    "transformers",
    "sentence-transformers",
    "lightning",
)


@dataclass(frozen=True)
class Table:
    """Rows of a benchmark, as they are printed.

    Attributes:
        title: What was measured, on how much of what.
        columns: Heads, with units.
        rows: Cells as text, one row for each thing measured.
        note: What a reader has to know to read it rightly, or nothing.
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""


@dataclass(frozen=True)
class Goal:
    """A bound that was set before measuring.

    Attributes:
        text: The bound in words.
        value: What was measured, with its unit.
        met: Whether it holds.
    """

    text: str
    value: str
    met: bool


@dataclass(frozen=True)
class Report:
    """What a benchmark found.

    Attributes:
        title: Heading of its section of ``docs/performance.md``.
        about: What stands beside what, on which data; one paragraph.
        tables: The figures.
        goals: The bounds and whether they hold.
    """

    title: str
    about: str
    tables: list[Table]
    goals: list[Goal] = field(default_factory=list)


def alternate(calls: Mapping[str, Callable[[], object]], repeats: int, warm: int = 1) -> dict[str, Measurement]:
    """Time calls in turn, so that what else the machine does falls on all of them.

    Args:
        calls: What to time, by name.
        repeats: Timed rounds.
        warm: Rounds before, not timed.

    Returns:
        Seconds of each, with ``median`` and ``iqr``.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(warm + repeats):
        for name, call in calls.items():
            start = perf_counter()
            call()
            if turn >= warm:
                seconds[name].append(perf_counter() - start)
    return {name: measurement(name, times) for name, times in seconds.items()}


def measurement(name: str, seconds: Sequence[float]) -> Measurement:
    """Seconds measured elsewhere (a process of its own, an epoch) in the form of :func:`alternate`."""
    import torch  # here: processes whose memory is measured import this module
    from torch.utils.benchmark import Measurement
    from torch.utils.benchmark.utils.common import TaskSpec

    return Measurement(1, list(seconds), TaskSpec(name, setup="", num_threads=torch.get_num_threads()))


def spread(seconds: Measurement, unit: str = "ms") -> str:
    """``median ± half the interquartile range`` in seconds (``s``), milliseconds or microseconds (``us``)."""
    scale = {"s": 1.0, "ms": 1e3, "us": 1e6}[unit]
    return f"{seconds.median * scale:.3g} ± {seconds.iqr / 2 * scale:.2g}"


def arguments(description: str | None) -> argparse.ArgumentParser:
    """A parser with the two arguments of every benchmark."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument(
        "--quick", action="store_true", help="less data and fewer repeats: whether it runs, not how fast"
    )
    return parser


def environment() -> dict[str, str]:
    """Processor, threads, memory and versions: without them a figure means nothing."""
    import torch

    processor = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        processor = names[0] if names else processor
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": processor,
        "cores": str(os.cpu_count()),
        "threads": str(torch.get_num_threads()),
        "memory": f"{memory:.0f} GiB",
        "python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
    }


def finish(report: Report, options: argparse.Namespace) -> None:
    """Print the tables and goals, and write them where ``--json`` says."""
    for table in report.tables:
        lines = (table.columns, ("---",) * len(table.columns), *table.rows)
        printed = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        sys.stdout.write("\n\n".join(part for part in (f"\n{table.title}", printed, table.note) if part) + "\n")
    for goal in report.goals:
        sys.stdout.write(f"{'holds' if goal.met else 'DOES NOT HOLD'}: {goal.text}: {goal.value}\n")
    if options.json:
        write_json(options.json, {"environment": environment(), "quick": options.quick, **asdict(report)})
