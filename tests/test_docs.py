"""What the documentation names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rarrg.cli import parse_evaluate, parse_extract, parse_train
from rarrg.cli_parsing import find_config
from rarrg.cli_scores import parse_ablate, parse_compare, parse_score

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_configurations_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
    for name in re.findall(r"--config (\S+\.yaml)", text):
        find_config(name)
    assert not re.search(r"@[A-Z]+@", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for line in re.findall(r"(?:train\.py|rarrg train) (--config [^\n`…]+)", text):
        words = line.replace("'", "").split("#")[0].split()
        parse_train([word for word in words if word != "…"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_evaluations_named_parse(page: Path) -> None:
    for line in re.findall(r"rarrg evaluate (--(?!help)[^\n`…]+)", page.read_text(encoding="utf-8")):
        parse_evaluate(line.split("#")[0].split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_scores_and_comparisons_named_parse(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for line in re.findall(r"rarrg score (--(?!help)[^\n`…]+)", text):
        parse_score(line.split("#")[0].split())
    for line in re.findall(r"^rarrg compare ([^\n`…]+)", text, re.MULTILINE):
        parse_compare(line.split("#")[0].split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_ablations_named_parse(page: Path) -> None:
    for line in re.findall(r"rarrg ablate (--(?!help)[^\n`…]+)", page.read_text(encoding="utf-8")):
        assert Path(find_config(parse_ablate(line.split("#")[0].split()).config)).is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_extractions_named_parse(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for line in re.findall(r"rarrg extract((?: (?:graph|refine|rules|merge))? --(?!help)[^\n`…]+)", text):
        step, options = parse_extract(line.split("#")[0].split())
        assert options.out, step
