"""Reports and references in the files of several systems."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from rarrg.errors import RarrgError
from rarrg.metrics.findings import positive_findings
from rarrg.metrics.nlg import tokenise
from rarrg.metrics.report_scores import score_reports
from rarrg.report_files import read_references, read_report_file

TEXTS = {"1": "Lungs are clear.", "b/0": "Heart is enlarged, with an effusion."}


def write(folder: Path, name: str, value: object) -> Path:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("r.jsonl", "".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in TEXTS.items())),
        ("r.csv", 'id,report\n1,Lungs are clear.\nb/0,"Heart is enlarged, with an effusion."\n'),
        ("r.csv", '\ufeffreport,study_id\nLungs are clear.,1\n"Heart is enlarged, with an effusion.",b/0\n'),
        ("r.json", TEXTS),
        ("r.json", [{"id": 1, "report": TEXTS["1"]}, {"study_id": "b/0", "text": TEXTS["b/0"]}]),
        ("r.json", {name: {"image_path": [], "model_prediction": text} for name, text in TEXTS.items()}),
    ],
    ids=["json lines", "csv", "other columns", "dictionary", "list", "rexrank"],
)
def test_every_form_gives_the_same_reports(tmp_path: Path, name: str, value: object) -> None:
    assert read_report_file(write(tmp_path, name, value)).texts == TEXTS


def test_a_folder_of_texts(tmp_path: Path) -> None:
    write(tmp_path, "s1.txt", "Lungs are clear.\n")
    write(tmp_path, "s2.txt", "")
    assert read_report_file(tmp_path).texts == {"s1": "Lungs are clear.", "s2": ""}


def test_of_a_whole_report_the_findings_are_taken(tmp_path: Path) -> None:
    said = {
        "a": "Findings:Lungs are clear. Impression:Normal chest.",
        "b": "FINDINGS: Heart\nenlarged.",
        "c": "No findings: normal. Impression: none.",
    }
    rows = {name: {"model_prediction": text, "section_findings": "x"} for name, text in said.items()}
    texts = read_report_file(write(tmp_path, "r.json", rows)).texts
    assert texts == {"a": "Lungs are clear.", "b": "Heart enlarged.", "c": said["c"]}
    plain = read_report_file(write(tmp_path, "plain.json", said)).texts  # of ReXrank's JSON alone
    assert plain == {**said, "b": "FINDINGS: Heart enlarged."}


def test_references_of_rexrank_are_its_findings(tmp_path: Path) -> None:
    rows = {
        "a": {"image_path": ["a/0.png"], "section_findings": "Lungs\nclear.", "report": "Findings: Lungs clear."},
        "b": {"image_path": ["b/0.png"], "section_findings": float("nan"), "report": "Impression: normal."},
        "c": {"findings": "Heart enlarged.", "model_prediction": "x"},
    }
    assert read_references(write(tmp_path, "r.json", rows)) == {"a": "Lungs clear.", "c": "Heart enlarged."}
    assert read_references(write(tmp_path, "r.csv", "id,report\n1,x\n2,\n")) == {"1": "x"}


def test_lines_are_unwrapped_and_lists_and_paragraphs_are_not(tmp_path: Path) -> None:
    """The labeler ends a sentence at a line: a wrapped denial would affirm."""
    wrapped = "There is no\npleural effusion or\n  pneumothorax.\n\nHeart size\nnormal\n- No acute\n  fracture\n2. Picc"
    unwrapped = "There is no pleural effusion or pneumothorax.\nHeart size normal\n- No acute fracture\n2. Picc"
    write(tmp_path, "s1.txt", wrapped)
    assert read_report_file(tmp_path).texts == {"s1": unwrapped}
    assert not positive_findings([unwrapped])[:, :-1].any()
    assert tokenise(unwrapped) == tokenise(wrapped)
    of_windows = write(tmp_path, "r.json", {"s1": wrapped.replace("\n", "\r\n")})
    assert read_report_file(of_windows).texts == {"s1": unwrapped}
    assert read_references(of_windows) == {"s1": unwrapped}


LONG = [
    "There is no focal consolidation, pleural effusion or pneumothorax. The heart is enlarged.",
    "Small left pleural effusion with basilar atelectasis. No evidence of pneumothorax, edema or acute fracture.",
    "No\n\nPleural effusion is present on the left\n- No pneumothorax\n- Right chest tube",
]


@pytest.mark.parametrize("width", [10, 25, 60])
def test_wrapped_copies_of_references_have_their_findings(tmp_path: Path, width: int) -> None:
    wrapped = {
        str(number): "\n".join(textwrap.fill(line, width, break_long_words=False) for line in text.split("\n"))
        for number, text in enumerate(LONG)
    }
    references = read_references(write(tmp_path, "references.json", dict(enumerate(LONG))))
    reports = read_report_file(write(tmp_path, "reports.json", wrapped)).texts
    scores = score_reports(list(references.values()), [reports[name] for name in references], draws=5)
    values = {row.measure: row.estimate.value for row in scores.rows if row.estimate is not None}
    assert values["findings_micro_f1"] == 1
    assert values["rouge_l"] == pytest.approx(1)
    assert positive_findings(list(references.values()))[:, :-1].any(axis=1).all()


@pytest.mark.parametrize("suffix", ["txt", "json", "jsonl", "csv"])
def test_a_byte_order_mark_is_no_word_of_a_report(tmp_path: Path, suffix: str) -> None:
    said = {"txt": "x", "json": '{"s1": "x"}', "jsonl": '{"id": "s1", "text": "x"}\n', "csv": "id,text\ns1,x\n"}[suffix]
    path = write(tmp_path, f"s1.{suffix}", f"\ufeff{said}")
    assert read_report_file(tmp_path if suffix == "txt" else path).texts == {"s1": "x"}


def test_what_made_the_reports_is_told_once(tmp_path: Path) -> None:
    made = {"model": {"name": "m", "sha256": "ab"}, "store": {"sha256": "cd"}, "version": "1"}
    rows = [
        {"id": str(number), "text": "x", **made, "writer": {"name": "llm", "prompt_tokens": number}}
        for number in range(3)
    ]
    path = write(tmp_path, "r.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    expected = {key: [value] for key, value in made.items()} | {"writer": [{"name": "llm"}]}
    assert read_report_file(path).made_by == expected


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("r.csv", "id,report\n1,x\n1,y\n", "line 3: the id 1 occurs twice"),
        ("r.csv", "name,report\n1,x\n", "line 2: has no id"),
        ("r.csv", "id,said\n1,x\n", "line 2: has no report; it stands under text or report or model_prediction"),
        ("r.csv", "id,report\n", "has no report"),
        (
            "r.csv",
            "id,report\n1,Heart enlarged, with an effusion.\n",
            "line 2: has more fields than the header; put rep",
        ),
        ("r.csv", "id,report\n1\n", "line 2: has no report"),
        ("r.json", '{"1": "x", "1": "y"}', "1 occurs twice in one object"),
        ("r.jsonl", '{"id": "1", "text": "x", "text": "y"}\n', "line 1: text occurs twice in one object"),
        ("r.json", [{"id": "a", "report": 3}], "entry 1: has no report"),
        ("r.json", ["x"], "entry 1: has no id"),
        ("r.json", "3", "must be a dictionary of id and report, or a list"),
        ("r.json", "{", "is not valid JSON"),
        ("r.xlsx", "x", "is no .jsonl, .csv, .json or folder"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, name: str, value: object, message: str) -> None:
    with pytest.raises(RarrgError, match=message):
        read_report_file(write(tmp_path, name, value))
    with pytest.raises(RarrgError, match="is not there"):
        read_report_file(tmp_path / "nothing.txt")
