"""ReXrank's JSON, made up in its layout, to a list of studies and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rarrg.cli import main
from rarrg.report_files import read_references, read_report_file
from rarrg.study_list import ListedStudy, read_list

ENTRIES: dict[str, Any] = {
    "50000001": {
        "image_path": ["/p10/s50000001/a.jpg", "/p10/s50000001/b.jpg"],
        "frontal_lateral": ["lateral", "antero-posterior"],
        "key_image_path": "/p10/s50000001/b.jpg",
        "section_findings": "Lungs are\nclear.",
        "section_impression": float("nan"),
        "report": "Findings: Lungs are\nclear. Impression: None.",
        "context": "Indication: cough.",
    },
    "CXR9_IM-1": {
        "image_path": ["CXR9_IM-1/0.png"],
        "frontal_lateral": ["Frontal"],
        "key_image_path": "CXR9_IM-1/0.png",
        "section_findings": "Heart is enlarged.",
    },
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "input.json"
    path.write_text(json.dumps(ENTRIES), encoding="utf-8")
    return path


def test_the_input_becomes_a_list_of_studies(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "lists" / "studies.json"
    assert main(["rexrank", f"--input={source}", f"--images={tmp_path / 'files'}", f"--out={out}"]) == 0
    files = tmp_path.resolve() / "files"
    assert read_list(out) == [
        ListedStudy("50000001", (files / "p10/s50000001/b.jpg",), (files / "p10/s50000001/a.jpg",)),
        ListedStudy("CXR9_IM-1", (files / "CXR9_IM-1/0.png",), ()),
    ]


def test_reports_go_into_the_output_with_all_that_the_input_says(tmp_path: Path, source: Path) -> None:
    texts = {"CXR9_IM-1": "Large heart.", "50000001": "Clear lungs.", "more": "x"}
    reports = tmp_path / "reports.json"
    reports.write_text(json.dumps(texts), encoding="utf-8")
    out = tmp_path / "output.json"
    assert main(["rexrank", f"--input={source}", f"--reports={reports}", f"--out={out}"]) == 0
    written = json.loads(out.read_text(encoding="utf-8"))
    assert list(written) == list(ENTRIES)
    assert written["CXR9_IM-1"] == {**ENTRIES["CXR9_IM-1"], "model_prediction": "Large heart."}
    assert read_report_file(out).texts == {name: texts[name] for name in ENTRIES}
    assert read_references(out) == {"50000001": "Lungs are clear.", "CXR9_IM-1": "Heart is enlarged."}


def test_a_list_of_studies_becomes_the_input(tmp_path: Path) -> None:
    listed = tmp_path / "studies.csv"
    listed.write_text("id,frontal,lateral\na,f.png;g.png,l.png\nb,,m.png\n", encoding="utf-8")
    out = tmp_path / "rexrank.json"
    assert main(["rexrank", f"--input={listed}", f"--out={out}"]) == 0
    entries = json.loads(out.read_text(encoding="utf-8"))
    assert entries["a"] == {
        "image_path": [str(tmp_path / name) for name in ("f.png", "g.png", "l.png")],
        "frontal_lateral": ["Frontal", "Frontal", "Lateral"],
        "key_image_path": str(tmp_path / "f.png"),
    }
    assert entries["b"]["key_image_path"] == str(tmp_path / "m.png")
    back = tmp_path / "back.json"
    assert main(["rexrank", f"--input={out}", "--images=/", f"--out={back}"]) == 0
    assert read_list(back) == read_list(listed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"frontal_lateral": ["lateral"]}, "entry 50000001: needs image_path and frontal_lateral"),
        ({"image_path": None}, "entry 50000001: needs image_path and frontal_lateral"),
        ({"frontal_lateral": ["lateral", "swimmers"]}, "entry 50000001: unknown view 'swimmers'; expected one of"),
    ],
)
def test_another_form_is_one_line(
    tmp_path: Path, source: Path, change: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source.write_text(json.dumps({"50000001": {**ENTRIES["50000001"], **change}}), encoding="utf-8")
    assert main(["rexrank", f"--input={source}", f"--out={tmp_path / 'o.json'}"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_an_entry_that_is_no_object_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("in", "reports"):
        (tmp_path / f"{name}.json").write_text('{"1": "text"}', encoding="utf-8")
    words = [
        f"--input={tmp_path / 'in.json'}",
        f"--reports={tmp_path / 'reports.json'}",
        f"--out={tmp_path / 'o.json'}",
    ]
    assert main(["rexrank", *words]) == 2
    assert "in.json, entry 1: must be an object, as ReXrank's with image_path\n" in capsys.readouterr().err


def test_a_study_without_a_report_is_one_line(tmp_path: Path, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports = tmp_path / "reports.csv"
    reports.write_text("id,report\n50000001,x\n", encoding="utf-8")
    assert main(["rexrank", f"--input={source}", f"--reports={reports}", f"--out={tmp_path / 'o.json'}"]) == 2
    assert "1 of 2 studies have no report (CXR9_IM-1)" in capsys.readouterr().err
    assert main(["rexrank", f"--input={source}"]) == 2
    assert "--input FILE --out FILE" in capsys.readouterr().err
