"""The bench command: the speed benchmarks of a checkout one after another, and their figures as a page."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from rarrg.artifacts import read_json, write_text
from rarrg.errors import RarrgError

SUITE = ("training", "h100_plan", "retrieval", "inference", "extraction", "scale")
LARGE = {
    "million_phrases": ("retrieval", "--phrases", "1000000"),
    "mimic_reports": ("extraction", "--reports", "1000", "227835"),
}
"""Script and arguments of larger runs, about ten minutes each: only where they are named."""


@dataclass(frozen=True)
class BenchOptions:
    """Which benchmarks to run, and where the figures go.

    Attributes:
        folder: The benchmarks of a checkout; they are no part of an installed package.
        out: Folder of the figures, a JSON file for each benchmark.
        page: File of the page; none means performance.md in out.
        only: Benchmarks to run, as [retrieval]; none means all but the larger million_phrases and mimic_reports. The
            page shows those that stand in out.
        quick: Less data and fewer repeats: whether they run, not how fast.
    """

    folder: Path = Path("benchmarks")
    out: Path = Path("runs/bench")
    page: Path | None = None
    only: list[str] = field(default_factory=list)
    quick: bool = False


def bench(options: BenchOptions, say: Callable[[str], None]) -> None:
    """Run benchmarks, each in a process of its own, and write the page.

    Args:
        options: What to run.
        say: Takes a line of progress.

    Raises:
        RarrgError: No such benchmark, no checkout, or a benchmark failed.
    """
    for name in options.only:
        if name not in (*SUITE, *LARGE):
            raise RarrgError(f"--only {name}: no such benchmark; there are {', '.join((*SUITE, *LARGE))}")
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.only or SUITE:
        stem, *sizes = LARGE.get(name, (name,))
        script = options.folder / f"{stem}.py"
        if not script.is_file():
            raise RarrgError(f"{script}: no such benchmark; run rarrg bench in a checkout of rarrg, or set --folder")
        say(f"{name} ...")
        words = [sys.executable, str(script), "--json", str(_figures(options, name)), *sizes]
        done = subprocess.run([*words, "--quick"] if options.quick else words, check=False)
        if done.returncode:
            raise RarrgError(f"{script}: ended with {done.returncode}; its own words stand above")
    page = options.page or options.out / "performance.md"
    measured = (_figures(options, name) for name in (*SUITE, *LARGE))
    write_text(page, page_of([read_json(path) for path in measured if path.is_file()]))
    say(f"figures in {options.out}, page in {page}")


def page_of(reports: Sequence[dict[str, Any]]) -> str:
    """Render figures as Markdown.

    Args:
        reports: What ``benchmarks/measuring.py`` writes: title, about, tables, goals, environment, quick.
    """
    environment = Environment(
        loader=PackageLoader("rarrg"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
    )
    return environment.get_template("performance.md.jinja").render(reports=reports)


def _figures(options: BenchOptions, name: str) -> Path:
    return options.out / f"{name}.json"
