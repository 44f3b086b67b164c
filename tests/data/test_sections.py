from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rarrg.data.sections import Section, extract_sections, one_line, split_sections

# Empty lines hold one space and a header may end in one, as in the data set.
REPORT = "\n".join(
    [
        "                                 FINAL REPORT",
        " EXAMINATION:  Chest radiograph",
        " ",
        " INDICATION:  ___M with cough",
        " ",
        " COMPARISON:  None.",
        " ",
        " FINDINGS: ",
        " ",
        " The lungs are clear.  There is no pleural",
        " effusion.",
        " ",
        " IMPRESSION: ",
        " ",
        " No acute process.",
        "",
    ]
)


def names(report: str) -> list[str]:
    return [section.name for section in split_sections(report)]


def name_of(header: str) -> str:
    """The normalised name that a header gets."""
    return split_sections(f"A title\n {header}: Some text.")[1].name


def test_report_is_cut_at_its_headers():
    assert names(REPORT) == ["preamble", "examination", "indication", "comparison", "findings", "impression"]
    assert split_sections(REPORT)[2].text == " ___M with cough\n "


def test_extracted_text_is_stripped_and_keeps_its_inner_whitespace():
    assert extract_sections(REPORT) == {
        "comparison": "None.",
        "findings": "The lungs are clear.  There is no pleural\n effusion.",
        "impression": "No acute process.",
    }


def test_preamble_ends_with_the_indent_of_the_first_header():
    assert split_sections("Title\n FINDINGS: Clear.")[0] == Section("preamble", "Title\n ")


def test_report_without_a_header_is_one_full_report():
    report = "Chest film. The lungs are clear."
    assert split_sections(report) == [Section("full report", report)]
    assert extract_sections(report) == {}


@pytest.mark.parametrize(
    "report",
    [
        "FINDINGS: At the very start.",
        "A\nFINDINGS: No indent.",
        "A\n Findings: Small letters.",
        "A\n FINDINGS 2: A digit.",
        "A\n FINDINGS:No space.",
    ],
)
def test_what_is_no_header(report: str):
    assert "findings" not in names(report)


def test_two_spaces_of_indent_are_a_header_only_where_one_belongs_to_the_name():
    assert names("A\n  FINDINGS: Clear.") == ["preamble", "findings"]


def test_header_right_below_a_header_does_not_cut_the_section():
    report = "A\n FINDINGS:\n PA AND LATERAL VIEWS:  The lungs are clear.\n IMPRESSION: Normal."
    assert extract_sections(report) == {
        "findings": "PA AND LATERAL VIEWS:  The lungs are clear.",
        "impression": "Normal.",
    }


def test_header_below_a_header_with_trailing_space_does_cut_it():
    report = "A\n FINDINGS: \n IMPRESSION: Normal."
    assert extract_sections(report) == {"impression": "Normal."}


def test_header_in_the_last_line_is_found():
    assert names("A\n FINDINGS: Clear.\n IMPRESSION: ") == ["preamble", "findings"]
    assert names("A\n FINDINGS: Clear.\n COMPARISON: ") == ["preamble", "findings", "comparison"]


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("CONCLUSION", "impression"),
        ("FINDINGS AND IMPRESSION", "impression"),
        ("FINDINGS/IMPRESSION", "impression"),
        ("IMPRESSON", "impression"),
        ("NDICATION", "impression"),
        ("CHEST, TWO VIEWS", "findings"),
        ("FINDING", "findings"),
        ("FINDINS", "findings"),
        ("FINIDNGS", "findings"),
        ("PFI", "history"),
        ("CLINICAL INFORMATION", "history"),
        ("REASON FOR EXAM", "indication"),
        ("IDICATION", "indication"),
        ("REFERENCE EXAM", "comparison"),
        ("COMPARISION", "comparison"),
        ("EXAM", "examination"),
        ("RECOMMENDATION(S)", "recommendations"),
        ("WETREAD", "wet read"),
        ("TECHNIQUE", "technique"),
        (" FINDINGS ", "findings"),
    ],
)
def test_known_spellings(header: str, name: str):
    assert name_of(header) == name


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("IMPRESSION AND RECOMMENDATION", "impression"),
        ("FINDINGS WITH IMPRESSION", "impression"),  # impression is looked for before findings
        ("COMPARISON AND FINDINGS", "findings"),  # findings before comparison
        ("COMPARISON AND HISTORY", "history"),  # history before comparison
        ("COMPARISON CHEST FILM", "comparison"),  # a word of the list before a view phrase
        ("ADDENDUM BY DR", "addendum"),
    ],
)
def test_contained_names_in_their_order(header: str, name: str):
    assert name_of(header) == name


@pytest.mark.parametrize(
    "header",
    [
        "PORTABLE SUPINE FILM",
        "CHEST (PA)",
        "PA AND LATERAL",
        "LATERAL AND AP FILMS",
        "FRONTAL AND OBLIQUE",
        "LEFT RIBS",
        "BONE WINDOWS",
        "FRONTAL SEMI-UPRIGHT",
        "PA AND LAT",
    ],
)
def test_view_phrases_stand_over_findings(header: str):
    assert name_of(header) == "findings"


def test_unknown_header_keeps_its_name_in_lower_case():
    assert name_of("NOTE TO FILE") == "note to file"


def test_empty_findings_and_impression_are_dropped_other_empty_sections_stay():
    report = "A\n CHEST, PA LATERAL: \n \n HISTORY: \n \n FINDINGS: Clear.\n \n IMPRESSION: \n "
    assert names(report) == ["preamble", "history", "findings"]


def test_last_section_of_a_name_wins():
    report = "A\n FINDINGS: First reading.\n IMPRESSION: Old.\n FINDINGS: Second reading.\n IMPRESSION: New."
    assert names(report).count("findings") == 2
    assert extract_sections(report) == {"findings": "Second reading.", "impression": "New."}


def test_an_empty_last_section_does_not_win():
    assert extract_sections("A\n FINDINGS: Kept.\n PORTABLE CHEST: \n") == {"findings": "Kept."}


def test_last_paragraph_is_what_follows_the_first_empty_line_of_the_last_section():
    report = "A\n \n INDICATION: Cough.\n \n COMPARISON: None.\n \n The lungs are clear.\n \n No effusion."
    assert split_sections(report)[-2:] == [
        Section("comparison", "None."),
        Section("last_paragraph", " The lungs are clear.\n \n No effusion."),
    ]
    assert extract_sections(report)["last_paragraph"] == "The lungs are clear.\n \n No effusion."


def test_last_paragraph_of_a_report_without_headers():
    assert extract_sections("Portable film.\n \n The lungs are clear.") == {"last_paragraph": "The lungs are clear."}


@pytest.mark.parametrize("header", ["FINDINGS", "IMPRESSION"])
def test_no_last_paragraph_beside_findings_or_impression(header: str):
    report = f"A\n {header}: Clear.\n COMPARISON: None.\n \n Read by the resident."
    assert "last_paragraph" not in names(report)


def test_no_last_paragraph_without_an_empty_line():
    assert extract_sections("A\n COMPARISON: None.\n Clear.") == {"comparison": "None.\n Clear."}


def test_last_paragraph_after_only_empty_findings():
    assert extract_sections("A\n COMPARISON: None.\n \n Clear.\n FINDINGS: \n")["last_paragraph"] == "Clear."


def test_one_line():
    assert one_line("  The lungs\n are\t clear. \n") == "The lungs are clear."
    assert one_line(" \n ") == ""


pieces = st.sampled_from(
    [
        "\n",
        "\n ",
        "\n \n",
        " ",
        "text",
        "\n FINDINGS: ",
        "\n IMPRESSION:\n",
        "\n COMPARISON: a",
        "\n PORTABLE CHEST:\n ",
    ]
)


@given(st.lists(pieces, max_size=12).map("".join))
def test_any_text_gives_sections_of_that_text(report: str):
    sections = split_sections(report)
    position = 0
    for section in sections:
        position = report.index(section.text, position) + len(section.text)
    extracted = extract_sections(report)
    assert all(text == text.strip() for text in extracted.values())
    assert not {"findings", "impression"} & {s.name for s in sections if not s.text.strip()}
    assert "last_paragraph" not in extracted or not {"findings", "impression"} & extracted.keys()
