from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from rarrg.artifacts import write_jsonl
from rarrg.config import TrainConfig
from rarrg.data.studies import Example
from rarrg.errors import RarrgError
from rarrg.preparation import channel_statistics, prepare, stored_phrases
from rarrg.types import View

CPU = torch.device("cpu")


def example(study: str, *phrases: str) -> Example:
    return Example(View(f"{study}.png", "frontal", study), study, phrases)


def test_a_phrase_counts_once_a_study_and_keeps_five_examples() -> None:
    examples = [example(f"s{i}", "clear lungs") for i in range(7)]
    examples += [example("s0", "clear lungs", "old rib fracture")]  # the second view of s0: the same report
    stored = stored_phrases([*examples[:6], *examples[6:7], examples[7]])
    assert [(phrase.text, phrase.count) for phrase in stored] == [("clear lungs", 7), ("old rib fracture", 1)]
    assert stored[0].studies == ("s0", "s1", "s2", "s3", "s4")


def test_the_store_holds_training_phrases_only(tiny_config: TrainConfig) -> None:
    prepared = prepare(tiny_config, CPU)
    train = {phrase for example in prepared.splits["train"] for phrase in example.phrases}
    assert {phrase.text for phrase in prepared.store.phrases} == train
    assert train <= prepared.phrases.keys()
    assert prepared.table.shape == (len(prepared.phrases), 12)
    torch.testing.assert_close(prepared.table.norm(dim=1), torch.ones(len(prepared.phrases)))
    similarities, ids = prepared.store.search(prepared.table.numpy())
    for text, row in prepared.phrases.items():
        if text in train:
            assert similarities[row, 0] == pytest.approx(1, abs=1e-5)
            assert ids[row, 0] < len(train)


def test_channel_statistics_are_those_of_the_features(tiny_config: TrainConfig) -> None:
    cached = prepare(tiny_config, CPU)
    features = torch.stack([cached.read(example.view.path)[0] for example in cached.splits["train"]]).double()
    mean, deviation = channel_statistics(cached, CPU, seed=0)
    torch.testing.assert_close(mean, features.mean(dim=(0, 2, 3)).float(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(deviation, features.std(dim=(0, 2, 3), correction=0).float(), atol=1e-4, rtol=1e-4)

    live = dataclasses.replace(tiny_config, data=dataclasses.replace(tiny_config.data, cache_features=False))
    live_mean, live_deviation = channel_statistics(prepare(live, CPU), CPU, seed=0)
    torch.testing.assert_close(live_mean, mean, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(live_deviation, deviation, atol=1e-3, rtol=1e-3)


def test_phrases_of_another_extractor_feed_training(tiny_config: TrainConfig, tmp_path: Path) -> None:
    ids = sorted({example.study_id for part in prepare(tiny_config, CPU).splits.values() for example in part})
    path = tmp_path / "phrases.jsonl"
    rows = [{"study_id": name, "key_phrases": [f"phrase of {name}"], "provenance": {}} for name in ids[:-2]]
    rows.append({"study_id": ids[-2], "key_phrases": [], "provenance": {}})
    write_jsonl(path, rows)
    config = dataclasses.replace(tiny_config, data=dataclasses.replace(tiny_config.data, phrases=str(path)))
    prepared = prepare(config, CPU)
    assert all(phrase.text.startswith("phrase of ") for phrase in prepared.store.phrases)
    # Every test image stays, with phrases or without.
    assert len(prepared.splits["test"]) == 6

    write_jsonl(path, [{"study_id": "of another data set", "key_phrases": ["x"], "provenance": {}}])
    with pytest.raises(RarrgError, match="no train study has key phrases"):
        prepare(config, CPU)
