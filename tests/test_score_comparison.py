"""rarrg compare: two output folders of rarrg score."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from rarrg.cli import main
from rarrg.metrics.report_scores import compare_reports, score_reports
from rarrg.protocols import Protocol, Sample
from rarrg.report_files import Reports
from rarrg.score_comparison import CompareOptions, compare
from rarrg.scorers import ScorerConfig, Scorers
from rarrg.scoring import score_samples

REFERENCES = [f"{size} {side} pleural effusion." for size in ("Small", "Large") for side in ("left", "right")] * 5
GOOD = [text.replace("pleural ", "") for text in REFERENCES]
BAD = ["The lungs are clear.", "Stable left effusion."] * 10
NAMES = [f"s{number}" for number in range(len(REFERENCES))]


def protocol(name: str = "studies", references: list[str] = REFERENCES, training: int = 9) -> Protocol:
    samples = [Sample(n, {}, text, seen=text.startswith("Large")) for n, text in zip(NAMES, references, strict=True)]
    return Protocol(name, tuple(samples), training_reports=training)


def scored(
    out: Path,
    texts: list[str],
    names: list[str] = NAMES,
    of: Protocol | None = None,
    scorers: Scorers | None = None,
) -> Path:
    reports = Reports(dict(zip(names, texts, strict=False)))
    score_samples(of or protocol(), reports, scorers or Scorers(ScorerConfig()), out, lambda _: None, 1, 20)
    return out


def test_the_differences_are_those_of_the_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = scored(tmp_path / "good", GOOD), scored(tmp_path / "bad", BAD)
    assert main(["compare", str(good), str(bad), "--draws=60", "--seed=3", f"--out={tmp_path / 'out'}"]) == 0
    printed = capsys.readouterr().out
    assert "20 samples of studies in common; first minus second" in printed
    assert "all rouge_l" in printed
    with (tmp_path / "out" / "compare.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    unseen = np.array([text.startswith("Small") for text in REFERENCES])
    for scope, where in (("all", np.ones(20, dtype=bool)), ("unseen", unseen)):
        ours, theirs = (score_reports(REFERENCES, texts, where=where, draws=5) for texts in (GOOD, BAD))
        expected = compare_reports(ours, theirs, draws=60, seed=3)
        of_scope = {row["measure"]: row for row in rows if row["scope"] == scope}
        assert of_scope.keys() == expected.keys()
        for measure, difference in expected.items():
            row = of_scope[measure]
            found = [float(row[key]) for key in ("difference", "low", "high", "p_value")]
            assert found == pytest.approx(list(difference))
            assert float(row["first"]) - float(row["second"]) == pytest.approx(found[0])
            assert int(row["reports"]) == where.sum()
    written = json.loads((tmp_path / "out" / "compare.json").read_text(encoding="utf-8"))
    assert (written["common"], written["second"]["reports"]) == (20, 20)


def test_only_common_samples_are_compared_whatever_their_order(tmp_path: Path) -> None:
    mixed = BAD[:8] + GOOD[8:]
    good = scored(tmp_path / "good", mixed[:15], NAMES[:15])
    reverse = scored(tmp_path / "reverse", mixed[::-1][:15], NAMES[::-1][:15])
    lines: list[str] = []
    found = compare(good, reverse, CompareOptions(draws=20), lines.append)
    assert lines[0].startswith("10 samples")
    assert {each.reports for each in found if each.scope == "all"} == {10}
    assert all((each.difference, each.p_value) == (0, 1) for each in found)


def test_an_evaluation_s_folder_stands_for_its_scores(tmp_path: Path) -> None:
    good = scored(tmp_path / "evaluation" / "report_scores", GOOD).parent
    assert compare(good, scored(tmp_path / "bad", BAD), CompareOptions(draws=20), lambda _: None)


def test_where_training_reports_are_not_known_there_is_no_scope_unseen(tmp_path: Path) -> None:
    good = scored(tmp_path / "good", GOOD)
    bad = scored(tmp_path / "bad", BAD, of=protocol(training=0))
    assert {each.scope for each in compare(good, bad, CompareOptions(draws=20), lambda _: None)} == {"all"}


def test_other_scorers_are_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    classes = [np.zeros((20, 14), dtype=np.int64)] * 2
    folders = []
    for version in ("chexbert aa", "chexbert bb", None):
        scorers = Scorers(ScorerConfig())
        scorers.versions = {"chexbert": version} if version else {}
        monkeypatch.setattr(Scorers, "run", lambda self, *_: {"chexbert": classes} if self.versions else {})
        folders.append(scored(tmp_path / str(version), GOOD, scorers=scorers))
    lines: list[str] = []
    found = compare(folders[0], folders[1], CompareOptions(draws=20), lines.append)
    assert not any(each.measure.startswith("chexbert") for each in found)
    assert "chexbert: left out, scored with chexbert aa and chexbert bb" in lines
    compare(folders[0], folders[2], CompareOptions(draws=20), lines.append)
    assert "chexbert: left out, only one of the two was scored with it" in lines
    found = compare(folders[0], folders[0], CompareOptions(draws=20), lines.append)
    assert any(each.measure == "chexbert_micro_f1" for each in found)


def test_what_cannot_be_compared_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = scored(tmp_path / "good", GOOD)
    others = {
        "is of the protocol studies": scored(tmp_path / "r", BAD, of=protocol("references")),
        "are scored against other references": scored(tmp_path / "o", BAD, of=protocol(references=GOOD)),
        "holds no scores.json": tmp_path,
    }
    for message, folder in others.items():
        assert main(["compare", str(good), str(folder)]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    half = [scored(tmp_path / f"half{part}", GOOD[:10], NAMES[part::2]) for part in (0, 1)]
    assert main(["compare", *map(str, half)]) == 2
    assert "have no sample in common" in capsys.readouterr().err
    assert main(["compare", str(good)]) == 2
    assert main(["compare", str(good), str(good), "--draws=0"]) == 2


def test_scores_of_another_version_or_form_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = scored(tmp_path / "good", GOOD), scored(tmp_path / "bad", BAD)
    scores = json.loads((bad / "scores.json").read_text())
    for changed, message in (
        ({**scores, "measured_with": {**scores["measured_with"], "rarrg": "0.0.1"}}, "whose labelers may differ"),
        ({}, "scores.json: holds no scores; rarrg score and rarrg evaluate write it"),
    ):
        (bad / "scores.json").write_text(json.dumps(changed))
        assert main(["compare", str(good), str(bad)]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
