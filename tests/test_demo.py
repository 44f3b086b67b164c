from __future__ import annotations

import json
from pathlib import Path

import pytest

from rarrg.config import TrainConfig
from rarrg.demo import demo, most_findings, pairs
from rarrg.errors import RarrgError
from rarrg.types import Study, View


def study(name: str, split: str, positions: tuple[str, ...], phrases: tuple[str, ...]) -> Study:
    views = tuple(View(f"{name}_{p}.png", p, f"{name}_{p}") for p in positions)
    return Study(name, split, views, "…", key_phrases=phrases)


def test_the_reported_study_is_held_out_has_both_views_and_something_to_report() -> None:
    both = ("frontal", "lateral")
    chosen = study("c", "test", both, ("cardiomegaly", "no pneumothorax"))
    studies = [
        study("a", "train", both, ("cardiomegaly", "nodule")),
        study("b", "test", ("frontal",), ("cardiomegaly", "nodule")),
        study("d", "test", both, ("no pneumothorax", "no pleural effusion")),
        chosen,
    ]
    assert most_findings(pairs(studies)) is chosen
    with pytest.raises(RarrgError, match="no test study has both"):
        pairs(studies[:2])


def test_demo_reports_a_pair(tiny_config: TrainConfig, capsys: pytest.CaptureFixture[str]) -> None:
    demo(tiny_config)
    out = Path(tiny_config.out)
    report = json.loads((out / "report.json").read_text())
    assert set(report["phrases"]) == {"frontal", "lateral"}
    assert report["text"] in capsys.readouterr().out
    page = (out / "report.html").read_text()
    assert page.count("data:image/") >= 2
