from __future__ import annotations

import csv
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

from rarrg import evaluation
from rarrg.adapt_config import AdaptConfig
from rarrg.cli import main, parse_evaluate
from rarrg.comparison import Outputs, spoken
from rarrg.config import LossConfig, TrainConfig
from rarrg.data import phantom
from rarrg.data.evaluation_set import SCOPES, EvaluationSet, evaluation_set
from rarrg.errors import RarrgError
from rarrg.evaluation import _of_samples, parity_of
from rarrg.evaluation_files import Results, write_figures
from rarrg.experiment import train
from rarrg.metrics.systems import FINDINGS_MEASURES, MEASURES, measure
from rarrg.monitoring import THRESHOLDS
from rarrg.protocols import Protocol, Sample
from rarrg.types import Study, View
from tests.llm.scripted_server import MODEL, scripted_server
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


def test_baselines_read_the_encoders_as_they_were_before_adaptation(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = yaml.safe_load((trained / "train.yaml").read_text(encoding="utf-8"))
    training["vision"]["adapt"] = dataclasses.asdict(AdaptConfig(epochs=2, keep=True))
    # Of encoders that the baselines do not have.
    training["retriever"] |= {"anchors": True, "members": 2, "reads": [[0], [1]], "classifier": True}
    (trained / "train.yaml").write_text(yaml.safe_dump(training), encoding="utf-8")
    seen: list[TrainConfig] = []
    monkeypatch.setattr(evaluation, "baseline_outputs", lambda _, *configs: seen.extend(configs[:2]) or {})
    own: list[TrainConfig] = []

    def probe(evaluated: EvaluationSet, config: TrainConfig, _: torch.device) -> Outputs:
        own.append(config)
        return evaluation._reference(evaluated)

    monkeypatch.setattr(evaluation, "probe_outputs", probe)
    assert main(words(trained, "--baselines", f"--parity={tmp_path / 'parity.yaml'}")) == 0
    assert [config.vision.adapt.epochs for config in seen] == [0, 0]
    assert [(config.retriever.reads, config.retriever.classifier) for config in seen] == [(None, False)] * 2
    assert [config.vision.encoders[0].spec for config in seen] == [training["vision"]["encoders"][0]["spec"]] * 2
    assert [config.vision.adapt.epochs for config in own] == [2]
    metrics = json.loads((trained / "evaluation" / "metrics.json").read_text(encoding="utf-8"))
    assert list(metrics) == ["ours", "adapted_probe"]
    assert metrics["adapted_probe"]["findings_micro_f1"]["value"] == 1


def test_without_baselines_only_the_model_is_measured(trained: Path, tmp_path: Path) -> None:
    assert main(words(trained, "--split=val")) == 0
    out = trained / "evaluation"
    assert list(json.loads((out / "metrics.json").read_text(encoding="utf-8"))) == ["ours"]
    assert not (out / "leads.csv").exists()
    val = sum(study.split == "val" for study in phantom.read(tmp_path / "drawn"))
    assert len((out / "predictions.jsonl").read_text(encoding="utf-8").splitlines()) == val


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_reports_of_the_split_are_written_and_scored(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(trained, "--split=val")) == 0
    out = trained / "evaluation"
    predictions = {row["study_id"]: row for row in lines(out / "predictions.jsonl")}
    reports = lines(out / "reports.jsonl")
    assert [row["id"] for row in reports] == list(predictions)
    for report in reports:
        retrieved = predictions[report["id"]]["retrieved"]
        said = {view: [phrase["text"] for phrase in phrases] for view, phrases in report["phrases"].items()}
        dropped = {phrase["text"] for phrase in report["dropped"]}
        assert said == {
            view: [phrase["text"] for phrase in phrases if phrase["text"] not in dropped]
            for view, phrases in retrieved.items()
        }
    # rarrg infer says the same of the same images.
    first = reports[0]
    images = [f"--{view}={files[0]}" for view, files in first["images"].items()]
    argv = ["infer", f"--model={trained}", "--device=cpu", f"--out={tmp_path / 'one.json'}", *images]
    assert main(argv) == 0
    alone = json.loads((tmp_path / "one.json").read_text(encoding="utf-8"))
    assert alone["text"] == first["text"]

    scores = json.loads((out / "report_scores" / "scores.json").read_text(encoding="utf-8"))
    assert scores["reports"]["scored"] == len(reports)
    assert scores["reports"]["made_by"]["model"] == [first["model"]]
    assert scores["protocol"]["training_reports"] > 0
    assert not (out / "report_scores_joined").exists()
    # rarrg score of the same file and data is the same.
    again = tmp_path / "again"
    argv = ["score", f"--reports={out / 'reports.jsonl'}", f"--data.root={tmp_path / 'data'}", "--split=val"]
    assert main([*argv, f"--out={again}", "--draws=50"]) == 0
    assert json.loads((again / "scores.json").read_text(encoding="utf-8")) == scores
    capsys.readouterr()
    assert main(["compare", str(trained / "evaluation"), str(again), "--draws=20"]) == 0
    assert f"{len(reports)} samples of studies in common" in capsys.readouterr().out


def test_other_thresholds_and_the_cost_are_measured_beside(trained: Path) -> None:
    assert main(words(trained, "--split=val", "--threshold=0.43")) == 0
    out = trained / "evaluation"
    swept = rows(out / "sweep.csv")
    assert [float(row["threshold"]) for row in swept] == sorted({*THRESHOLDS, 0.43})
    counts = [float(row["phrases_per_study"]) for row in swept]
    assert counts == sorted(counts, reverse=True)
    (own,) = [row for row in swept if row["in_use"] == "True"]
    assert counts[0] > float(own["phrases_per_study"])
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))["ours"]
    for name in FINDINGS_MEASURES:
        assert float(own[name]) == pytest.approx(metrics[name]["value"])
    said = [
        {phrase["text"] for view in row["retrieved"].values() for phrase in view}
        for row in lines(out / "predictions.jsonl")
    ]
    assert float(own["phrases_per_study"]) == pytest.approx(sum(map(len, said)) / len(said))

    cost = json.loads((out / "cost.json").read_text(encoding="utf-8"))
    weights = load_file(trained / "model.safetensors")
    assert cost["retriever_parameters"] == sum(value.numel() for name, value in weights.items() if "members" in name)
    assert cost["trained"]["hours"] > 0
    assert (cost["trained"]["device"], cost["trained"]["gpus"]) == (cost["device"], 0)
    assert cost["timed_studies"] == len(said)
    assert cost["writing"]["writer"] == "join"
    assert cost["writing"]["seconds"] > 0
    assert (cost["writing"]["prompt_tokens"], cost["writing"]["completion_tokens"]) == (None, None)
    for name in ("report.md", "report.html"):
        text = (out / "report_scores" / name).read_text(encoding="utf-8")
        for shown in ("Selection threshold", "0.43 (in use)", "Table 7: cost of training", "Cost of this model"):
            assert shown in text


def test_what_a_language_model_writes_is_scored_beside_the_joined_phrases(trained: Path) -> None:
    with scripted_server() as server:
        llm = ["--writer=llm", f"--llm.base_url={server.url}", f"--llm.model={MODEL}", "--examples=0"]
        assert main(words(trained, "--split=val", *llm)) == 0
        out = trained / "evaluation"
        asked = len(server.log())
        assert asked
        first = json.loads((out / "cost.json").read_text(encoding="utf-8"))["writing"]
        assert main(words(trained, "--split=val", *llm)) == 0
        assert len(server.log()) == asked  # replies are kept in the output folder
    again = json.loads((out / "cost.json").read_text(encoding="utf-8"))["writing"]
    assert first["seconds"] > 0
    assert again == {**first, "seconds": None}  # nothing was written, so nothing was timed
    assert (first["writer"], first["prompt_tokens"] / first["completion_tokens"]) == (MODEL, 7 / 3)
    reports, joined = lines(out / "reports.jsonl"), lines(out / "reports_joined.jsonl")
    assert {row["id"] for row in reports} == {row["id"] for row in joined}
    assert {row["writer"]["name"] for row in reports} == {"llm"}
    assert {row["writer"]["name"] for row in joined} == {"join"}
    for folder, rows_of in (("report_scores", reports), ("report_scores_joined", joined)):
        scores = json.loads((out / folder / "scores.json").read_text(encoding="utf-8"))
        assert scores["reports"]["scored"] == len(rows_of)
    page = (out / "report_scores" / "report.md").read_text(encoding="utf-8")
    assert "## Table 6: before and after the language model" in page
    assert "## Table 10: in-context examples" in page
    assert main(words(trained, "--split=val")) == 0
    assert not (out / "reports_joined.jsonl").exists()
    assert {row["writer"]["name"] for row in lines(out / "reports.jsonl")} == {"join"}


def test_a_study_without_a_readable_image_is_a_sample_without_a_report(trained: Path) -> None:
    assert main(words(trained, "--split=val")) == 0
    out = trained / "evaluation"
    before = json.loads((out / "report_scores" / "scores.json").read_text(encoding="utf-8"))
    broken = lines(out / "reports.jsonl")[0]
    for files in broken["images"].values():
        for file in files:
            Path(file).write_bytes(b"no image")
    assert main(words(trained, "--split=val", "--data.max_bad_images=0.9")) == 0
    scores = json.loads((out / "report_scores" / "scores.json").read_text(encoding="utf-8"))
    assert scores["reports"]["missing"] == 1
    assert scores["reports"]["scored"] == before["reports"]["scored"] - 1
    assert scores["protocol"] == before["protocol"]
    assert (out / "report_scores" / "unmatched.csv").read_text().split() == ["id,problem", f"{broken['id']},missing"]


def test_another_protocol_chooses_the_samples(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[np.ndarray] = []

    def measured(*given: Any) -> dict[str, Any]:
        drawn.append(given[-1])
        return measure(*given)

    monkeypatch.setattr(evaluation, "measure", measured)
    studies = [study for study in phantom.read(tmp_path / "drawn") if study.split == "test"]
    entries = [
        {
            "id": study.id,
            "report": study.findings,
            "image_path": [f"{study.id}/{number}.png" for number in range(len(study.views))],
        }
        for study in studies
    ]
    for study in studies:
        folder = tmp_path / "r2gen" / "images" / study.id
        folder.mkdir(parents=True)
        for number, view in enumerate(study.views):
            (folder / f"{number}.png").write_bytes(view.path.read_bytes())
    (tmp_path / "r2gen" / "annotation.json").write_text(json.dumps({"train": [], "val": [], "test": entries}))
    listed = [{"image_path": [image], "report": entry["report"]} for entry in entries for image in entry["image_path"]]
    (tmp_path / "r2gen" / "iu_annotation_promptmrg.json").write_text(json.dumps(listed))
    for name, samples in (("iu-r2gen", len(entries)), ("iu-promptmrg", len(listed))):
        out = tmp_path / name
        argv = [f"--protocol={name}", f"--data.root={tmp_path / 'r2gen'}", f"--train.root={tmp_path / 'data'}"]
        assert main(words(trained, *argv, f"--out={out}")) == 0
        scores = json.loads((out / "report_scores" / "scores.json").read_text(encoding="utf-8"))
        assert (scores["protocol"]["name"], scores["reports"]["scored"]) == (name, samples)
        assert scores["protocol"]["training_reports"] > 0  # the model's, which the file does not hold
        assert len(lines(out / "predictions.jsonl")) == samples
    # The images of a study are samples of their own and are resampled together; the scopes are study, frontal, lateral.
    of_study, frontal, _ = drawn[-3:]
    names = [row["study_id"].split("/")[0] for row in lines(out / "predictions.jsonl")]
    assert len(set(names)) == len(entries) < len(names)
    for name in set(names):
        own = of_study[:, [each == name for each in names]]
        assert (own == own[:, :1]).all()
    assert len(np.unique(of_study, axis=1).T) == len(entries)
    assert frontal.shape[1] == len(entries)


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
        (["--protocol=iu-r2gen"], "annotation.json: cannot be read"),
        (["--protocol=iu-r2gen", "--split=val"], "split: iu-r2gen is of the test split, got val"),
        (["--chexbert=nowhere.pth"], "nowhere.pth: is not there"),
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


def test_phrases_of_a_study_are_those_of_its_samples(caplog: pytest.LogCaptureFixture) -> None:
    """Samples of single images have ids of their own; files of key phrases have those of studies."""
    samples = tuple(Sample(name, {}, "x", study=study) for name, study in (("a", "s1"), ("b", "s1"), ("c", "s2")))
    protocol = Protocol("mimic-single", samples)
    given = {"s1": ("clear lungs",), "s9": ("picc",)}
    assert _of_samples(given, protocol, Path("p.jsonl")) == {"a": ("clear lungs",), "b": ("clear lungs",)}
    assert "p.jsonl: has no entry of 1 samples" in caplog.text
    for useless in ({"s9": ("picc",)}, {"s1": (), "s2": ()}):
        with pytest.raises(RarrgError, match=r"phrases: p\.jsonl has phrases of none of the 3 samples of mimic-single"):
            _of_samples(useless, protocol, Path("p.jsonl"))


def test_a_scope_without_studies_has_no_rows(tmp_path: Path) -> None:
    view = View("a.png", "frontal", "a")
    frontal = evaluation_set([Study("1", "test", (view,), "Small effusion.", key_phrases=("small effusion",))])
    said = spoken(frontal, {scope: [["small effusion"]] for scope in SCOPES})
    reference = evaluation._reference(frontal)
    weights = np.ones((3, 1), dtype=np.int64)
    results: Results = {
        scope: {"ours": measure(said[scope], reference[scope], {"small effusion": np.ones(2)}, weights)}
        for scope in ("study", "frontal")
    }
    write_figures(tmp_path, results, [], {"ours": said}, reference)
    for name in ("metrics.csv", "findings.csv"):
        assert {row["scope"] for row in rows(tmp_path / name)} == {"study", "frontal"}
