"""rarrg score: what it writes, what it refuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from rarrg.cli import main
from rarrg.metrics.report_scores import score_reports

REFERENCES = {
    "1": "Small left pleural effusion.",
    "2": "The heart is enlarged.",
    "3": "The lungs are clear.",
    "4": "No pneumothorax.",
}
REPORTS = {"1": "Left pleural effusion.", "2": "The heart is normal.", "3": "The lungs are clear.", "4": "Stable."}
MANIFEST = "study_id,view,image_path,findings,impression,split\n"


def write(path: Path, value: object) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A manifest of the references as test studies, and a training study that says what study 3 says."""
    rows = [f"{name},frontal,images/{name}.png,{text},,test" for name, text in REFERENCES.items()]
    rows += ["5,frontal,images/5.png,the lungs are CLEAR,,train", "6,frontal,images/6.png,,None.,test"]
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder / "manifest.csv", MANIFEST + "\n".join(rows) + "\n")
    return folder


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def score(tmp_path: Path, *more: str, reports: object = REPORTS) -> tuple[int, Path]:
    out = tmp_path / "scores"
    path = write(tmp_path / "reports.json", reports)
    return main(["score", f"--reports={path}", f"--out={out}", "--draws=40", *more]), out


def test_a_protocol_is_scored_over_all_and_over_unseen_references(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out = score(tmp_path, f"--data.root={data}")
    assert status == 0
    scores = json.loads((out / "scores.json").read_text(encoding="utf-8"))
    assert scores["protocol"]["name"] == "studies"
    assert scores["protocol"]["samples"] == 4
    assert scores["reports"] == {"scored": 4, "missing": 0, "surplus": 0, "empty": 0, "seen": 1, "made_by": {}}
    assert set(scores["not_computed"]) == {"chexbert", "radgraph"}
    for scope, left_out in (("all", ""), ("unseen", "3")):
        kept = [name for name in REFERENCES if name != left_out]
        expected = score_reports([REFERENCES[n] for n in kept], [REPORTS[n] for n in kept], draws=40)
        measured = scores["scopes"][scope]
        assert measured.keys() == {row.measure for row in expected.rows if row.estimate}
        for row in expected.rows:
            if row.estimate is not None:
                found = measured[row.measure]
                assert (found["value"], found["low"], found["high"], found["reports"]) == (*row.estimate, len(kept))
    table = rows(out / "scores.csv")
    assert {row["scope"] for row in table} == {"all", "unseen"}
    (found,) = [row for row in table if (row["scope"], row["measure"]) == ("unseen", "rouge_l")]
    assert float(found["value"]) == scores["scopes"]["unseen"]["rouge_l"]["value"]
    printed = capsys.readouterr().out
    assert "chexbert: not computed; --chexbert=PATH" in printed
    assert "radgraph: not computed; --radgraph.weights=DIR" in printed
    assert "rouge_l" in printed


def test_single_reports_have_scores_and_no_wording(tmp_path: Path, data: Path) -> None:
    _, out = score(tmp_path, f"--data.root={data}")
    lines = [json.loads(line) for line in (out / "per_sample.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(line["id"], line["seen"]) for line in lines] == [("1", False), ("2", False), ("3", True), ("4", False)]
    assert [line["rouge_l"] for line in lines][2] == 1
    assert [line["comparison_count"] for line in lines] == [0, 0, 0, 1]
    assert {type(value) for line in lines for key, value in line.items() if key not in ("id", "seen")} == {float}
    labels = rows(out / "labels.csv")
    (effusion,) = [row for row in labels if (row["scope"], row["label"]) == ("all", "Pleural Effusion")]
    assert (effusion["labeler"], effusion["support"], effusion["tp"], effusion["fp"]) == ("findings", "1", "1", "0")
    for path in out.iterdir():
        assert b"pleural effusion." not in path.read_bytes().lower(), path.name


def test_references_may_come_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    references = write(tmp_path / "r.csv", "id,report\n" + "".join(f"{n},{text}\n" for n, text in REFERENCES.items()))
    status, out = score(tmp_path, f"--references={references}")
    assert status == 0
    scores = json.loads((out / "scores.json").read_text(encoding="utf-8"))
    assert scores["protocol"]["name"] == "references"
    assert list(scores["scopes"]) == ["all"]
    assert "no scope unseen" in capsys.readouterr().out


def test_missing_and_surplus_reports_are_listed_and_let_pass_on_demand(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = {"1": REPORTS["1"], "2": "", "3": "x", "77": "y"}
    status, out = score(tmp_path, f"--data.root={data}", reports=odd)
    assert status == 2
    error = capsys.readouterr().err
    assert "1 of 4 samples have no report and 1 of 4 reports no sample" in error
    assert "--allow-missing" in error
    assert [tuple(row.values()) for row in rows(out / "unmatched.csv")] == [("4", "missing"), ("77", "surplus")]
    assert not (out / "scores.json").exists()

    status, out = score(tmp_path, f"--data.root={data}", "--allow-missing", reports=odd)
    assert status == 0
    scores = json.loads((out / "scores.json").read_text(encoding="utf-8"))
    counts = {"scored": 3, "missing": 1, "surplus": 1, "empty": 1}
    assert {key: scores["reports"][key] for key in counts} == counts
    assert scores["protocol"]["samples"] == 4


def test_one_in_a_hundred_may_lack(tmp_path: Path) -> None:
    texts = {str(number): f"opacity {number}" for number in range(100)}
    references = write(tmp_path / "r.json", texts)
    for lacking, expected in ((1, 0), (2, 2)):
        reports = dict(list(texts.items())[lacking:])
        assert score(tmp_path, f"--references={references}", reports=reports)[0] == expected


def test_a_protocol_of_another_size_warns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entries = [{"id": n, "image_path": [f"{n}/0.png", f"{n}/1.png"], "report": t} for n, t in REFERENCES.items()]
    write(tmp_path / "annotation.json", {"train": [], "val": [], "test": entries})
    status, _ = score(tmp_path, "--protocol=iu-r2gen", f"--data.root={tmp_path}")
    assert status == 0
    assert "warning: iu-r2gen has 4 samples here, 590 in the literature" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "name either the data of the protocol (--data.root DIR) or references (--references FILE)"),
        (["--references=r.csv", "--data.root=d"], "name either the data of the protocol"),
        (["--references=r.csv", "--protocol=mimic-single"], "--protocol mimic-single is made of its data (--data.root"),
        (["--data.root=nowhere"], "data.root: no folder nowhere"),
        (["--references=nothing.csv"], "nothing.csv: cannot be read"),
        (["--protocol=mimic"], "protocol: expected one of 'studies', 'mimic-single'"),
        (["--draws=0"], "draws: must be at least 1, got 0"),
        (["--chexbrt=x"], "unknown key chexbrt; did you mean chexbert?"),
    ],
)
def test_a_mistake_is_one_line(
    tmp_path: Path, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _ = score(tmp_path, *more)
    assert status == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_other_ids_and_missing_weights_are_one_line(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert score(tmp_path, f"--data.root={data}", reports={"a": "x"})[0] == 2
    assert "none of the 1 reports has the id of one of the 4 samples" in capsys.readouterr().err
    assert score(tmp_path, f"--data.root={data}", f"--chexbert={tmp_path / 'no.pth'}")[0] == 2
    assert "no.pth: is not there; fetch chexbert.pth" in capsys.readouterr().err
    assert main(["score", f"--data.root={data}"]) == 2
    assert "name the reports and the folder of the scores: --reports FILE --out DIR" in capsys.readouterr().err
