from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml

from rarrg import ablation, evaluation_once, training_once
from rarrg.ablation import AblateOptions, Experiment, ablate, read_grid
from rarrg.artifacts import read_jsonl
from rarrg.cli import parse_train
from rarrg.cli_scores import parse_writer
from rarrg.config import TrainConfig
from rarrg.data import phantom
from rarrg.errors import RarrgError
from tests.test_configs import CONFIGS, as_iu_xray

GRID = {
    "base": "base.yaml",
    "against": "E7",
    "seeds": [0],
    "experiments": {
        "E1": {"about": "whole sentences", "train": {"data.phrases": "sentences"}},
        "E7": {"about": "key phrases", "train": {"loss.contrastive": 0.0}},
        "E11": {"about": "and an LLM", "like": "E7", "writer": {"resolve": "nothing"}},
    },
}


def saved(folder: Path, grid: object) -> Path:
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump(grid, sort_keys=False), encoding="utf-8")
    return path


def test_a_row_takes_the_training_of_the_one_it_is_like(tmp_path: Path):
    grid = read_grid(saved(tmp_path, GRID))
    assert (grid.base, grid.against, grid.seeds) == ("base.yaml", "E7", (0,))
    assert [each.name for each in grid.experiments] == ["E1", "E7", "E11"]
    assert grid.experiments[2].train == grid.experiments[1].train == {"loss.contrastive": 0.0}
    assert grid.experiments[2].writer == {"resolve": "nothing"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": []}, "seeds must be a list that is not empty"),
        ({"seeds": ["a"]}, "seeds must be different whole numbers"),
        ({"seeds": [0, 0]}, "seeds must be different whole numbers"),
        ({"seeds": [True]}, "seeds must be different whole numbers"),
        ({"experiments": {"E7": {"about": "a", "writer": "llm"}}}, "E7: writer must be keys and values, got llm"),
        ({"experiments": {"E7": {"about": "a", "train": ["x"]}}}, "E7: train must be keys and values"),
        ({"experiments": {"E7": {"about": "a", "like": ["E1"]}}}, r"E7 is like \['E1'\], which does not stand above"),
        ({"against": "E9"}, "against names E9, which is no experiment"),
        ({"more": 1}, "a grid has the keys base, against, seeds, experiments"),
        ({"experiments": {"E7": {"train": {}}}}, "E7 must have about"),
        ({"experiments": {"E7": {"about": "a", "extra": 1}}}, "E7 must have about"),
        ({"experiments": {"E7": {"about": "a", "like": "E8"}}}, "E7 is like E8, which does not stand above it"),
    ],
)
def test_what_is_no_grid_is_one_line(tmp_path: Path, changes: dict, message: str):
    with pytest.raises(RarrgError, match=message) as caught:
        read_grid(saved(tmp_path, {**GRID, **changes}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["iu_xray.yaml", "iu_xray_writers.yaml", "mimic.yaml"])
def test_every_experiment_changes_its_base_by_keys_that_exist(name: str, tmp_path: Path):
    grid = read_grid(CONFIGS / "ablation" / name)
    base, _ = parse_train([f"--config={CONFIGS / grid.base}", "--data.root=data"])
    for experiment in grid.experiments:
        options = AblateOptions(root="data", cache=base.data.cache)
        config = ablation._config(grid, experiment, base.seed, options, lambda words: parse_train(words)[0])
        changed = _leaves(dataclasses.asdict(config)).items() ^ _leaves(dataclasses.asdict(base)).items()
        assert {key for key, _ in changed} - {"log.wandb"} <= set(experiment.train)
        ablation._writer(experiment, options, parse_writer)


@pytest.mark.parametrize(
    ("writer", "message"),
    [
        ({"writer": "lllm"}, r"grid.yaml, E11: writer: writer: expected one of 'join', 'llm', got lllm"),
        ({"resolve": "nothng"}, "grid.yaml, E11: writer: resolve: expected one of"),
        ({"examples": "two"}, "grid.yaml, E11: writer: examples: expected a whole number, got two"),
        ({"llm": {"modl": "x"}}, "grid.yaml, E11: writer: unknown key llm.modl"),
    ],
)
def test_a_writer_that_is_none_is_named_before_anything_is_trained(tmp_path: Path, writer: dict, message: str):
    experiment = Experiment("E11", "a", {}, writer)
    with pytest.raises(RarrgError, match=message):
        ablation._writer(experiment, AblateOptions("grid.yaml"), parse_writer)


def _leaves(value: dict, prefix: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for key, inner in value.items():
        found |= _leaves(inner, f"{prefix}{key}.") if isinstance(inner, dict) else {f"{prefix}{key}": repr(inner)}
    return found


@pytest.mark.slow
def test_a_grid_is_run_once_and_gives_a_table(tiny_config: TrainConfig, tmp_path: Path, monkeypatch):
    as_iu_xray(phantom.draw_studies(tmp_path / "drawn", 32, 0), tmp_path / "data")
    base = dataclasses.replace(
        tiny_config,
        data=dataclasses.replace(tiny_config.data, source="iu_xray", root=str(tmp_path / "data")),
        trainer=dataclasses.replace(tiny_config.trainer, epochs=1),
    )
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(dataclasses.asdict(base)), encoding="utf-8")
    saved(tmp_path, {**GRID, "base": str(tmp_path / "base.yaml"), "seeds": [0, 1]})
    options = AblateOptions("grid.yaml", str(tmp_path / "data"), base.data.cache, tmp_path / "out", draws=20)

    def run() -> list[ablation.Cell]:
        return ablate(
            options,
            lambda name: str(tmp_path / name),
            lambda words: parse_train(words)[0],
            parse_writer,
            lambda line: None,
        )

    cells = run()
    assert len(list((tmp_path / "out" / "models").iterdir())) == 4  # E11 takes up E7's
    by = {(cell.experiment, cell.measure): cell for cell in cells}
    assert by["E7", "findings_micro_f1"].difference == 0
    assert by["E7", "rouge_l"].low == by["E7", "rouge_l"].high == 0
    assert by["E1", "rouge_l"].lowest <= by["E1", "rouge_l"].value <= by["E1", "rouge_l"].highest
    table = (tmp_path / "out" / "grid.md").read_text(encoding="utf-8")
    assert "| E11 | and an LLM |" in table
    said = {row["text"] for row in read_jsonl(tmp_path / "out" / "E1" / "seed-0" / "reports.jsonl")}
    assert said

    monkeypatch.setattr(training_once, "train", lambda *_: pytest.fail("trained again"))
    monkeypatch.setattr(evaluation_once, "evaluate", lambda *_: pytest.fail("evaluated again"))
    assert run() == cells
