from __future__ import annotations

import csv
import dataclasses
import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from wandb.proto import wandb_internal_pb2

from rarrg import dashboard
from rarrg.config import TrainConfig
from rarrg.dashboard import Throughput
from rarrg.experiment import train
from rarrg.monitoring import THRESHOLDS

ROOT = Path(__file__).resolve().parents[1]
FIGURES = """
    selection_precision selection_recall selection_f1 matched_cosine phrases_per_image phrase_precision phrase_recall
    distinct_phrases distinct_reports findings_micro_f1 findings_macro_f1
""".split()
TERMS = "loss selection similarity contrastive".split()
SCALARS = {
    *(f"train/{name}" for name in [*TERMS, "grad_norm", "images_per_second", "data_wait"]),
    *(f"val/{name}" for name in [*TERMS, *FIGURES]),
    "lr-AdamW",
}
PANELS = {
    *("val/sweep_table", "val/sweep_phrases_per_image_table", "val/sweep_distinct_phrases_table"),
    *("val/sweep_distinct_reports_table", "val/query_selected_table", "val/query_distinct_phrases_table"),
}


def records(path: Path) -> Iterator[wandb_internal_pb2.Record]:
    """Records of an offline run file: a header of 7 bytes, then LevelDB's log format (blocks of 32 KiB)."""
    data, at, part = path.read_bytes(), 7, b""
    assert data.startswith(b":W&B")
    while at + 7 <= len(data):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        _, size, kind = struct.unpack("<IHB", data[at : at + 7])
        part += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            record = wandb_internal_pb2.Record()
            record.ParseFromString(part)
            part = b""
            yield record


def logged(out: Path) -> dict[str, list[str]]:
    """What an offline run logged: values by name."""
    found: dict[str, list[str]] = {}
    for path in out.glob("wandb/offline-run-*/*.wandb"):
        for record in records(path):
            for item in record.history.item:
                found.setdefault(item.key or item.nested_key[0], []).append(item.value_json)
    return found


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def curves(out: Path) -> list[dict[str, str]]:
    return [row for path in sorted(out.glob("logs/version_*/metrics.csv")) for row in table(path)]


def with_log(config: TrainConfig, epochs: int, **log: object) -> TrainConfig:
    return dataclasses.replace(
        config,
        trainer=dataclasses.replace(config.trainer, epochs=epochs),
        log=dataclasses.replace(config.log, **log),
    )


@pytest.fixture(autouse=True)
def staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where W&B keeps tables and images that it is to upload, beside the run's own files; else in the home folder."""
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "staged"))
    return tmp_path / "staged"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("log_images", "log_phrases", "credentialed", "shown"),
    [
        (True, False, False, "images"),
        (False, False, False, None),
        (True, False, True, None),
        (True, True, True, "phrases"),
    ],
)
def test_an_offline_run_file_holds_every_curve_and_panel(
    tiny_config: TrainConfig,
    staged: Path,
    monkeypatch: pytest.MonkeyPatch,
    log_images: bool,
    log_phrases: bool,
    credentialed: bool,
    shown: str | None,
) -> None:
    monkeypatch.setattr("rarrg.experiment.is_credentialed", lambda source, root: credentialed)
    out = train(with_log(tiny_config, 2, wandb="offline", log_images=log_images, log_phrases=log_phrases))
    found = logged(out)
    assert found.keys() >= SCALARS | PANELS
    assert {name: len(found[name]) for name in SCALARS if name.startswith("val/") and len(found[name]) != 2} == {}
    by_csv = [float(row["val/findings_micro_f1"]) for row in curves(out) if row["val/findings_micro_f1"]]
    assert [float(value) for value in found["val/findings_micro_f1"]] == pytest.approx(by_csv)

    # Wording and images leave only where they may.
    phrases = [json.loads(line)["text"] for line in (out / "store" / "phrases.jsonl").read_text().splitlines()]
    kept = [path for folder in (out / "wandb", staged) for path in folder.rglob("*") if path.is_file()]
    content = b"".join(path.read_bytes() for path in kept)
    named = [phrase for phrase in phrases if phrase.encode() in content]
    assert (b"\x89PNG" in content) == (shown == "images")
    assert {name for name in ("val/images", "val/phrases") if name in found} == ({f"val/{shown}"} if shown else set())
    if shown is None:
        assert named == []
        return
    assert named
    newest = max(out.rglob(f"media/table/val/{shown}_*.json"), key=lambda path: path.stat().st_mtime)
    rows = json.loads(newest.read_text())["data"]
    assert len(rows) == 6  # of the three validation studies
    for row in rows:
        *image, view, own, retrieved = row
        assert len(image) == (2 if shown == "images" else 0)
        assert view in ("frontal", "lateral")
        assert own
        assert {line.partition(" (probability")[0] for line in retrieved.splitlines()} <= set(phrases)


def test_the_files_of_a_run_without_wandb(tiny_config: TrainConfig) -> None:
    config = dataclasses.replace(tiny_config, threshold=0.15)  # untrained queries stay near it
    out = train(with_log(config, 1))
    assert not (out / "wandb").exists()
    train(with_log(config, 3), ckpt_path="last")
    swept, used = table(out / "sweep.csv"), table(out / "queries.csv")
    assert [row["epoch"] for row in swept] == [str(epoch) for epoch in range(3) for _ in THRESHOLDS]
    assert [(row["epoch"], row["query"]) for row in used] == [(str(e), str(q)) for e in range(3) for q in range(20)]
    validated = [row for row in curves(out) if row["val/loss"]]
    at_threshold = [row for row in swept if row["threshold"] == "0.15"]
    for curve, row in zip(validated, at_threshold, strict=True):
        for name in set(FIGURES) - {"matched_cosine"}:
            assert float(curve[f"val/{name}"]) == pytest.approx(float(row[name])), name
    # A run that starts anew takes nothing of them over.
    train(with_log(config, 1))
    assert {row["epoch"] for row in table(out / "sweep.csv")} == {"0"}


def test_an_epoch_that_is_validated_again_replaces_its_rows(tmp_path: Path) -> None:
    for epoch, value in ((0, 1.0), (1, 2.0), (2, 3.0), (1, 4.0)):
        dashboard._append(tmp_path / "sweep.csv", epoch, [{"threshold": 0.5, "figure": value}])
    assert [(row["epoch"], row["figure"]) for row in table(tmp_path / "sweep.csv")] == [("0", "1.0"), ("1", "4.0")]


def test_speed_and_waiting_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    found: list[tuple[str, float]] = []
    monkeypatch.setattr(dashboard.time, "perf_counter", lambda: clock[0])
    module = SimpleNamespace(log=lambda name, value: found.append((name, value)))
    watch = Throughput(every=2)
    step = 0

    def steps(*times: tuple[float, float, int]) -> None:
        nonlocal step
        for wait, work, images in times:
            batch = SimpleNamespace(counts=[1] * images)
            clock[0] += wait
            watch.on_train_batch_start(None, module, batch, 0)
            clock[0] += work
            step += 1
            watch.on_train_batch_end(SimpleNamespace(global_step=step, world_size=1), module, None, batch, 0)

    watch.on_train_start(None, module)
    watch.on_train_epoch_start(None, module)
    steps((1.0, 3.0, 8), (2.0, 4.0, 8), (1.0, 1.0, 8))
    clock[0] += 100.0  # validation
    watch.on_train_epoch_start(None, module)
    steps((0.0, 2.0, 4))
    expected = [("train/images_per_second", 1.6), ("train/data_wait", 0.3)]
    expected += [("train/images_per_second", 3.0), ("train/data_wait", 0.25)]
    assert [name for name, _ in found] == [name for name, _ in expected]
    assert [value for _, value in found] == pytest.approx([value for _, value in expected])


def test_speed_is_logged_in_the_rows_of_the_losses(tiny_config: TrainConfig) -> None:
    # Nine steps an epoch, logged every fourth: the window runs on over the end of the epoch.
    rows = curves(train(with_log(tiny_config, 2, every=4)))
    trained = [row for row in rows if row["train/loss"]]
    assert len(trained) == 4
    for row in trained:
        assert float(row["train/images_per_second"]) > 0
        assert 0 < float(row["train/data_wait"]) < 1


@pytest.mark.slow
def test_every_panel_can_be_drawn_and_images_of_drawn_studies_alone(tiny_config: TrainConfig, tmp_path: Path) -> None:
    out = train(with_log(tiny_config, 2, wandb="offline"))

    def draw(*argv: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "benchmarks/dashboard_pictures.py", str(out), "--out", str(tmp_path), *argv]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    done = draw()
    assert done.returncode == 0, done.stderr
    names = {path.stem for path in (ROOT / "docs" / "images" / "dashboard").iterdir()}
    assert {path.stem for path in tmp_path.glob("*.svg")} == names - {"images"}
    assert draw("--panels", "images").returncode == 0
    assert (tmp_path / "images.png").is_file()

    text = (out / "train.yaml").read_text()
    (out / "train.yaml").write_text(text.replace("source: phantom", "source: iu_xray"))
    refused = draw("--panels", "images")
    assert refused.returncode != 0
    assert "drawn studies" in refused.stderr
