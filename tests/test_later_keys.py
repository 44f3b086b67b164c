from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from rarrg import training_once
from rarrg.config import TrainConfig
from rarrg.errors import RarrgError
from rarrg.experiment import train
from rarrg.later_keys import LATER, without_later
from rarrg.training_once import train_once


def value_of(settings: dict, key: str) -> Any:
    for part in key.split("."):
        settings = settings[part]
    return settings


def test_a_later_key_stands_at_its_default() -> None:
    assert {key: value_of(dataclasses.asdict(TrainConfig()), key) for key in LATER} == LATER


@pytest.mark.parametrize("key", LATER)
def test_a_run_from_before_a_key_is_the_same_run_at_its_default_alone(key: str) -> None:
    now, before, changed = (dataclasses.asdict(TrainConfig()) for _ in range(3))
    section, _, name = key.rpartition(".")
    del value_of(before, section)[name]
    value_of(changed, section)[name] = 2
    assert without_later(before) == without_later(now)
    assert without_later(before) != without_later(changed)


def test_a_model_from_before_the_keys_is_not_trained_again(
    tiny_config: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = train(dataclasses.replace(tiny_config, trainer=dataclasses.replace(tiny_config.trainer, epochs=1)))
    text = (out / "train.yaml").read_text()
    kept = [line for line in text.splitlines() if line.split(":")[0].strip() not in {k.split(".")[-1] for k in LATER}]
    assert len(kept) == len(text.splitlines()) - len(LATER)
    (out / "train.yaml").write_text("\n".join(kept))
    monkeypatch.setattr(training_once, "train", lambda *_: pytest.fail("was trained again"))
    one_epoch = dataclasses.replace(tiny_config, trainer=dataclasses.replace(tiny_config.trainer, epochs=1))
    assert train_once(one_epoch) == out


@pytest.mark.parametrize("text", ["out: [", "a sentence"])
def test_a_folder_whose_configuration_cannot_be_read_is_named(
    tiny_config: TrainConfig, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_once, "train", lambda *_: pytest.fail("was trained over it"))
    path = Path(tiny_config.out) / "train.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    with pytest.raises(RarrgError, match=r"train\.yaml: .*; remove it to train in its folder anew"):
        train_once(tiny_config)
