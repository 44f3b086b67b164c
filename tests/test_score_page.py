"""The page of scores, as Markdown and as HTML."""

from __future__ import annotations

from pathlib import Path

from rarrg.cost import Cost, Trained, Writing, cost_tables
from rarrg.score_page import page
from rarrg.score_tables import Table, score_tables
from rarrg.threshold_sweep import sweep_table
from tests.report.test_html import Page
from tests.test_score_tables import scores_of

HOSTILE = """<script>alert("1")</script><img src=x onerror='alert(2)'> & "so" on"""
SWEPT = [
    {"threshold": threshold, "in_use": threshold == 0.4, "phrases_per_study": 9 - 8 * threshold,
     **{f"findings_{average}_{figure}": threshold for average in ("micro", "macro", "example")
        for figure in ("f1", "precision", "recall")}}
    for threshold in (0.1, 0.4, 0.9)
]  # fmt: skip


class Tables(Page):
    """Also the rows of the tables, header included, and the words within each kind of element."""

    def __init__(self, page: str) -> None:
        self.rows: list[list[str]] = []
        self.within: dict[str, list[str]] = {}
        super().__init__(page)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        super().handle_starttag(tag, attrs)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        super().handle_data(data)
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data
        if self.open:
            self.within.setdefault(self.open[-1], []).append(data)


def cells(markdown: str) -> list[list[str]]:
    lines = [line for line in markdown.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def both(folder: Path, writer: dict, *more: Table) -> tuple[str, Tables]:
    scores, _ = scores_of(folder, writer)
    written = page(scores, [*score_tables(scores, []), *more])
    return written.markdown, Tables(written.html)


def test_html_has_the_cells_titles_and_notes_of_the_markdown(tmp_path: Path) -> None:
    cost = Cost(1000, 2000, Trained(None, None, None), "a processor", 20, 0.5, Writing("join", 0.1, None, None))
    markdown, html = both(tmp_path, {"name": "join"}, sweep_table(SWEPT), *cost_tables(cost))
    assert html.rows == cells(markdown)
    assert ["0.4 (in use)", "5.80", *["0.400"] * 7] in html.rows
    assert ["RA-RRG, quoted", "1 × H100", "18", "18"] in html.rows
    assert html.within["h2"] == [line[3:] for line in markdown.splitlines() if line.startswith("## ")]
    for line in markdown.splitlines():
        if line and not line.startswith(("|", "#")):
            said = line.removeprefix("- ").replace("**Not comparable**:", "Not comparable")
            assert said in html.words
    assert html.within["span"] == ["Not comparable"] * markdown.count("**Not comparable**: ") != []


def test_both_files_are_written_and_are_the_same_page(tmp_path: Path) -> None:
    scores_of(tmp_path, {"name": "join"})
    html = Tables((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert html.rows == cells((tmp_path / "report.md").read_text(encoding="utf-8"))


def test_the_sweep_is_drawn_with_the_threshold_in_use(tmp_path: Path) -> None:
    _, html = both(tmp_path, {"name": "join"}, sweep_table(SWEPT))
    lines = [values["points"] for tag, values in html.elements if tag == "polyline"]
    assert len(lines) == 6  # five measures of findings, and the phrases
    assert all(len(points.split()) == len(SWEPT) for points in lines if points)
    assert html.within["figcaption"] == ["Findings", "Phrases"]
    assert "phrases a study 5.8 at threshold 0.4" in html.within["title"]
    # 0.4 of the way from 46 to 626
    assert [values["d"] for tag, values in html.elements if values.get("class") == "mark"][1] == "M278.0 12.0V236.0"


def test_the_page_asks_for_nothing_outside_itself_and_runs_nothing(tmp_path: Path) -> None:
    scores, _ = scores_of(tmp_path, {"name": "join"})
    html = page(scores, [sweep_table(SWEPT)]).html
    found = Page(html)
    for tag, values in found.elements:
        assert tag not in ("script", "iframe", "object", "img")
        assert not [name for name in values if name.startswith("on")]
        for name in ("src", "href", "xlink:href"):
            assert (values.get(name) or "data:").startswith("data:")
    assert "url(" not in html
    assert "@import" not in html
    (policy,) = [values["content"] for _, values in found.elements if "http-equiv" in values]
    assert (policy or "").startswith("default-src 'none'")


def test_what_others_have_written_is_text_and_no_markup(tmp_path: Path) -> None:
    hostile = Table(HOSTILE, HOSTILE, ["", HOSTILE], [[HOSTILE, HOSTILE]], HOSTILE)
    swept = sweep_table(SWEPT)
    chart = swept.charts[0]
    drawn = type(chart)(HOSTILE, HOSTILE, chart.x, {HOSTILE: chart.x}, chart.mark, HOSTILE)
    charted = Table("", "", [""], [], charts=[drawn])
    _, html = both(tmp_path, {"name": "llm", "model": HOSTILE}, hostile, charted)
    assert {tag for tag, _ in html.elements}.isdisjoint({"script", "img"})
    for tag in ("h2", "p", "span", "th", "td", "li", "figcaption", "text"):
        assert any(HOSTILE in said for said in ["".join(html.within[tag]), *html.within[tag]]), tag
    (label,) = [values["aria-label"] for _, values in html.elements if "aria-label" in values]
    assert HOSTILE in (label or "")
