"""Scores beside the paper's tables as a page: Markdown, and HTML that asks for nothing outside itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from rarrg.line_chart import draw
from rarrg.score_tables import Table, paper_figures

_environment = Environment(
    loader=PackageLoader("rarrg"),
    autoescape=select_autoescape(("html.jinja", "svg.jinja"), default=False),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters["draw"] = draw


@dataclass(frozen=True)
class Page:
    """The same page in two forms.

    Attributes:
        markdown: For a repository or a terminal; charts are left out.
        html: For a browser, light or dark as the reader's.
    """

    markdown: str
    html: str


def page(scores: Mapping[str, Any], tables: Sequence[Table]) -> Page:
    """Write the page.

    Args:
        scores: What ``scores.json`` holds.
        tables: The tables, in their order.
    """
    markdown, html = (
        _environment.get_template(f"scores.{kind}.jinja").render(
            **scores, made_by=_made_by(scores), source=paper_figures()["source"], tables=tables
        )
        for kind in ("md", "html")
    )
    return Page(markdown, html)


def _made_by(scores: Mapping[str, Any]) -> list[str]:
    """What the reports say of their making, a line each."""
    lines = []
    for part, values in scores["reports"]["made_by"].items():
        for made in values:
            fields = dict(made) if isinstance(made, dict) else {"": made}
            if "sha256" in fields:
                fields["sha256"] = str(fields["sha256"])[:12]
            told = {name: fields[name] for name in ("", "name", "model", "examples", "sha256") if name in fields}
            lines.append(
                f"{part} of the reports: " + ", ".join(f"{name} {value}".strip() for name, value in told.items())
            )
    return lines
