from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import pytest
import yaml

from rarrg import evaluation_once, training_once
from rarrg.artifacts import read_jsonl
from rarrg.cli import main
from rarrg.config import TrainConfig
from rarrg.data import phantom
from rarrg.extract_config import ExtractConfig
from rarrg.reproduction import ReproduceOptions, as_markdown, compare_with_paper
from tests.llm.scripted_server import MODEL, scripted_server
from tests.test_configs import as_iu_xray, as_mimic

PAPER = {
    "headline": [{"table": 1, "protocol": "mimic-single", "values": {"bleu_1": 40.0, "rouge_l": 20.0, "bleu_4": 8}}],
    "ablation": {"table": 8, "protocol": "mimic-single", "values": {"E10": {"bleu_1": 44.0, "rouge_l": 25.0}}},
}


def scores(samples: int, missing: int = 0) -> dict:
    measured = {
        "bleu_1": {"value": 0.41, "low": 0.39, "high": 0.43},
        "rouge_l": {"value": 0.25, "low": 0.24, "high": 0.26},
        "findings_micro_f1": {"value": 0.5, "low": 0.4, "high": 0.6},
    }
    return {
        "protocol": {"name": "mimic-single", "samples": samples},
        "reports": {"missing": missing, "scored": samples - missing},
        "scopes": {"all": measured},
    }


def test_each_figure_of_the_paper_gets_a_verdict():
    rows = {row.measure: row for row in compare_with_paper(PAPER, "mimic-single", scores(3858), "llm")}
    assert {name: row.verdict for name, row in rows.items()} == {
        "bleu_1": "within the interval",
        "rouge_l": "above",
        "bleu_4": "not measured",
        "findings_micro_f1": "not comparable",
    }
    assert (rows["bleu_1"].paper, rows["bleu_1"].value, rows["bleu_1"].low) == (40.0, 41.0, 39.0)
    table = as_markdown(list(rows.values()), ReproduceOptions(writer="llm"))
    assert "| mimic-single | bleu_1 | 40.0 | 41.0 | 39.0 to 43.0 | within the interval |" in table
    assert "| mimic-single | bleu_4 | 8.0 | - | - | not measured |" in table


def test_joined_phrases_stand_beside_the_paper_s_joined_phrases():
    rows = compare_with_paper(PAPER, "mimic-single", scores(3858), "join")
    assert [(row.measure, row.paper, row.verdict) for row in rows] == [
        ("bleu_1", 44.0, "below"),
        ("rouge_l", 25.0, "within the interval"),
        ("findings_micro_f1", None, "not comparable"),
    ]
    table = as_markdown(rows, ReproduceOptions())
    assert "Table 8, E10" in table
    assert "(resolve: findings), which the paper does not do" in table
    assert "resolve" not in as_markdown(rows, ReproduceOptions(resolve="nothing"))
    assert {row.paper for row in compare_with_paper(PAPER, "mimic-multi", scores(2461), "join")} == {None}


@pytest.mark.parametrize("other", [scores(3857), scores(3858, missing=1)])
def test_figures_of_other_samples_get_none(other: dict):
    assert {row.verdict for row in compare_with_paper(PAPER, "mimic-single", other, "llm")} == {
        "not comparable",
        "not measured",
    }


def saved(config: TrainConfig, path: Path, **more: object) -> Path:
    path.write_text(yaml.safe_dump({**dataclasses.asdict(config), **more}), encoding="utf-8")
    return path


def small(config: TrainConfig, source: str, root: Path) -> TrainConfig:
    return dataclasses.replace(
        config,
        data=dataclasses.replace(config.data, source=source, root=str(root)),
        trainer=dataclasses.replace(config.trainer, epochs=1),
    )


def rows_of(out: Path) -> list[dict[str, str]]:
    with (out / "reproduce.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def nothing_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_once, "train", lambda *_: pytest.fail("trained again"))
    monkeypatch.setattr(evaluation_once, "evaluate", lambda *_: pytest.fail("evaluated again"))


@pytest.mark.slow
def test_from_nothing_to_the_page_without_a_language_model(tiny_config: TrainConfig, tmp_path: Path, monkeypatch):
    as_iu_xray(phantom.draw_studies(tmp_path / "drawn", 32, 0), tmp_path / "data")
    path = saved(small(tiny_config, "iu_xray", tmp_path / "data"), tmp_path / "tiny.yaml")
    out = tmp_path / "out"
    words = ["reproduce", f"--config={path}", f"--data.root={tmp_path / 'data'}", f"--out={out}", "--draws=20"]
    words.append(f"--cache={tmp_path / 'cache'}")
    assert main(words) == 0
    rows = rows_of(out)
    assert {row["protocol"] for row in rows} == {"studies"}
    assert {row["verdict"] for row in rows} == {"not comparable"}
    before = (out / "reproduce.md").read_text(encoding="utf-8")
    assert "findings_micro_f1" in before
    nothing_is_done_again(monkeypatch)
    assert main(words) == 0
    assert (out / "reproduce.md").read_text(encoding="utf-8") == before


@pytest.mark.slow
def test_from_nothing_to_the_page_with_key_phrases_of_a_language_model(
    tiny_config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    as_mimic(phantom.draw_studies(tmp_path / "drawn", 32, 0), tmp_path / "data")
    out = tmp_path / "out"
    with scripted_server() as server:
        section = dataclasses.asdict(ExtractConfig(structure="rules"))
        section["llm"] |= {"backend": "openai", "base_url": server.url, "model": MODEL, "concurrency": 4}
        path = saved(small(tiny_config, "mimic_cxr", tmp_path / "data"), tmp_path / "tiny.yaml", extract=section)
        words = ["reproduce", f"--config={path}", f"--data.root={tmp_path / 'data'}", f"--out={out}", "--draws=20"]
        words.append(f"--cache={tmp_path / 'cache'}")
        assert main(words) == 0
        asked = len(server.log())
        assert asked > 0
        nothing_is_done_again(monkeypatch)
        assert main(words) == 0
        assert len(server.log()) == asked
    assert {row["protocol"] for row in rows_of(out)} == {"mimic-single", "mimic-multi"}
    extracted = read_jsonl(out / "extraction" / "key_phrases.jsonl")
    assert {row["provenance"]["extractor"] for row in extracted} == {"llm"}
    assert yaml.safe_load((out / "model" / "train.yaml").read_text())["data"]["phrases"].endswith("key_phrases.jsonl")


def test_drawn_studies_are_nothing_to_reproduce(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["reproduce", "--config=demo.yaml", f"--out={tmp_path}"]) == 2
    assert "no reports of patients" in capsys.readouterr().err
