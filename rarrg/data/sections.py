"""Report text to named sections, by the rules that MIT-LCP used for ``mimic_cxr_sectioned.csv``.

Source: github.com/MIT-LCP/mimic-cxr, ``txt/section_parser.py`` and ``create_section_files.py``. The lists of header
names are theirs, slips included (``ndication`` counts as an impression), because the public splits rest on them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# One space after the line break, capitals, a colon: " FINDINGS: ", " CHEST (PA AND LAT):".
_HEADER = re.compile(r"\n ([A-Z ()/,-]+):\s")

_SPELLINGS = {
    "impression": (
        "conclusion",
        "findings and impression",
        "findings/impression",
        "findings/ impression",
        "ndication",
        "impresson",
        "imprression",
        "imoression",
        "impressoin",
        "imprssion",
        "impresion",
        "imperssion",
        "mpression",
        "impession",
    ),
    "findings": (
        "chest, two views",
        "finding",
        "findins",
        "findindgs",
        "findgings",
        "findngs",
        "findnings",
        "finidngs",
        "reference findings",
    ),
    "comparison": (
        "comparisons",
        "reference exam",
        "comparison exam",
        "comparison film",
        "comparision",
        "comparsion",
        "comparrison",
        "comparisions",
    ),
    "indication": ("reason for examination", "reason for exam", "clinical indication", "idication"),
    "history": ("clinical history", "clinical information", "patient history", "pfi"),
    "examination": ("exam", "type of examination"),
    "recommendations": ("recommendation(s)", "recommendation"),
    "wet read": ("wetread",),
    "preamble": (),
    "technique": (),
    "notification": (),
    "addendum": (),
    "date": (),
    "comment": (),
}
_EXACT = {spelling: name for name, spellings in _SPELLINGS.items() for spelling in (name, *spellings)}

# A header that holds one of these words is that section; the first that fits wins.
_CONTAINED = ("impression", "findings", "history", "comparison", "addendum")

# A header that describes the images stands over the findings.
_VIEW_PHRASES = (
    "chest",
    "portable",
    "pa and lateral",
    "lateral and pa",
    "ap and lateral",
    "lateral and ap",
    "frontal and",
    "two views",
    "frontal view",
    "pa view",
    "ap view",
    "one view",
    "lateral view",
    "bone window",
    "frontal upright",
    "frontal semi-upright",
    "ribs",
    "pa and lat",
)

_PARAGRAPH_BREAK = "\n \n"
_EXTRACTED = ("impression", "findings", "last_paragraph", "comparison")


class Section(NamedTuple):
    """A stretch of a report.

    Attributes:
        name: Normalised name, as ``findings``; a header of no known name keeps its own, in lower case.
        text: The text below the header as the report has it, line breaks and indents included.
    """

    name: str
    text: str


def one_line(text: str) -> str:
    """Collapse every run of whitespace to one space and strip the ends."""
    return " ".join(text.split())


def split_sections(report: str) -> list[Section]:
    r"""Split a report at its headers.

    A header is a line break, one space, capitals (with space, ``()/,-``) and a colon. Text before the first header is
    ``preamble``; a report without a header is one section ``full report``. After a header the next one is looked for
    only from the next line break on, so that a view line right below ``FINDINGS:`` does not cut the section. Empty
    ``impression`` and ``findings`` sections are dropped; when neither is left, what follows the first ``\n \n`` of the
    last section becomes ``last_paragraph``.

    Args:
        report: A whole report.

    Returns:
        The sections in the report's order; a name may occur more than once.
    """
    sections = [
        section
        for section in _cut_at_headers(report)
        if section.name not in ("impression", "findings") or section.text.strip()
    ]
    if not any(section.name in ("impression", "findings") for section in sections):
        head, paragraph_break, rest = sections[-1].text.partition(_PARAGRAPH_BREAK)
        if paragraph_break:
            sections[-1:] = [Section(sections[-1].name, head), Section("last_paragraph", rest)]
    return sections


def extract_sections(report: str) -> dict[str, str]:
    """Take the last ``impression``, ``findings``, ``last_paragraph`` and ``comparison`` of a report.

    Args:
        report: A whole report.

    Returns:
        Text by section name, stripped at both ends, inner whitespace as the report has it. A section that the report
        lacks has no key.
    """
    return {section.name: section.text.strip() for section in split_sections(report) if section.name in _EXTRACTED}


def _cut_at_headers(report: str) -> list[Section]:
    header = _HEADER.search(report)
    if header is None:
        return [Section("full report", report)]
    sections = [Section("preamble", report[: header.start(1)])]
    while header is not None:
        line_end = report.find("\n", header.end())
        following = _HEADER.search(report, line_end) if line_end >= 0 else None
        end = following.start() if following is not None else len(report)
        sections.append(Section(_normalise(header.group(1)), report[header.end() : end]))
        header = following
    return sections


def _normalise(header: str) -> str:
    name = header.lower().strip()
    if name in _EXACT:
        return _EXACT[name]
    for main in _CONTAINED:
        if main in name:
            return main
    return "findings" if any(phrase in name for phrase in _VIEW_PHRASES) else name
