from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from rarrg import inference
from rarrg.errors import RarrgError
from rarrg.inference import InferOptions, infer
from rarrg.report.as_text import describe
from rarrg.study_list import read_list
from rarrg.types import Report, RetrievedPhrase
from tests.test_pipeline import PHRASES, build_model, draw_image, save_store


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return str(build_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture
def studies(tmp_path: Path) -> Path:
    """A list of three studies with relative paths: both views, frontal alone, lateral alone."""
    folder = tmp_path / "list"
    (folder / "images").mkdir(parents=True)
    for seed in range(4):
        draw_image(folder / "images" / f"{seed}.png", seed)
    path = folder / "studies.csv"
    path.write_text("id,frontal,lateral\na,images/0.png,images/1.png\nb,images/2.png,\nc,,images/3.png\n")
    return path


def options(model: str, **changes) -> InferOptions:
    return InferOptions(**{"model": model, "device": "cpu", **changes})


def rows_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_help_costs_no_torch():
    code = (
        "import sys\n"
        "from jsonargparse import ArgumentParser\n"
        "from rarrg.inference import InferOptions\n"
        "ArgumentParser().add_class_arguments(InferOptions)\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_one_study_prints_and_writes_what_was_asked(model: str, studies: Path, tmp_path: Path):
    said: list[str] = []
    images = studies.parent / "images"
    out, html, npz = tmp_path / "report.json", tmp_path / "report.html", tmp_path / "maps.dat"
    chosen = options(
        model, frontal=[images / "0.png"], lateral=[images / "1.png"], out=out, html=html, attention=npz, threshold=0.1
    )
    assert infer(chosen, said.append) == 0

    value = json.loads(out.read_text(encoding="utf-8"))
    assert value["thresholds"] == {"selection": 0.1}
    assert said[0].startswith(value["text"])
    for phrases in value["phrases"].values():
        for phrase in phrases:
            assert phrase["text"] in said[0]
            assert f"{phrase['probability']:.3f}" in said[0]
    with np.load(npz) as maps:
        assert set(maps.files) == {"frontal", "lateral"}
        assert maps["frontal"].shape == (len(value["phrases"]["frontal"]), 4, 4)
    page = html.read_text(encoding="utf-8")
    assert all(phrase["text"] in page for phrase in value["phrases"]["frontal"])
    assert said[1:] == [f"Wrote {path}" for path in (out, html, npz)]


def test_one_study_writes_nothing_unasked(model: str, tmp_path: Path):
    image = draw_image(tmp_path / "a.png", 0)
    infer(options(model, frontal=[image]), lambda line: None)
    assert list(tmp_path.iterdir()) == [image]


def test_table_is_aligned_and_says_what_was_flagged():
    phrases = (RetrievedPhrase("clear lungs", 0.987, 0.5, 3), RetrievedPhrase("no effusion", 0.41, -0.02, 1))
    report = Report("T.", {"frontal": phrases}, {"frontal": ("a.jpg",)}, ("frontal",), 0.4)
    text, blank, view, flag, head, first, second = describe(report).splitlines()
    assert (text, blank, view) == ("T.", "", "frontal view: a.jpg")
    assert "0.4" in flag
    assert head.index("phrase") == first.index("clear lungs") == second.index("no effusion")
    assert head.index("probability") + len("probability") == first.index("0.987") + 5 == second.index("0.410") + 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "--frontal IMAGE, --lateral IMAGE or both"),
        ({"frontal": [Path("nowhere.jpg")]}, "--frontal nowhere.jpg: no such file"),
        (
            {"input": Path("l.csv"), "out": Path("o.jsonl"), "frontal": [Path("a.jpg")]},
            "--frontal is for a single study",
        ),
        ({"input": Path("l.csv"), "out": Path("o.jsonl"), "html": Path("a.html")}, "--html is for a single study"),
        ({"input": Path("l.csv")}, "--out reports.jsonl"),
        ({"input": Path("l.csv"), "out": Path("o.jsonl")}, "l.csv: cannot be read"),
        ({"input": Path("l.txt"), "out": Path("o.jsonl")}, "neither .csv nor .json"),
    ],
)
def test_mistaken_options_are_one_line(changes: dict, message: str):
    with pytest.raises(RarrgError) as caught:
        infer(InferOptions(**changes), lambda line: None)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_model_says_what_to_run(tmp_path: Path):
    image = draw_image(tmp_path / "a.png", 0)
    with pytest.raises(RarrgError, match=r"train\.py --config demo\.yaml"):
        infer(InferOptions(frontal=[image], model=str(tmp_path / "none")), lambda line: None)


def test_a_place_that_cannot_be_written(model: str, tmp_path: Path):
    image = draw_image(tmp_path / "a.png", 0)
    out = tmp_path / ("r" * 253)  # a fair name, but not for the temporary file beside it
    with pytest.raises(RarrgError, match="cannot be written"):
        infer(options(model, frontal=[image], out=out), lambda line: None)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (".", "is a folder; name a file"),
        ("new/deep/file", "there is no folder .*new/deep; make it first"),
        ("a.png/file", "there is no folder .*a.png; make it first"),
        ("r" * 300, "cannot be written"),
    ],
)
@pytest.mark.parametrize("option", ["out", "html", "attention", "input"])
def test_targets_are_checked_before_the_model_is_loaded(
    studies: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, place: str, message: str
):
    monkeypatch.setattr(inference, "_generator", lambda _: pytest.fail("loaded the model"))
    image = draw_image(tmp_path / "a.png", 0)
    chosen = {"input": studies, "out": tmp_path / place} if option == "input" else {option: tmp_path / place}
    before = set(tmp_path.rglob("*"))
    with pytest.raises(RarrgError, match=message) as caught:
        infer(InferOptions(**(chosen if option == "input" else {"frontal": [image], **chosen})), lambda line: None)
    assert "\n" not in str(caught.value)
    assert set(tmp_path.rglob("*")) == before


def test_a_folder_without_the_right_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(inference.os, "access", lambda path, mode: path != tmp_path)
    image = draw_image(tmp_path / "a.png", 0)
    with pytest.raises(RarrgError, match=r"--out .*: the folder .* is not yours to write to"):
        infer(InferOptions(frontal=[image], out=tmp_path / "report.json", model="none/at/all"), lambda line: None)


def test_a_folder_as_image(tmp_path: Path):
    with pytest.raises(RarrgError, match=f"--lateral {tmp_path}: is a folder, not an image"):
        infer(InferOptions(lateral=[tmp_path]), lambda line: None)


def test_home_is_expanded_in_every_path(model: str, studies: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    draw_image(tmp_path / "a.png", 0)
    save_store(tmp_path / "store", PHRASES[:2])
    images = {"frontal": [Path("~/a.png")], "lateral": [Path("~/a.png")]}
    infer(options(model, **images, store=Path("~/store"), out=Path("~/report.json")), lambda line: None)
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["images"] == {"frontal": [str(tmp_path / "a.png")], "lateral": [str(tmp_path / "a.png")]}

    (tmp_path / "l.csv").write_text("id,frontal,lateral\n1,~/a.png,\n2,~no such user.png,list/images/0.png\n")
    assert [(study.frontal, study.lateral) for study in read_list(tmp_path / "l.csv")] == [
        ((tmp_path / "a.png",), ()),
        ((tmp_path / "~no such user.png",), (tmp_path / "list/images/0.png",)),
    ]
    said: list[str] = []
    assert infer(options(model, input=Path("~/l.csv"), out=Path("~/r.jsonl")), said.append) == 0
    assert said == [
        f"1 reports written to {tmp_path / 'r.jsonl'}",
        f"1 of 2 studies failed: see {tmp_path / 'r.jsonl.failed.jsonl'}",
    ]


def test_list_gives_each_study_the_report_it_gets_alone(model: str, studies: Path, tmp_path: Path):
    out = tmp_path / "reports.jsonl"
    said: list[str] = []
    assert infer(options(model, input=studies, out=out), said.append) == 0
    rows = rows_of(out)
    assert [row["id"] for row in rows] == ["a", "b", "c"]
    assert [list(row["phrases"]) for row in rows] == [["frontal", "lateral"], ["frontal"], ["lateral"]]
    assert said == [f"3 reports written to {out}"]
    infer(options(model, frontal=[studies.parent / "images/2.png"], out=tmp_path / "b.json"), lambda line: None)
    alone = json.loads((tmp_path / "b.json").read_text(encoding="utf-8"))
    assert {**rows[1], "phrases": None} == {"id": "b", **alone, "phrases": None}
    assert [phrase["text"] for phrase in rows[1]["phrases"]["frontal"]] == [
        phrase["text"] for phrase in alone["phrases"]["frontal"]
    ]


@pytest.mark.parametrize("cut", [0, 1, 7, 40])
def test_resuming_redoes_the_torn_line_and_nothing_else(model: str, studies: Path, tmp_path: Path, cut: int):
    out = tmp_path / "reports.jsonl"
    infer(options(model, input=studies, out=out), lambda line: None)
    whole = out.read_bytes()
    first, second, _ = whole.splitlines(keepends=True)
    marked = first.replace(b'"text": "', b'"text": "KEPT ', 1)
    out.write_bytes(marked + second[:cut])
    infer(options(model, input=studies, out=out), lambda line: None)
    assert out.read_bytes() == whole.replace(first, marked)


def test_resuming_a_finished_list_changes_nothing(model: str, studies: Path, tmp_path: Path):
    out = tmp_path / "reports.jsonl"
    infer(options(model, input=studies, out=out), lambda line: None)
    before = out.read_bytes()
    said: list[str] = []
    assert infer(options(model, input=studies, out=out), said.append) == 0
    assert out.read_bytes() == before
    assert said[0] == f"3 of 3 studies are in {out} already"


def test_reports_made_otherwise_are_not_continued(model: str, studies: Path, tmp_path: Path):
    out = tmp_path / "reports.jsonl"
    infer(options(model, input=studies, out=out), lambda line: None)
    before = out.read_bytes()
    save_store(tmp_path / "store", PHRASES[:2])
    for changes, named in (({"threshold": 0.5}, "threshold 0.5"), ({"store": tmp_path / "store"}, "store ")):
        with pytest.raises(RarrgError, match=f"this run has .*{named}.*choose another --out"):
            infer(options(model, input=studies, out=out, **changes), lambda line: None)
    assert out.read_bytes() == before


def test_the_report_of_another_image_is_not_kept(model: str, studies: Path, tmp_path: Path):
    """A path of the list was mended; that the list lies elsewhere now changes nothing."""
    out = tmp_path / "reports.jsonl"
    infer(options(model, input=studies, out=out), lambda line: None)
    moved = shutil.copytree(studies.parent, tmp_path / "moved", ignore=shutil.ignore_patterns("reports*", "moved"))
    said: list[str] = []
    assert infer(options(model, input=moved / studies.name, out=out), said.append) == 0
    assert said[0] == f"3 of 3 studies are in {out} already"
    rows = list(csv.DictReader(studies.open()))
    rows[1]["frontal"] = rows[0]["frontal"]
    with studies.open("w") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    with pytest.raises(RarrgError, match=rf"the report of study {rows[1]['id']} is of other images than .*\.csv names"):
        infer(options(model, input=studies, out=out), lambda line: None)


def test_a_file_that_two_runs_wrote_to_is_refused(model: str, studies: Path, tmp_path: Path):
    out = tmp_path / "reports.jsonl"
    infer(options(model, input=studies, out=out), lambda line: None)
    out.write_bytes(out.read_bytes() * 2)
    with pytest.raises(RarrgError, match=r"line 4: study \w+ has a report already; did two runs write to it"):
        infer(options(model, input=studies, out=out), lambda line: None)


def test_a_file_that_another_run_writes_to_is_left_to_it(model: str, studies: Path, tmp_path: Path):
    out = tmp_path / "reports.jsonl"
    with FileLock(tmp_path / ".reports.jsonl.lock"):
        with pytest.raises(RarrgError, match=re.escape(f"{out}: another run writes there")):
            infer(options(model, input=studies, out=out), lambda line: None)
        assert not out.exists()
        infer(options(model, input=studies, out=tmp_path / "others.jsonl"), lambda line: None)
    infer(options(model, input=studies, out=out), lambda line: None)
    assert rows_of(out) == rows_of(tmp_path / "others.jsonl")


def test_a_path_of_no_characters_fails_alone(model: str, studies: Path, tmp_path: Path):
    listed = json.loads(json.dumps([*csv.DictReader(studies.open())]))
    listed += [{"id": "zero", "frontal": "a\0.png"}, {"id": "half", "frontal": "a\ud800.png"}]
    (studies.parent / "list.json").write_text(json.dumps(listed))
    out = tmp_path / "reports.jsonl"
    assert infer(options(model, input=studies.parent / "list.json", out=out), lambda line: None) == 0
    failed = rows_of(tmp_path / "reports.jsonl.failed.jsonl")
    assert [row["id"] for row in failed] == ["zero", "half"]


@pytest.mark.parametrize("content", ["my notes", "my notes\n", '{"a": 1}\n', "[1]\n", "\n"])
def test_a_foreign_file_is_left_alone(model: str, studies: Path, tmp_path: Path, content: str):
    out = tmp_path / "reports.jsonl"
    out.write_text(content)
    with pytest.raises(RarrgError, match="choose another --out"):
        infer(options(model, input=studies, out=out), lambda line: None)
    assert out.read_text() == content


def test_unreadable_studies_are_set_apart_and_tried_again(model: str, studies: Path, tmp_path: Path):
    broken = studies.parent / "images/2.png"
    good = broken.read_bytes()
    broken.write_text("no image")
    out, failed = tmp_path / "reports.jsonl", tmp_path / "reports.jsonl.failed.jsonl"
    said: list[str] = []
    assert infer(options(model, input=studies, out=out), said.append) == 0
    assert [row["id"] for row in rows_of(out)] == ["a", "c"]
    (failure,) = rows_of(failed)
    assert failure["id"] == "b"
    assert "2.png" in failure["error"]
    assert said == [f"2 reports written to {out}", f"1 of 3 studies failed: see {failed}"]

    broken.write_bytes(good)
    assert infer(options(model, input=studies, out=out), lambda line: None) == 0
    assert sorted(row["id"] for row in rows_of(out)) == ["a", "b", "c"]
    assert not failed.exists()


def test_status_is_1_if_every_study_failed(model: str, tmp_path: Path):
    (tmp_path / "l.json").write_text('[{"id": 1, "frontal": "x.png"}, {"id": 2, "lateral": "y.png"}]')
    out = tmp_path / "reports.jsonl"
    assert infer(options(model, input=tmp_path / "l.json", out=out), lambda line: None) == 1
    assert [row["id"] for row in rows_of(tmp_path / "reports.jsonl.failed.jsonl")] == ["1", "2"]


def test_csv_and_json_lists_say_the_same(tmp_path: Path):
    values = [
        {"id": "1", "frontal": "a b.png", "lateral": "/abs/l.png"},
        {"id": "ü,2", "frontal": None, "lateral": "x/l.png; x/m.png"},
    ]
    (tmp_path / "l.json").write_text(json.dumps(values), encoding="utf-8")
    with (tmp_path / "l.csv").open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, ["lateral", "id", "frontal"])
        writer.writeheader()
        writer.writerows(values)
    from_csv, from_json = read_list(tmp_path / "l.csv"), read_list(tmp_path / "l.json")
    assert from_csv == from_json
    first, second = from_csv
    assert (first.id, first.frontal, first.lateral) == ("1", (tmp_path / "a b.png",), (Path("/abs/l.png"),))
    assert (second.id, second.frontal, second.lateral) == ("ü,2", (), (tmp_path / "x/l.png", tmp_path / "x/m.png"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("l.csv", "", "lists no study"),
        ("l.csv", "id,frontal,lateral\n", "lists no study"),
        ("l.csv", "id,forntal\n1,a.png\n", "line 2: .*unknown: forntal"),
        ("l.csv", "id;frontal\n1;a.png\n", "the separator must be a comma .*id;frontal"),
        ("l.csv", "id\tfrontal\n1\ta.png\n", "the separator must be a comma"),
        ("l.csv", "frontal\na.png\n", "id is missing"),
        ("l.csv", "id,frontal,frontal\n1,a.png,b.png\n", "has the column frontal twice"),
        ("l.json", '[{"id": "1", "frontal": "a.png", "frontal": "b.png"}]', "frontal.* twice"),
        ("l.csv", "id,frontal\n1,a.png\n1,b.png\n", "line 3: the id 1 occurs twice"),
        ("l.csv", "id,frontal\n ,a.png\n", "the id is empty"),
        ("l.csv", "id,frontal,lateral\n1,,\n", "study 1 has neither"),
        ("l.csv", "id,frontal\n1,a.png,b.png\n", "line 2: .*more than the header"),
        ("l.csv", 'id,frontal\n1,"a.png\n', "is not a UTF-8 CSV"),
        ("l.json", "{}", "must be a list of objects"),
        ("l.json", '["a"]', "must be a list of objects"),
        ("l.json", "[", "is not valid JSON"),
        ("l.json", '[{"id": "1", "frontal": [1]}]', "entry 1: .* must be text"),
    ],
)
def test_malformed_lists_are_named_by_row(tmp_path: Path, name: str, content: str, message: str):
    (tmp_path / name).write_text(content)
    with pytest.raises(RarrgError, match=message) as caught:
        read_list(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)
