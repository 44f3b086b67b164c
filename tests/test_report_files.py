"""Reports and references in the files of several systems."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rarrg.errors import RarrgError
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
    assert texts == {"a": "Lungs are clear.", "b": "Heart\nenlarged.", "c": said["c"]}
    assert read_report_file(write(tmp_path, "plain.json", said)).texts == said  # of ReXrank's JSON alone


def test_references_of_rexrank_are_its_findings(tmp_path: Path) -> None:
    rows = {
        "a": {"image_path": ["a/0.png"], "section_findings": "Lungs\nclear.", "report": "Findings: Lungs clear."},
        "b": {"image_path": ["b/0.png"], "section_findings": float("nan"), "report": "Impression: normal."},
        "c": {"findings": "Heart enlarged.", "model_prediction": "x"},
    }
    assert read_references(write(tmp_path, "r.json", rows)) == {"a": "Lungs clear.", "c": "Heart enlarged."}
    assert read_references(write(tmp_path, "r.csv", "id,report\n1,x\n2,\n")) == {"1": "x"}


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
