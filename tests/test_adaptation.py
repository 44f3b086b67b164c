from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.metrics import average_precision_score

from rarrg.adapt_config import AdaptConfig
from rarrg.adaptation import adapt_encoders
from rarrg.config import EncoderConfig, TrainConfig, VisionConfig
from rarrg.data.images import read_image
from rarrg.data.studies import Example
from rarrg.errors import RarrgError
from rarrg.experiment import train
from rarrg.models.vision import VisionEncoder, load_encoder, load_fused
from rarrg.pipeline import ReportGenerator
from rarrg.types import View

CPU = torch.device("cpu")
SETTINGS = AdaptConfig(epochs=2, batch_size=4, learning_rate=3e-3)


def drawn(folder: Path, number: int, seed: int = 0) -> list[Example]:
    """Noise of any brightness; images with a paler square in the middle are of studies that say "cardiomegaly"."""
    folder.mkdir(exist_ok=True)
    generator = np.random.default_rng(seed)
    examples = []
    for index in range(number):
        pixels = generator.integers(0, 90, (64, 64), dtype=np.uint8) + generator.integers(0, 90, dtype=np.uint8)
        large = index % 2 == 0
        if large:
            pixels[16:48, 16:48] += 50
        path = folder / f"{index}.png"
        Image.fromarray(pixels).save(path)
        phrases = ("mild cardiomegaly", "clear lungs") if large else ("no cardiomegaly", "clear lungs")
        examples.append(Example(View(path, "frontal", f"{seed}-{index}"), f"s{index}", phrases))
    return examples


@pytest.fixture
def images(tmp_path: Path) -> tuple[list[Example], list[Example]]:
    return drawn(tmp_path / "train", 18), drawn(tmp_path / "val", 6, seed=1)


def adapted(tiny_timm: Path, images, folder: Path, config: AdaptConfig = SETTINGS, stages=(3, 4)) -> VisionEncoder:
    encoder = EncoderConfig(str(tiny_timm), 64, None, None if stages is None else list(stages))
    (found,) = adapt_encoders([encoder], config, *images, folder, CPU)
    return load_fused([found]).encoders[0]


def state(encoder: VisionEncoder) -> dict[str, torch.Tensor]:
    return encoder.network.state_dict()


def test_the_first_joined_stage_and_those_after_it_are_trained_and_nothing_before(tiny_timm, images, tmp_path):
    before = load_encoder(str(tiny_timm), 64, stages=[3, 4])
    after = adapted(tiny_timm, images, tmp_path / "adapted")
    changed = {name for name, value in state(after).items() if not torch.equal(value, state(before)[name])}
    frozen = ("conv_stem.", "bn1.", "blocks.0.", "blocks.1.", "blocks.2.")
    assert not [name for name in changed if name.startswith(frozen)]  # running statistics of the batch norms included
    trained = {name for name in state(after) if name.startswith(("blocks.3.", "blocks.4."))}
    assert changed == trained
    assert (after.channels, after.grid, after.stages) == (before.channels, before.grid, before.stages)
    assert after.preprocessing == before.preprocessing


def test_without_stages_the_whole_network_is_trained(tiny_timm, images, tmp_path):
    before = load_encoder(str(tiny_timm), 64)
    after = adapted(tiny_timm, images, tmp_path / "adapted", stages=None)
    assert not torch.equal(state(after)["conv_stem.weight"], state(before)["conv_stem.weight"])


def test_the_map_tells_findings_apart_that_it_did_not(tiny_timm, images, tmp_path):
    """The axis between the means of the two kinds of training images ranks unseen ones."""
    unseen = drawn(tmp_path / "test", 40, seed=2)
    truth = [index % 2 == 0 for index in range(40)]

    def precision(encoder: VisionEncoder) -> float:
        def pooled(examples: list[Example]) -> torch.Tensor:
            maps = encoder(torch.stack([encoder.preprocessing(read_image(e.view.path)) for e in examples]))
            return (maps.mean((2, 3)) + maps.amax((2, 3))) / 2

        seen = pooled(images[0])
        axis = seen[::2].mean(0) - seen[1::2].mean(0)
        return float(average_precision_score(truth, pooled(unseen) @ axis))

    settings = dataclasses.replace(SETTINGS, epochs=12)
    before, after = (
        load_encoder(str(tiny_timm), 64, stages=[3, 4]),
        adapted(tiny_timm, images, tmp_path / "a", settings),
    )
    assert precision(after) > max(0.9, precision(before) + 0.1)


def test_the_same_images_and_settings_are_adapted_to_once(tiny_timm, images, tmp_path, monkeypatch):
    first = adapted(tiny_timm, images, tmp_path / "adapted")
    with monkeypatch.context() as patch:
        patch.setattr("lightning.Trainer.fit", lambda *_, **__: pytest.fail("trained again"))
        assert adapted(tiny_timm, images, tmp_path / "adapted").fingerprint == first.fingerprint
    again = adapted(tiny_timm, images, tmp_path / "elsewhere")
    assert again.fingerprint == first.fingerprint  # the seed decides all
    other = [*images[0][1:], dataclasses.replace(images[0][0], phrases=("clear lungs",))]
    for changed in (
        adapted(tiny_timm, images, tmp_path / "adapted", dataclasses.replace(SETTINGS, seed=1)),
        adapted(tiny_timm, (other, images[1]), tmp_path / "adapted"),
        adapted(tiny_timm, images, tmp_path / "adapted", stages=(2, 4)),
    ):
        assert changed.fingerprint != first.fingerprint
    assert len(list((tmp_path / "adapted").iterdir())) == 4


def test_a_run_that_broke_off_starts_anew_and_damage_is_refused(tiny_timm, images, tmp_path):
    first = adapted(tiny_timm, images, tmp_path / "adapted")
    (place,) = (tmp_path / "adapted").iterdir()
    (place / "manifest.json").unlink()  # is written last
    (place / "model.safetensors").write_bytes(b"half")
    assert adapted(tiny_timm, images, tmp_path / "adapted").fingerprint == first.fingerprint
    (place / "model.safetensors").write_bytes(b"half")
    with pytest.raises(RarrgError, match=r"model\.safetensors: changed since it was written"):
        adapted(tiny_timm, images, tmp_path / "adapted")


def test_what_cannot_be_adapted_is_said(tiny_vision, tiny_timm, images, tmp_path):
    with pytest.raises(RarrgError, match=r"vision\.adapt: .* is no timm or packaged network"):
        adapt_encoders([EncoderConfig(str(tiny_vision))], SETTINGS, *images, tmp_path, CPU)
    normal = [dataclasses.replace(example, phrases=("clear lungs",)) for example in images[0]]
    with pytest.raises(RarrgError, match=r"vision\.adapt: no key phrase of the training images affirms a finding"):
        adapted(tiny_timm, (normal, images[1]), tmp_path)


@pytest.fixture
def adapting(tiny_config: TrainConfig, tiny_timm: Path) -> TrainConfig:
    vision = VisionConfig([EncoderConfig(str(tiny_timm), 64, None, [3, 4])], AdaptConfig(epochs=1, batch_size=8))
    trainer = dataclasses.replace(tiny_config.trainer, epochs=1)
    return dataclasses.replace(tiny_config, vision=vision, trainer=trainer)


def test_a_model_carries_its_adapted_encoders(adapting: TrainConfig, tmp_path: Path):
    folder = train(adapting)
    shutil.rmtree(adapting.data.cache)
    moved = folder.rename(tmp_path / "moved")
    generator = ReportGenerator.from_pretrained(moved, device="cpu")
    image = tmp_path / "image.png"
    Image.fromarray(np.arange(4096, dtype=np.uint16).reshape(64, 64).astype(np.uint8)).save(image)
    assert generator(frontal=image).text
    card = (moved / "README.md").read_text(encoding="utf-8")
    assert "adapted to the training images, then frozen" in card

    (weights,) = (moved / "encoders").glob("*/model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\0\1")
    with pytest.raises(RarrgError, match="changed since it was written"):
        ReportGenerator.from_pretrained(moved, device="cpu")


def test_training_anew_without_adaptation_leaves_no_encoders(adapting: TrainConfig):
    folder = train(adapting)
    assert (folder / "encoders").is_dir()
    train(dataclasses.replace(adapting, vision=dataclasses.replace(adapting.vision, adapt=None)))
    assert not (folder / "encoders").exists()
    ReportGenerator.from_pretrained(folder, device="cpu")
