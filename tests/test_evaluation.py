from __future__ import annotations

import csv
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rarrg.cli import main, parse_evaluate
from rarrg.config import LossConfig, TrainConfig
from rarrg.data import phantom
from rarrg.evaluation import parity_of
from rarrg.experiment import train
from rarrg.metrics.systems import MEASURES
from tests.test_configs import as_iu_xray

BASELINES = ["frequent", "nearest", "sentences", "parity", "probe"]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def trained(tiny_config: TrainConfig, tmp_path: Path) -> Path:
    """A tiny model of an IU X-Ray folder of phantoms, beside a folder ``other`` with unseen test studies alone."""
    studies = phantom.draw_studies(tmp_path / "drawn", 32, 0)
    as_iu_xray(studies, tmp_path / "data")
    unseen = [dataclasses.replace(study, split="test") for study in phantom.draw_studies(tmp_path / "more", 10, 1)]
    as_iu_xray(unseen, tmp_path / "other")
    data = dataclasses.replace(tiny_config.data, source="iu_xray", root=str(tmp_path / "data"))
    config = dataclasses.replace(
        tiny_config, data=data, threshold=None, trainer=dataclasses.replace(tiny_config.trainer, epochs=1)
    )
    paper = dataclasses.replace(config, loss=LossConfig(positives=None, reduction="sum"), threshold=0.4)
    (tmp_path / "parity.yaml").write_text(yaml.safe_dump(dataclasses.asdict(paper)), encoding="utf-8")
    return train(config)


def words(trained: Path, *more: str) -> list[str]:
    cache = trained.parent / "cache"
    return ["evaluate", f"--model={trained}", f"--data.cache={cache}", "--draws=50", "--device=cpu", *more]


@pytest.mark.slow
def test_a_folder_never_trained_on_is_measured_beside_every_baseline(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "result"
    argv = words(trained, f"--data.root={tmp_path / 'other'}", f"--train.root={tmp_path / 'data'}", f"--out={out}")
    argv += ["--baselines", f"--parity={tmp_path / 'parity.yaml'}"]
    assert main(argv) == 0
    printed = capsys.readouterr().out

    metrics: dict[str, dict[str, dict[str, Any]]] = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    assert list(metrics) == ["ours", *BASELINES]
    for system, measured in metrics.items():
        assert list(measured) == list(MEASURES)
        assert system in printed
        for name, estimate in measured.items():
            if system == "probe" and not name.startswith("findings"):
                assert estimate == {"value": None, "low": None, "high": None}
            else:
                assert 0 <= estimate["low"] <= estimate["value"] <= estimate["high"]
    # one report for all, and as many different phrases as it has
    assert metrics["frequent"]["distinct_reports"]["value"] == 1
    assert metrics["nearest"]["phrase_recall"]["value"] > 0

    table = rows(out / "metrics.csv")
    assert {row["scope"] for row in table} == {"study", "frontal", "lateral"}
    assert len(table) == 3 * 6 * len(MEASURES)
    of_json = metrics["nearest"]["phrase_f1"]["low"]
    assert [float(row["low"]) for row in table if [*row.values()][:3] == ["study", "nearest", "phrase_f1"]] == [of_json]
    leads = rows(out / "leads.csv")
    assert {row["over"] for row in leads} == set(BASELINES)
    ahead = next(row for row in leads if row["scope"] == "study" and row["over"] == "probe")
    ours, probe = (metrics[name][ahead["measure"]]["value"] for name in ("ours", "probe"))
    assert float(ahead["value"]) == pytest.approx(ours - probe)

    predictions = [json.loads(line) for line in (out / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(predictions) == 10
    said = {phrase["text"] for row in predictions for view in row["retrieved"].values() for phrase in view}
    assert len(said) == metrics["ours"]["distinct_phrases"]["value"]
    support = {row["label"]: int(row["support"]) for row in rows(out / "findings.csv") if row["scope"] == "study"}
    for finding, count in support.items():
        assert count == sum(finding in row["reference_findings"] for row in predictions)

    # The two trained baselines stay with the model and are taken up again.
    kept = [trained / "baselines" / name / "model.safetensors" for name in ("sentences", "parity")]
    before = [path.stat().st_mtime_ns for path in kept]
    again = [word if not word.startswith("--out") else f"--out={tmp_path / 'again'}" for word in argv]
    assert main(again) == 0
    assert [path.stat().st_mtime_ns for path in kept] == before
    assert (tmp_path / "again" / "metrics.json").read_bytes() == (out / "metrics.json").read_bytes()


def test_without_baselines_only_the_model_is_measured(trained: Path, tmp_path: Path) -> None:
    assert main(words(trained, "--split=val")) == 0
    out = trained / "evaluation"
    assert list(json.loads((out / "metrics.json").read_text(encoding="utf-8"))) == ["ours"]
    assert not (out / "leads.csv").exists()
    val = sum(study.split == "val" for study in phantom.read(tmp_path / "drawn"))
    assert len((out / "predictions.jsonl").read_text(encoding="utf-8").splitlines()) == val


@pytest.mark.parametrize(
    ("flag", "compares"),
    [
        ("", False),
        ("--baselines", True),
        ("--baselines=true", True),
        ("--baselines true", True),
        ("--baselines=false", False),
        ("--baselines false", False),
    ],
)
@pytest.mark.parametrize("place", [0, 2, 4])
def test_the_flag_may_stand_anywhere_with_or_without_a_value(flag: str, compares: bool, place: int) -> None:
    others = ["--model", "runs/a", "--train.root", "data"]
    options = parse_evaluate([*others[:place], *flag.split(), *others[place:]])
    assert (options.baselines, options.model, options.train.root) == (compares, Path("runs/a"), "data")


def test_a_model_without_its_training_configuration_is_one_line(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (trained / "train.yaml").unlink()
    capsys.readouterr()
    assert main(words(trained)) == 2
    assert "train.yaml: is missing; evaluate a model folder as train.py left it" in capsys.readouterr().err


def test_parity_is_the_papers_training_of_the_models_own_studies_and_encoders(tiny_config: TrainConfig) -> None:
    paper = TrainConfig(
        threshold=0.3,
        data=dataclasses.replace(tiny_config.data, balance=0.25, batch_size=7),
        loss=LossConfig(reduction="sum", selection=3.0),
        trainer=dataclasses.replace(tiny_config.trainer, epochs=9, accelerator="auto"),
        retriever=dataclasses.replace(tiny_config.retriever, layers=5),
    )
    config = dataclasses.replace(tiny_config, views="together", threshold=None)
    parity = parity_of(config, paper)
    assert (parity.loss, parity.retriever, parity.optim) == (paper.loss, paper.retriever, paper.optim)
    assert (parity.threshold, parity.views, parity.trainer.epochs) == (0.3, "apart", 9)
    assert parity.data == dataclasses.replace(config.data, balance=0.25)
    assert (parity.vision, parity.text, parity.seed) == (config.vision, config.text, config.seed)
    assert parity.trainer.accelerator == "cpu"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--split=extra"], "has 0 extra studies, none of them with findings"),
        (["--data.root=nowhere"], "data.root: no folder nowhere"),
        (["--threshold=2"], "threshold: must be in (0, 1), got 2"),
        (["--draws=0"], "draws: must be at least 1, got 0"),
        (["--basline=true"], "unknown key basline; did you mean baselines?"),
        (["--baselines=true", "--parity=nothing.yaml"], "--config nothing.yaml: no such file"),
    ],
)
def test_a_mistake_is_one_line(
    trained: Path, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(words(trained, *more)) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
