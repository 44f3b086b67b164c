from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from rarrg import training
from rarrg.config import TrainConfig
from rarrg.data.datamodule import Batch
from rarrg.experiment import train
from rarrg.losses.matching import Matches
from rarrg.models.retriever import PhraseRetriever, RetrieverOutput
from rarrg.models.vision import FusedEncoder
from rarrg.monitoring import THRESHOLDS, Validation
from rarrg.training import RetrieverModule, warmup_cosine


def test_warm_up_is_linear_and_ends_at_the_peak() -> None:
    assert [warmup_cosine(step, 4, 104) for step in range(5)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


def test_cosine_by_hand() -> None:
    assert warmup_cosine(54, 4, 104) == pytest.approx(0.5)
    assert warmup_cosine(29, 4, 104) == pytest.approx((1 + math.cos(math.pi / 4)) / 2)
    assert warmup_cosine(104, 4, 104) == pytest.approx(0)
    assert warmup_cosine(500, 4, 104) == pytest.approx(0)


def test_without_warm_up_the_first_step_is_the_peak() -> None:
    assert warmup_cosine(0, 0, 10) == 1.0


@pytest.fixture
def one_epoch(tiny_config: TrainConfig) -> TrainConfig:
    return dataclasses.replace(tiny_config, trainer=dataclasses.replace(tiny_config.trainer, epochs=1))


def test_noise_is_added_in_training_and_nowhere_else(one_epoch: TrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    norms: dict[bool, list[float]] = {True: [], False: []}
    terms = RetrieverModule._terms

    def watch(self: RetrieverModule, batch: Any, output: Any, noise: bool) -> Any:
        forward = self.criterion.forward

        def see(logits: torch.Tensor, embeddings: torch.Tensor, phrases: torch.Tensor, *rest: Any) -> Any:
            clean = self.phrase_table[batch.phrases]
            norms[self.training].append(float((phrases - clean).norm(dim=-1).mean()))
            return forward(logits, embeddings, phrases, *rest)

        monkeypatch.setattr(self.criterion, "forward", see)
        found = terms(self, batch, output, noise)
        monkeypatch.setattr(self.criterion, "forward", forward)
        return found

    monkeypatch.setattr(RetrieverModule, "_terms", watch)
    train(one_epoch)
    assert min(norms[True]) > 0.3  # |e + u - e| for u ~ U[-1, 1]/sqrt(d) is about 0.5 after normalising
    assert max(norms[False]) == 0

    norms[True].clear()
    train(dataclasses.replace(one_epoch, text=dataclasses.replace(one_epoch.text, noise=False)))
    assert max(norms[True]) == 0


def test_each_member_of_an_ensemble_is_trained_on_its_own(
    one_epoch: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = dataclasses.replace(
        one_epoch,
        retriever=dataclasses.replace(one_epoch.retriever, anchors=True, members=2, dropout=0.0),
        text=dataclasses.replace(one_epoch.text, noise=False),
    )
    steps: list[tuple[float, float]] = []
    step = RetrieverModule.training_step

    def watch(self: RetrieverModule, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = step(self, batch, batch_idx)
        phrases, groups = self.phrase_table[batch.phrases], self.groups[batch.phrases]
        alone = [
            float(self.criterion.total(self.criterion(logits, embeddings, phrases, batch.counts, groups)[0]))
            for logits, embeddings, _ in self.retriever.each(self._features(batch))
        ]
        assert alone[0] != alone[1]
        steps.append((float(loss), sum(alone) / 2))
        return loss

    monkeypatch.setattr(RetrieverModule, "training_step", watch)
    out = train(config)
    taken, expected = zip(*steps, strict=True)
    assert taken == pytest.approx(expected, rel=1e-5)
    kept = PhraseRetriever.from_pretrained(out)[0].state_dict()
    assert not torch.allclose(kept["members.0.selection.weight"], kept["members.1.selection.weight"])


def test_the_optimiser_is_the_configured_one_and_trains_the_retriever_alone(
    one_epoch: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}
    start = RetrieverModule.on_train_batch_start

    def look(self: RetrieverModule, batch: Any, batch_idx: int) -> None:
        seen["optimizer"] = self.trainer.optimizers[0]
        seen["clip"] = self.trainer.gradient_clip_val
        seen["trained"] = {id(p) for p in self.retriever.parameters()}
        seen["frozen"] = list(self._encoder[0].parameters())
        start(self, batch, batch_idx)

    monkeypatch.setattr(RetrieverModule, "on_train_batch_start", look)
    optim = dataclasses.replace(one_epoch.optim, learning_rate=1e-3, weight_decay=0.07, clip=0.5)
    live = dataclasses.replace(one_epoch.data, cache_features=False)
    out = train(dataclasses.replace(one_epoch, optim=optim, data=live))
    (group,) = seen["optimizer"].param_groups
    assert isinstance(seen["optimizer"], torch.optim.AdamW)
    assert group["initial_lr"] == 1e-3
    assert group["weight_decay"] == 0.07
    assert seen["clip"] == 0.5
    assert {id(p) for p in group["params"]} == seen["trained"]
    assert all(not p.requires_grad and p.grad is None for p in seen["frozen"])
    checkpoint = torch.load(out / "checkpoints" / "last.ckpt", weights_only=True)
    assert all(name.startswith("retriever.") for name in checkpoint["state_dict"])


def test_every_parameter_of_the_retriever_moves(one_epoch: TrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    before: dict[str, torch.Tensor] = {}
    after: dict[str, torch.Tensor] = {}

    def keep(self: RetrieverModule) -> None:
        before.update({name: p.detach().clone() for name, p in self.retriever.named_parameters()})

    def compare(self: RetrieverModule) -> None:
        after.update({name: p.detach().clone() for name, p in self.retriever.named_parameters()})

    monkeypatch.setattr(RetrieverModule, "on_train_start", keep)
    monkeypatch.setattr(RetrieverModule, "on_train_end", compare)
    train(dataclasses.replace(one_epoch, optim=dataclasses.replace(one_epoch.optim, weight_decay=0.0)))
    # The bias of the keys moves every score of a query alike, so attention does not depend on it.
    still = [name for name, value in before.items() if torch.equal(value, after[name]) and "in_proj_bias" not in name]
    assert still == []


def test_frozen_encoders_go_to_the_device_of_the_run(one_epoch: TrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    class MovedTo(Exception):
        pass

    def move(self: FusedEncoder, device: torch.device) -> FusedEncoder:
        raise MovedTo(device.type)

    # What the module says of itself before Lightning has moved it is not where it will run.
    monkeypatch.setattr(RetrieverModule, "device", property(lambda self: torch.device("meta")))
    monkeypatch.setattr(FusedEncoder, "to", move)
    live = dataclasses.replace(one_epoch.data, cache_features=False)
    with pytest.raises(MovedTo, match="cpu"):
        train(dataclasses.replace(one_epoch, data=live))


def test_a_checkpoint_is_written_in_one_step(
    one_epoch: TrainConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "last.ckpt"
    path.write_text("whole")

    class Torn(L.Trainer):
        def save_checkpoint(self, filepath: Any, *_: Any, **__: Any) -> None:
            Path(filepath).write_text("ha")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training.Checkpoints(tmp_path, every=1, best=False).on_train_epoch_end(
            Torn(logger=False, accelerator="cpu"), None
        )
    assert path.read_text() == "whole"


def test_validation_keeps_what_each_query_matched_and_retrieved(
    one_epoch: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    observe = RetrieverModule._observe
    seen: list[Validation] = []

    def check(self: RetrieverModule, batch: Batch, output: RetrieverOutput, matches: Matches) -> Validation:
        found = observe(self, batch, output, matches)
        texts = {phrase.text for phrase in self.store.phrases}
        stored = [row for row, text in enumerate(self.phrases.texts) if text in texts]
        probabilities = torch.sigmoid(output.logits)
        for image, query in np.ndindex(probabilities.shape):
            if found.retrieved[image, query] >= 0:
                cosines = self.phrase_table.numpy() @ output.embeddings[image, query].numpy()  # no autocast
                assert found.similarities[image, query] == pytest.approx(float(cosines[stored].max()), abs=1e-5)
                assert cosines[found.retrieved[image, query]] == pytest.approx(float(cosines[stored].max()), abs=1e-5)
                assert self.phrases.texts[found.retrieved[image, query]] in texts
            else:
                assert probabilities[image, query] < THRESHOLDS[0]
        for image, count in enumerate(batch.counts):
            assert found.references[image].tolist() == batch.phrases[image, :count].tolist()
        pairs = zip(matches.image.tolist(), matches.query.tolist(), matches.phrase.tolist(), strict=True)
        expected = torch.full(probabilities.shape, torch.nan)
        for image, query, phrase in pairs:
            own = self.phrase_table[batch.phrases[image, phrase]]
            expected[image, query] = (own * output.embeddings[image, query]).sum()
        assert found.cosines == pytest.approx(expected.numpy(), abs=1e-5, nan_ok=True)
        seen.append(found)
        return found

    monkeypatch.setattr(RetrieverModule, "_observe", check)
    train(one_epoch)
    assert sum(len(found.references) for found in seen) == 2 * 6  # after the epoch, and of the kept weights


def test_a_step_asks_the_device_for_nothing_but_the_costs(
    one_epoch: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default):
                asked.append(str(func))
            return func(*args, **(kwargs or {}))

    step, cpu = RetrieverModule.training_step, torch.Tensor.cpu
    copies: list[int] = []

    def count(self: torch.Tensor, *rest: Any) -> torch.Tensor:
        copies[-1] += 1
        return cpu(self, *rest)

    def watched(self: RetrieverModule, batch: Batch, batch_idx: int) -> torch.Tensor:
        copies.append(0)
        # What Lightning does with logged figures is no part of it.
        with Watch(), monkeypatch.context() as patch:
            patch.setattr(torch.Tensor, "cpu", count)
            patch.setattr(RetrieverModule, "log", lambda *_, **__: None)
            patch.setattr(RetrieverModule, "log_dict", lambda *_, **__: None)
            loss = step(self, batch, batch_idx)
            (loss * 0).backward(retain_graph=True)
        self.zero_grad()
        return loss

    monkeypatch.setattr(RetrieverModule, "training_step", watched)
    train(one_epoch)
    assert copies == [1] * 9
    assert asked == []
