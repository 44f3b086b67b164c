from __future__ import annotations

import csv
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from filelock import FileLock
from safetensors.torch import load_file

from rarrg import experiment
from rarrg.cli import main
from rarrg.config import DataConfig, EncoderConfig, RetrieverConfig, StoreConfig, TrainConfig, VisionConfig
from rarrg.data.studies import read_studies
from rarrg.errors import RarrgError
from rarrg.experiment import train
from rarrg.extract.key_phrases import read_key_phrases
from rarrg.grouping import group_phrases
from rarrg.locking import LOCK
from rarrg.losses import criterion
from rarrg.metrics.findings import positive_findings
from rarrg.models.text import load_text_encoder
from rarrg.models.vision import FusedEncoder
from rarrg.monitoring import CANDIDATES, PhraseTable
from rarrg.pipeline import ReportGenerator
from rarrg.resuming import load_checkpoint
from rarrg.store.phrase_store import PhraseStore
from rarrg.training import RetrieverModule
from rarrg.training_once import train_once

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("data", "vision", "text", "retriever", "loss", "optim", "trainer", "store", "log")

KILLED = """
import os, signal, sys
from rarrg import training
from rarrg.cli import main

go_on = training.RetrieverModule.on_train_batch_start

def die(self, batch, batch_idx):
    if self.global_step == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    go_on(self, batch, batch_idx)

training.RetrieverModule.on_train_batch_start = die
main(["train", "--config", sys.argv[2]])
"""


def rows(out: Path) -> list[dict[str, str]]:
    """Rows of all CSV logs of a run, in order."""
    found = []
    for path in sorted(out.glob("logs/version_*/metrics.csv")):
        with path.open(newline="") as file:
            found += list(csv.DictReader(file))
    return found


def test_a_run_leaves_a_model_folder_that_generates(tiny_config: TrainConfig) -> None:
    out = train(tiny_config)
    names = {path.name for path in out.iterdir()}
    assert names >= {"model.safetensors", "config.yaml", "README.md", "store", "train.yaml", "key_phrases.jsonl"}
    assert names >= {"skipped.csv", "summary.json", "checkpoints", "logs"}

    summary = json.loads((out / "summary.json").read_text())
    assert summary["test/images"] == 6
    assert summary["test/distinct_phrases"] >= 1
    validated = [row for row in rows(out) if row["val/loss"]]
    assert [row["epoch"] for row in validated] == ["0", "1", "2"]
    assert all(float(row["val/distinct_phrases"]) >= 1 for row in validated)
    assert all(float(row["val/phrases_per_image"]) >= 1 for row in validated)
    # The kept weights are those of the lowest validation loss.
    assert summary["val/loss"] == pytest.approx(min(float(row["val/loss"]) for row in validated), abs=1e-4)

    weights = load_file(out / "model.safetensors")
    assert not any("network" in name for name in weights)  # frozen encoders are kept by reference
    image = next((Path(tiny_config.data.cache) / "phantom").rglob("*frontal.png"))
    report = ReportGenerator.from_pretrained(out)(frontal=image)
    stored = {json.loads(line)["text"] for line in (out / "store" / "phrases.jsonl").read_text().splitlines()}
    assert {phrase.text for phrase in report.phrases["frontal"]} <= stored


def test_a_threshold_left_open_is_chosen_on_validation_and_kept_with_the_model(tiny_config: TrainConfig) -> None:
    out = train(dataclasses.replace(tiny_config, threshold=None))
    chosen = json.loads((out / "summary.json").read_text())["threshold"]
    assert chosen in CANDIDATES
    assert ReportGenerator.from_pretrained(out).threshold == chosen


def test_with_anchors_each_query_keeps_to_its_group(tiny_config: TrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def watch(logits, embeddings, phrases, counts, mu, groups):
        matches = match(logits, embeddings, phrases, counts, mu, groups)
        calls.append((phrases, counts, groups, matches))
        return matches

    match = criterion.match
    monkeypatch.setattr(criterion, "match", watch)
    config = dataclasses.replace(
        tiny_config,
        text=dataclasses.replace(tiny_config.text, noise=False),
        retriever=dataclasses.replace(tiny_config.retriever, anchors=True),
        loss=dataclasses.replace(tiny_config.loss, background=0.5),
    )
    out = train(config)

    # The groups again, from what the run has left.
    stored = {phrase.text: phrase.count for phrase in PhraseStore.load(out / "store").phrases}
    texts = sorted(stored)
    embeddings = load_text_encoder(config.text.encoder, None).encode(texts).numpy()
    table = PhraseTable.of(texts, embeddings)
    groups = group_phrases(texts, [stored[text] for text in texts], embeddings, table.findings, 20, config.seed)
    assert 0 < groups.findings.sum() < 20
    kept = load_file(out / "model.safetensors")
    np.testing.assert_allclose(kept["anchors"].numpy(), groups.anchors, atol=1e-5)
    assert kept["members.0.semantic.4.weight"].abs().max() > 0  # offsets were learned
    assert yaml.safe_load((out / "config.yaml").read_text())["retriever"]["anchors"] is True

    # In training and validation alike, each phrase with the group of its own row.
    matched = 0
    for phrases, counts, given, matches in calls:
        assert torch.equal(given[matches.image, matches.phrase], matches.query)
        matched += len(matches.query)
        for row, mine, count in zip(phrases, given, counts.tolist(), strict=True):
            cosines = row[:count].numpy() @ embeddings.T
            for cosine, group in zip(cosines, mine.tolist(), strict=False):
                if cosine.max() > 0.9999:  # else a phrase of validation alone
                    assert group in groups.of_phrase[cosine > 0.9999]
    assert matched > len(calls)

    image = next((Path(config.data.cache) / "phantom").rglob("*frontal.png"))
    report = ReportGenerator.from_pretrained(out)(frontal=image)
    assert {phrase.text for phrase in report.phrases["frontal"]} <= stored.keys()


def test_logits_of_findings_are_adjusted_by_their_odds_after_training(tiny_config: TrainConfig) -> None:
    kept = {}
    for share in (0.0, 0.5):
        retriever = dataclasses.replace(tiny_config.retriever, anchors=True, logit_adjustment=share)
        config = dataclasses.replace(tiny_config, retriever=retriever, out=f"{tiny_config.out}-{share}")
        kept[share] = load_file(train(config) / "model.safetensors")
    moved = (kept[0.5].pop("offset") - kept[0.0].pop("offset")).numpy()
    for name, value in kept[0.0].items():
        torch.testing.assert_close(kept[0.5][name], value)  # training knows nothing of it

    # The odds again, image by image from the key phrases that the run has left.
    studies = read_studies(config.data, config.seed)
    phrases = read_key_phrases(Path(config.out) / "key_phrases.jsonl")
    told = [
        positive_findings(phrases[study.id]).any(axis=0)
        for study in studies
        if study.split == "train" and phrases[study.id]
        for _ in study.views
    ]
    odds = np.sum(told, axis=0) / (len(told) - np.sum(told, axis=0))
    expected = -0.5 * np.log(odds[odds > 0])
    assert len(expected) > 2
    np.testing.assert_allclose(moved[: len(expected)], expected, rtol=1e-4)
    np.testing.assert_allclose(moved[len(expected) :], moved[-1])


@pytest.mark.parametrize(("settings", "said"), [
    ({"logit_adjustment": -1.0, "anchors": True}, r"retriever\.logit_adjustment: must be at least 0, got -1"),
    ({"logit_adjustment": 0.3}, r"retriever\.logit_adjustment: must be 0 without retriever\.anchors, got 0\.3"),
])  # fmt: skip
def test_adjustments_that_cannot_be(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(RarrgError, match=said):
        RetrieverConfig(**settings)


def test_anchors_need_a_query_for_each_finding(tiny_config: TrainConfig) -> None:
    retriever = dataclasses.replace(tiny_config.retriever, anchors=True, queries=6)
    with pytest.raises(RarrgError, match=r"retriever\.queries: must be at least \d+ with retriever\.anchors"):
        train(dataclasses.replace(tiny_config, retriever=retriever))


@pytest.mark.parametrize(
    "part", [TrainConfig, *(field.default_factory for field in dataclasses.fields(TrainConfig) if field.name in PARTS)]
)
def test_every_key_is_documented(part: type) -> None:
    documented = re.findall(r"^        (\w+): \S", part.__doc__ or "", re.MULTILINE)
    assert documented == [field.name for field in dataclasses.fields(part)]


def test_cached_and_live_features_give_the_same_losses(tiny_config: TrainConfig, tmp_path: Path) -> None:
    # Weights held still: once float16 rounding has turned a tie of the matching, two trained runs part ways.
    config = dataclasses.replace(
        tiny_config,
        # In bfloat16 live encoders would round where cached features do not.
        trainer=dataclasses.replace(tiny_config.trainer, epochs=1, precision="32-true"),
        optim=dataclasses.replace(tiny_config.optim, learning_rate=1e-9, weight_decay=0.0),
    )
    live = dataclasses.replace(
        config, out=str(tmp_path / "live"), data=dataclasses.replace(config.data, cache_features=False)
    )
    cached_rows, live_rows = rows(train(config)), rows(train(live))
    for column in ("train/loss", "train/selection", "train/similarity", "train/contrastive", "val/loss"):
        cached_values = [float(row[column]) for row in cached_rows if row[column]]
        assert len(cached_values) == (1 if column == "val/loss" else 9)
        assert cached_values == pytest.approx([float(row[column]) for row in live_rows if row[column]], abs=1e-3)


def test_a_second_run_computes_no_features(tiny_config: TrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    train(tiny_config)

    def refuse(self: FusedEncoder, pixels: object) -> torch.Tensor:
        raise AssertionError("features were computed again")

    monkeypatch.setattr(FusedEncoder, "forward", refuse)
    train(tiny_config)


@pytest.mark.parametrize("kept", ["features", "images"])
def test_shards_are_shuffled_in_windows(kept: str, tiny_config: TrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rarrg.data.features.SHARD_BYTES", 4096)
    monkeypatch.setattr("rarrg.data.pixels.SHARD_BYTES", 8 * 32**2)
    asked: list[Path] = []
    monkeypatch.setattr("rarrg.data.windows.will_need", asked.extend)
    cache = {"cache_features": kept == "features", "cache_images": kept == "images"}
    data = dataclasses.replace(tiny_config.data, shuffle_window=1, **cache)
    out = train(dataclasses.replace(tiny_config, data=data))
    shards = {path for path in Path(data.cache).rglob("*.npy") if path.parent.parent.name in ("features", "pixels")}
    assert len(shards) > 2
    assert 2 < len({*asked}) <= len(shards)  # validation images lie in shards too
    assert {*asked} <= shards
    assert (out / "model.safetensors").is_file()

    again = dataclasses.replace(tiny_config, data=data, trainer=dataclasses.replace(tiny_config.trainer, epochs=9))
    monkeypatch.setattr("rarrg.data.windows.Shards.digest", property(lambda _: "of another cache"))
    with pytest.raises(RarrgError, match="holds the images in other shards"):
        train(again, ckpt_path="last")


@pytest.mark.parametrize(
    ("found", "precision"),
    [({"amx_bf16": True}, "bf16-mixed"), ({"avx512_bf16": True}, "32-true"), ({}, "32-true")],
)
def test_bfloat16_by_itself_where_a_cpu_is_faster_with_it(
    found: dict[str, bool], precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found)
    assert experiment._precision("auto", torch.device("cpu")) == precision
    assert experiment._precision("bf16-mixed", torch.device("cpu")) == "bf16-mixed"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"cache_features": False}, "data.shuffle_window: there is no cache"),
        ({"balance": 0.5}, "set data.balance to 0"),
        ({"shuffle_window": 0}, "data.shuffle_window: must be at least 1, or null"),
    ],
)
def test_windows_that_cannot_be(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(RarrgError, match=said):
        DataConfig(**{"shuffle_window": 4, **settings})


@pytest.mark.slow
# Before the first checkpoint; within the first epoch; at the start of the second; in the last, with workers.
@pytest.mark.parametrize(("killed_at", "balance", "workers"), [(1, 0.0, 0), (6, 0.5, 0), (9, 0.0, 0), (22, 0.5, 2)])
def test_a_killed_run_resumes_to_the_same_weights(
    tiny_config: TrainConfig, tmp_path: Path, killed_at: int, balance: float, workers: int
) -> None:
    data = dataclasses.replace(tiny_config.data, balance=balance, num_workers=workers)
    whole = train(dataclasses.replace(tiny_config, data=data))
    config = dataclasses.replace(tiny_config, data=data, out=str(tmp_path / "killed"))
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(dataclasses.asdict(config)))
    argv = [sys.executable, "-c", KILLED, str(killed_at), str(tmp_path / "c.yaml")]
    killed = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert killed.returncode == -9, killed.stderr
    assert not (tmp_path / "killed" / "model.safetensors").exists()

    resumed = train(config, ckpt_path="last")
    expected, found = load_file(whole / "model.safetensors"), load_file(resumed / "model.safetensors")
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        assert torch.equal(value, found[name]), name
    assert (whole / "summary.json").read_text() == (resumed / "summary.json").read_text()


def test_a_resumed_run_keeps_the_best_epoch_it_had(
    tiny_config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in the first step after its best epoch, and resumed in place, in a copy, and into another folder."""
    logged = RetrieverModule.log

    def log(self: RetrieverModule, name: str, value: Any, **options: Any) -> None:
        logged(self, name, (0.6, 0.4, 0.5, 0.45)[self.current_epoch] if name == "val/loss" else value, **options)

    monkeypatch.setattr(RetrieverModule, "log", log)
    trainer = dataclasses.replace(tiny_config.trainer, epochs=4, monitor="loss")
    config = dataclasses.replace(tiny_config, trainer=trainer)
    whole = train(dataclasses.replace(config, out=str(tmp_path / "whole")))
    kept = load_checkpoint(whole / "checkpoints" / "best.ckpt")["epoch"]
    assert kept == 1

    started = RetrieverModule.on_train_batch_start

    def stop(self: RetrieverModule, batch: Any, batch_idx: int) -> None:
        started(self, batch, batch_idx)
        if (self.current_epoch, batch_idx) == (kept + 1, 1):
            raise KeyboardInterrupt

    stopped = dataclasses.replace(config, out=str(tmp_path / "stopped"))
    with monkeypatch.context() as patch:
        patch.setattr(RetrieverModule, "on_train_batch_start", stop)
        with pytest.raises(KeyboardInterrupt):
            train(stopped)
    shutil.copytree(tmp_path / "stopped", tmp_path / "copied")
    last = tmp_path / "stopped" / "checkpoints" / "last.ckpt"
    resumed = [
        train(dataclasses.replace(config, out=str(tmp_path / "copied")), "last"),
        train(dataclasses.replace(config, out=str(tmp_path / "elsewhere")), str(last)),
        train(stopped, "last"),
    ]
    expected = load_file(whole / "model.safetensors")
    for folder in resumed:
        assert load_checkpoint(folder / "checkpoints" / "best.ckpt")["epoch"] == kept
        for name, value in load_file(folder / "model.safetensors").items():
            assert torch.equal(value, expected[name]), name

    # A checkpoint that was taken away from its best is not gone on from.
    alone = shutil.copy(last, tmp_path / "alone.ckpt")
    with pytest.raises(RarrgError, match=r"best\.ckpt: is missing; .*alone\.ckpt goes with the best weights"):
        train(dataclasses.replace(config, out=str(tmp_path / "nowhere")), str(alone))


def test_other_phrases_are_not_gone_on_with(tiny_config: TrainConfig, tmp_path: Path) -> None:
    first = train(tiny_config)
    phrases = tmp_path / "phrases.jsonl"
    shutil.copy(first / "key_phrases.jsonl", phrases)
    data = dataclasses.replace(tiny_config.data, phrases=str(phrases))
    config = dataclasses.replace(tiny_config, data=data, out=str(tmp_path / "own"))
    out = train_once(config)
    assert train_once(config) == out
    phrases.write_text(phrases.read_text().replace("cardiomegaly", "enlarged heart"))
    for again in (lambda: train(config, "last"), lambda: train_once(config)):
        with pytest.raises(RarrgError, match=r"last\.ckpt: its run read other images or key phrases"):
            again()


def test_ctrl_c_and_sigterm_end_training_as_they_end_any_command(
    tiny_config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(dataclasses.asdict(tiny_config)))

    def sent(number: int) -> None:
        def send(*_: object) -> None:
            os.kill(os.getpid(), number)

        monkeypatch.setattr(RetrieverModule, "on_train_batch_start", send)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        # As in a process of its own: Ray, where a test started it, ends the process on SIGTERM before Lightning does.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for number, status, said in (
            (signal.SIGTERM, 143, "terminated: go on with --ckpt_path last"),
            (signal.SIGINT, 130, "interrupted"),
        ):
            sent(number)
            assert main(["train", "--config", str(tmp_path / "c.yaml")]) == status
            assert capsys.readouterr().err.strip().splitlines()[-1] == said
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_home_is_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    config = TrainConfig(out="~/run", data=DataConfig(root="~/data", cache="~/cache", phrases="~nobody-of-that-name/p"))
    assert config.out == str(tmp_path / "run")
    assert (config.data.root, config.data.cache) == (str(tmp_path / "data"), str(tmp_path / "cache"))
    assert config.data.phrases == "~nobody-of-that-name/p"


def test_resuming_keeps_the_wandb_run(
    tiny_config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "staged"))
    config = dataclasses.replace(tiny_config, log=dataclasses.replace(tiny_config.log, wandb="offline"))
    out = train(dataclasses.replace(config, trainer=dataclasses.replace(config.trainer, epochs=1)))
    identity = (out / "wandb_run.json").read_text()
    time.sleep(1)  # W&B names a folder by the second
    train(config, ckpt_path="last")
    assert (out / "wandb_run.json").read_text() == identity
    run = json.loads(identity)["id"]
    assert len(list(out.glob(f"wandb/offline-run-*-{run}"))) == 2
    train(config)
    assert (out / "wandb_run.json").read_text() != identity


def test_without_a_login_wandb_logs_offline(tiny_config: TrainConfig, tmp_path: Path) -> None:
    # In a process of its own: W&B keeps what it has once read of a login for as long as its process lives.
    trainer = dataclasses.replace(tiny_config.trainer, epochs=1)
    config = dataclasses.replace(tiny_config, trainer=trainer, log=dataclasses.replace(tiny_config.log, wandb="auto"))
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(dataclasses.asdict(config)))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    environment |= {"NETRC": str(tmp_path / "no-netrc"), "HOME": str(tmp_path)}
    argv = [sys.executable, "train.py", "--config", str(tmp_path / "c.yaml")]
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(list(Path(config.out).glob("wandb/offline-run-*"))) == 1


def test_resuming_another_configuration_is_refused(tiny_config: TrainConfig, tmp_path: Path) -> None:
    one_epoch = dataclasses.replace(tiny_config, trainer=dataclasses.replace(tiny_config.trainer, epochs=1))
    with pytest.raises(RarrgError, match=r"no checkpoint .*last\.ckpt; leave --ckpt_path out"):
        train(one_epoch, ckpt_path="last")
    out = train(one_epoch)
    other = dataclasses.replace(one_epoch, seed=1, loss=dataclasses.replace(tiny_config.loss, temperature=0.5))
    with pytest.raises(RarrgError, match=r"loss\.temperature, seed differ from what .*last\.ckpt was trained with"):
        train(other, ckpt_path="last")
    limited = dataclasses.replace(one_epoch, trainer=dataclasses.replace(one_epoch.trainer, limit_batches=4))
    elsewhere = dataclasses.replace(limited, out=str(tmp_path / "elsewhere"))
    with pytest.raises(RarrgError, match=r"trainer\.limit_batches differ"):
        train(elsewhere, ckpt_path=str(out / "checkpoints" / "last.ckpt"))

    torch.save({"state_dict": {}}, tmp_path / "foreign.ckpt")
    with pytest.raises(RarrgError, match="is not a checkpoint of rarrg"):
        train(one_epoch, ckpt_path=str(tmp_path / "foreign.ckpt"))
    (tmp_path / "torn.ckpt").write_bytes((out / "checkpoints" / "last.ckpt").read_bytes()[:1000])
    with pytest.raises(RarrgError, match="is not a readable checkpoint"):
        train(one_epoch, ckpt_path=str(tmp_path / "torn.ckpt"))
    torch.save([1], tmp_path / "list.ckpt")
    for path, said in ((tmp_path / "list.ckpt", "not a checkpoint of rarrg"), (out / "train.yaml", "not a readable")):
        with pytest.raises(RarrgError, match=said):
            train(one_epoch, ckpt_path=str(path))


def test_a_new_run_in_a_used_folder_takes_nothing_of_the_old_one(
    tiny_config: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = train(tiny_config)
    (out / "evaluation").mkdir()
    (out / "evaluation" / "metrics.json").write_text("{}")
    other = dataclasses.replace(tiny_config, seed=1)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(experiment, "_trainer", die)
        with pytest.raises(KeyboardInterrupt):
            train(other)
    assert not (out / "model.safetensors").exists()
    assert not (out / "checkpoints" / "last.ckpt").exists()
    assert not (out / "evaluation").exists()
    # Killed before its first checkpoint, the new run starts anew and does not go on with the old one's weights.
    resumed = load_file(train(other, ckpt_path="last") / "model.safetensors")
    fresh = load_file(train(dataclasses.replace(other, out=f"{out}2")) / "model.safetensors")
    assert all(torch.equal(fresh[name], resumed[name]) for name in fresh)


def test_a_run_that_cannot_start_leaves_the_model_of_an_earlier_one(tiny_config: TrainConfig) -> None:
    out = train(tiny_config)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    wrong = [
        {"text": dataclasses.replace(tiny_config.text, encoder=str(out))},
        {"vision": VisionConfig(encoders=[EncoderConfig(spec=str(out))])},
        {"store": StoreConfig(index="Nonsense")},
        {"data": dataclasses.replace(tiny_config.data, source="iu_xray", root=str(out / "nowhere"))},
    ]
    for change in wrong:
        with pytest.raises(RarrgError):
            train(dataclasses.replace(tiny_config, **change))
        assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_a_folder_that_cannot_be_written_is_one_line(tiny_config: TrainConfig, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RarrgError, match="cannot be written"):
        train(dataclasses.replace(tiny_config, out=str(tmp_path / "file" / "run")))


def test_a_folder_that_another_run_trains_in_is_left_to_it(
    tiny_config: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Path(tiny_config.out)
    out.mkdir()
    with FileLock(out / LOCK):
        with pytest.raises(RarrgError, match=re.escape(f"{out}: another run writes there")):
            train(tiny_config)
        assert [path.name for path in out.iterdir()] == [LOCK]
        # a process that shares the batches of the first comes to preparing, and ends where this one does
        monkeypatch.setenv("LOCAL_RANK", "1")
        monkeypatch.setattr(experiment, "prepare", lambda *_: sys.exit("prepares"))
        with pytest.raises(SystemExit, match="prepares"):
            train(tiny_config)


def test_a_gpu_that_is_not_there_is_one_line(tiny_config: TrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RarrgError, match=r"trainer\.accelerator: cuda, but there is no GPU here"):
        train(dataclasses.replace(tiny_config, trainer=dataclasses.replace(tiny_config.trainer, accelerator="cuda")))


def test_bfloat16_trains(tiny_config: TrainConfig) -> None:
    trainer = dataclasses.replace(tiny_config.trainer, precision="bf16-mixed", epochs=1)
    assert (train(dataclasses.replace(tiny_config, trainer=trainer)) / "model.safetensors").is_file()


def test_a_loss_that_is_not_finite_stops_the_run_and_is_named(
    tiny_config: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        criterion, "soft_contrastive_loss", lambda text, semantic, *_, **__: semantic.sum() * float("nan")
    )
    with pytest.raises(RarrgError, match="loss term 'contrastive' is nan at step 0"):
        train(tiny_config)


def test_unreadable_images_are_left_out_and_listed(tiny_config: TrainConfig) -> None:
    train(dataclasses.replace(tiny_config, trainer=dataclasses.replace(tiny_config.trainer, epochs=1)))
    broken = sorted((Path(tiny_config.data.cache) / "phantom").rglob("*frontal.png"))[0]
    broken.write_bytes(b"")
    with pytest.raises(RarrgError, match=r"1 of 48 images cannot be read \(2.1%, data.max_bad_images is 1.0%\)"):
        train(tiny_config)
    tolerant = dataclasses.replace(tiny_config, data=dataclasses.replace(tiny_config.data, max_bad_images=0.05))
    out = train(tolerant)
    with (out / "skipped.csv").open(newline="") as file:
        assert [row["path"] for row in csv.DictReader(file)] == [str(broken)]
