"""The bench command, on benchmarks that take no time; that the real ones run is shown by ``rarrg bench --quick``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rarrg.bench import LARGE, SUITE, BenchOptions, bench, page_of
from rarrg.errors import RarrgError

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = """
import json, sys
words = sys.argv[1:]
what = " ".join(["{name}", *words[2:]])
figures = {{"title": "{name} measured", "about": "Ours beside theirs.", "quick": "--quick" in words,
    "tables": [{{"title": "times", "columns": ["", "ms"], "rows": [["ours", "1.5 ± 0.1"]], "note": ""}}],
    "goals": [{{"text": what + " is fast", "value": "2x", "met": False}}],
    "environment": {{"processor": "a loom"}}}}
open(words[words.index("--json") + 1], "w").write(json.dumps(figures))
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    for name in SUITE:
        (folder / f"{name}.py").write_text(SCRIPT.format(name=name))
    return folder


def test_every_benchmark_is_in_the_page(checkout: Path, tmp_path: Path) -> None:
    bench(BenchOptions(checkout, tmp_path / "out"), lambda line: None)
    page = (tmp_path / "out" / "performance.md").read_text()
    for name in SUITE:
        assert f"| {name} is fast | 2x | **no** |" in page
        assert (
            f"## {name} measured\n\nOurs beside theirs.\n\n### times\n\n|  | ms |\n|---|---|\n| ours | 1.5 ± 0.1 |"
            in page
        )
    assert page.count("- processor: a loom") == 1
    assert "quick run" not in page


def test_one_benchmark_again_keeps_the_others_in_the_page(checkout: Path, tmp_path: Path) -> None:
    bench(BenchOptions(checkout, tmp_path / "out"), lambda line: None)
    (checkout / "training.py").unlink()
    bench(BenchOptions(checkout, tmp_path / "out", tmp_path / "page.md", ["scale"], quick=True), lambda line: None)
    assert json.loads((tmp_path / "out" / "scale.json").read_text())["quick"] is True
    page = (tmp_path / "page.md").read_text()
    assert "training measured" in page
    assert page.count("quick run") == 1


def test_larger_runs_are_made_where_they_are_named_and_stay_in_the_page(checkout: Path, tmp_path: Path) -> None:
    bench(BenchOptions(checkout, tmp_path / "out", only=["million_phrases"]), lambda line: None)
    bench(BenchOptions(checkout, tmp_path / "out"), lambda line: None)
    page = (tmp_path / "out" / "performance.md").read_text()
    assert "| retrieval --phrases 1000000 is fast |" in page
    assert "extraction --reports" not in page
    assert page.index("extraction is fast") < page.index("retrieval --phrases 1000000 is fast")


def test_what_cannot_be_run_is_one_line(checkout: Path, tmp_path: Path) -> None:
    with pytest.raises(RarrgError, match="--only sewing: no such benchmark; there are training"):
        bench(BenchOptions(checkout, tmp_path / "out", only=["sewing"]), print)
    with pytest.raises(RarrgError, match="run rarrg bench in a checkout"):
        bench(BenchOptions(tmp_path / "nowhere", tmp_path / "out"), print)
    (checkout / "training.py").write_text("raise SystemExit(3)")
    with pytest.raises(RarrgError, match=r"training\.py: ended with 3"):
        bench(BenchOptions(checkout, tmp_path / "out"), lambda line: None)


def test_the_suite_stands_in_the_checkout() -> None:
    scripts = [*SUITE, *(script for script, *_ in LARGE.values())]
    assert [name for name in scripts if not (ROOT / "benchmarks" / f"{name}.py").is_file()] == []


def test_a_figure_that_is_missing_is_no_empty_cell() -> None:
    with pytest.raises(Exception, match="title"):
        page_of([{"goals": [], "tables": [], "quick": False, "about": "", "environment": {"processor": ""}}])
