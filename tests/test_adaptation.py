from __future__ import annotations

import csv
import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from sklearn.metrics import average_precision_score

from rarrg import adaptation, finding_classifier
from rarrg.adapt_config import AdaptConfig
from rarrg.adaptation import adapt_encoders, check_adaptable
from rarrg.artifacts import Manifest
from rarrg.cli import main
from rarrg.config import EncoderConfig, TrainConfig, VisionConfig
from rarrg.data.images import read_image
from rarrg.data.studies import Example
from rarrg.errors import RarrgError
from rarrg.experiment import train
from rarrg.metrics.findings import positive_findings
from rarrg.models.linear_reading import LinearReading
from rarrg.models.timm_networks import save_timm
from rarrg.models.vision import VisionEncoder, load_encoder, load_fused
from rarrg.pipeline import ReportGenerator
from rarrg.types import View
from tests.robustness.test_disk import file_size_limit

CPU = torch.device("cpu")
PHRASES = ("mild cardiomegaly", "no cardiomegaly", "clear lungs", "degenerative changes of the spine")
EMBEDDINGS = dict(zip(PHRASES, np.eye(4, dtype=np.float32), strict=True))
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
        examples.append(Example(View(str(path), "frontal", f"{seed}-{index}"), f"s{index}", phrases))
    return examples


@pytest.fixture
def images(tmp_path: Path) -> tuple[list[Example], list[Example]]:
    return drawn(tmp_path / "train", 18), drawn(tmp_path / "val", 6, seed=1)


def adapted(
    network: Path, images, folder: Path, config: AdaptConfig = SETTINGS, stages=(3, 4), num_workers: int = 0
) -> VisionEncoder:
    encoder = EncoderConfig(str(network), 64, None, None if stages is None else list(stages))
    ((found, _),) = adapt_encoders([encoder], config, *images, EMBEDDINGS, folder, CPU, num_workers)
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


def test_layers_without_a_name_of_their_own_stage_count_too(images, tmp_path):
    """A ResNet's stage 0 ends with an activation, which has no parameters; its convolution has."""
    torch.manual_seed(0)
    save_timm(timm.create_model("test_resnet", num_classes=0), tmp_path / "resnet")
    before = load_encoder(str(tmp_path / "resnet"), 64, stages=[1, 2])
    after = adapted(tmp_path / "resnet", images, tmp_path / "adapted", stages=(1, 2))
    changed = {
        name.split(".")[0] for name, value in state(after).items() if not torch.equal(value, state(before)[name])
    }
    assert changed == {"layer1", "layer2"}


def test_without_stages_the_whole_network_is_trained(tiny_timm, images, tmp_path):
    before = load_encoder(str(tiny_timm), 64)
    after = adapted(tiny_timm, images, tmp_path / "adapted", stages=None)
    assert not torch.equal(state(after)["conv_stem.weight"], state(before)["conv_stem.weight"])


def tells_squares(encoder: VisionEncoder, seen: list[Example], unseen: list[Example]) -> float:
    """How well the axis between the means of the two kinds of images ranks unseen ones, as average precision."""

    def pooled(examples: list[Example]) -> torch.Tensor:
        maps = encoder(torch.stack([encoder.preprocessing(read_image(e.view.path)) for e in examples]))
        return (maps.mean((2, 3)) + maps.amax((2, 3))) / 2

    known = pooled(seen)
    truth = [index % 2 == 0 for index in range(len(unseen))]
    return float(average_precision_score(truth, pooled(unseen) @ (known[::2].mean(0) - known[1::2].mean(0))))


def test_the_map_tells_findings_apart_that_it_did_not(tiny_timm, tmp_path):
    images = drawn(tmp_path / "train", 64), drawn(tmp_path / "val", 6, seed=1)
    unseen = drawn(tmp_path / "test", 40, seed=2)
    settings = dataclasses.replace(SETTINGS, epochs=8, batch_size=8)
    before, after = (
        load_encoder(str(tiny_timm), 64, stages=[3, 4]),
        adapted(tiny_timm, images, tmp_path / "a", settings),
    )
    assert tells_squares(after, images[0], unseen) > max(0.9, tells_squares(before, images[0], unseen) + 0.1)


def test_the_reading_is_the_classifier_as_it_was_validated_last(tiny_timm, images, tmp_path):
    """On validation images it ranks as the classifier did, whose precision the log has."""
    encoder = EncoderConfig(str(tiny_timm), 64, None, [3, 4])
    val = drawn(tmp_path / "more", 30, seed=1)
    ((found, reading),) = adapt_encoders(
        [encoder], dataclasses.replace(SETTINGS, groups=15), images[0], val, EMBEDDINGS, tmp_path / "a", CPU
    )
    network = load_fused([found]).encoders[0]
    maps = network(torch.stack([network.preprocessing(read_image(each.view.path)) for each in val]))
    logits = (maps.mean((2, 3)) + maps.amax((2, 3))) / 2 @ reading.weight.T + reading.bias
    assert logits.shape == (30, 13)
    truth = positive_findings(["mild cardiomegaly", "no cardiomegaly"])[[0, 1] * 15]
    (log,) = (tmp_path / "a").rglob("metrics.csv")
    logged = [row["val/average_precision"] for row in csv.DictReader(log.open()) if row["val/average_precision"]]
    assert average_precision_score(truth.ravel(), logits.ravel()) == pytest.approx(float(logged[-1]), abs=1e-4)
    assert average_precision_score(truth.ravel(), logits.ravel()) > 1.5 * truth.mean()


def test_with_groups_it_tells_phrases_apart_that_are_no_finding(tiny_timm, tmp_path):
    def said(example: Example, index: int) -> Example:
        spine = "degenerative changes of the spine" if index % 2 == 0 else "clear lungs"
        # of the finding the images show nothing
        heart = "mild cardiomegaly" if index % 4 < 2 else "no cardiomegaly"
        return dataclasses.replace(example, phrases=(heart, spine))

    lots = [drawn(tmp_path / name, number, seed) for name, number, seed in (("a", 64, 0), ("b", 6, 1), ("c", 40, 2))]
    seen, val, unseen = ([said(example, index) for index, example in enumerate(lot)] for lot in lots)
    settings = dataclasses.replace(SETTINGS, epochs=8, batch_size=8)
    alone = adapted(tiny_timm, (seen, val), tmp_path / "adapted", settings)
    told = adapted(tiny_timm, (seen, val), tmp_path / "adapted", dataclasses.replace(settings, groups=15))
    assert tells_squares(told, seen, unseen) > max(0.88, tells_squares(alone, seen, unseen) + 0.05)


def test_the_same_images_and_settings_are_adapted_to_once(tiny_timm, images, tmp_path, monkeypatch):
    first = adapted(tiny_timm, images, tmp_path / "adapted")
    with monkeypatch.context() as patch:
        patch.setattr("lightning.Trainer.fit", lambda *_, **__: pytest.fail("trained again"))
        assert adapted(tiny_timm, images, tmp_path / "adapted").fingerprint == first.fingerprint
    again = adapted(tiny_timm, images, tmp_path / "elsewhere", num_workers=2)
    assert again.fingerprint == first.fingerprint  # the seed decides all
    other = [*images[0][1:], dataclasses.replace(images[0][0], phrases=("clear lungs",))]
    for changed in (
        adapted(tiny_timm, images, tmp_path / "adapted", dataclasses.replace(SETTINGS, seed=1)),
        adapted(tiny_timm, (other, images[1]), tmp_path / "adapted"),
        adapted(tiny_timm, images, tmp_path / "adapted", stages=(2, 4)),
    ):
        assert changed.fingerprint != first.fingerprint
    assert len(list((tmp_path / "adapted").iterdir())) == 4


def test_a_run_that_broke_off_leaves_nothing_and_damage_is_refused(tiny_timm, images, tmp_path, monkeypatch):
    folder = tmp_path / "adapted"
    with monkeypatch.context() as patch:
        patch.setattr(adaptation, "save_timm", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            adapted(tiny_timm, images, folder)
    assert list(folder.iterdir()) == []
    adapted(tiny_timm, images, folder)
    (place,) = folder.iterdir()
    (place / "model.safetensors").write_bytes(b"half")
    with pytest.raises(RarrgError, match=r"model\.safetensors: changed since it was written"):
        adapted(tiny_timm, images, folder)


def test_a_full_disk_is_one_line_and_leaves_nothing(tiny_timm, images, tmp_path):
    size = (tiny_timm / "model.safetensors").stat().st_size
    with (
        file_size_limit(size // 2),
        pytest.raises(RarrgError, match=r"cannot be written \(File too large\); make room"),
    ):
        adapted(tiny_timm, images, tmp_path / "adapted")
    assert list((tmp_path / "adapted").iterdir()) == []


def test_of_two_that_adapt_at_once_the_first_to_end_counts(tiny_timm, images, tmp_path, monkeypatch):
    folder, train_one = tmp_path / "adapted", adaptation.train_classifier

    def overtaken(backbone, stages, config, sets, made, *rest) -> LinearReading:
        reading = train_one(backbone, stages, config, sets, made, *rest)
        other = folder / made.name
        other.mkdir()
        files = [*save_timm(backbone.network, other), reading.save(other)]
        Manifest.of(other, adaptation.NAME, adaptation.VERSION, files, {}).save(other)
        (other / "by the other").touch()
        return reading

    monkeypatch.setattr(adaptation, "train_classifier", overtaken)
    adapted(tiny_timm, images, folder)
    (place,) = folder.iterdir()
    assert (place / "by the other").is_file()


def test_an_image_that_was_exported_anew_is_another(tiny_timm, images, tmp_path):
    path = images[0][0].view.path
    pixels = np.asarray(Image.open(path))
    Image.fromarray(pixels).save(path, compress_level=0)
    first, size = adapted(tiny_timm, images, tmp_path / "adapted"), path.stat().st_size
    Image.fromarray(255 - pixels).save(path, compress_level=0)
    assert path.stat().st_size == size
    second = adapted(tiny_timm, images, tmp_path / "adapted")
    Image.fromarray(pixels).resize((80, 80)).save(path)
    third = adapted(tiny_timm, images, tmp_path / "adapted")
    assert len({first.fingerprint, second.fingerprint, third.fingerprint}) == 3


def test_what_cannot_be_adapted_is_said(tiny_vision, tiny_timm, images, tmp_path):
    mixed = load_fused([EncoderConfig(str(tiny_timm), 64), EncoderConfig(str(tiny_vision))])
    with pytest.raises(RarrgError, match=r"vision\.adapt: .*vision.* is no timm or packaged network"):
        check_adaptable(mixed, False)
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


def test_encoders_are_kept_beside_the_adapted_ones(adapting: TrainConfig, tiny_timm: Path):
    vision = dataclasses.replace(adapting.vision, adapt=dataclasses.replace(adapting.vision.adapt, keep=True))
    retriever = dataclasses.replace(adapting.retriever, members=2, anchors=True, reads=[[0], [1]])
    folder = train(dataclasses.replace(adapting, vision=vision, retriever=retriever))
    first, second = ReportGenerator.from_pretrained(folder, device="cpu").encoder.encoders
    assert first.fingerprint == load_encoder(str(tiny_timm), 64, stages=[3, 4]).fingerprint != second.fingerprint
    assert (first.spec, Path(second.spec).parent) == (str(tiny_timm), folder / "encoders")


def test_the_classifiers_of_adapted_encoders_join_in_selecting_findings(adapting: TrainConfig):
    vision = dataclasses.replace(adapting.vision, adapt=dataclasses.replace(adapting.vision.adapt, keep=True))
    retriever = dataclasses.replace(adapting.retriever, anchors=True, classifier=True)
    folder = train(dataclasses.replace(adapting, vision=vision, retriever=retriever))
    generator = ReportGenerator.from_pretrained(folder, device="cpu")
    kept = generator.retriever.classifier
    stands = kept.share > 0
    assert 0 < stands.sum() < len(stands)
    assert set(kept.share.tolist()) == {0.0, 0.5}
    half = kept.weight.shape[1] // 2
    assert not kept.weight[:, :half].any()  # the unadapted encoder's channels
    assert kept.weight[stands, half:].any(dim=1).all()
    (place,) = (Path(adapting.data.cache) / "adapted").iterdir()
    reading = LinearReading.load(place)
    affirmed = positive_findings([phrase.text for phrase in generator.store.phrases])
    for finding in np.flatnonzero(affirmed.any(axis=0)):
        query = int((kept.bias == reading.bias[finding]).nonzero()[0, 0])
        torch.testing.assert_close(kept.weight[query, half:], reading.weight[finding])
        assert stands[query]


def test_a_classifier_needs_adapted_encoders(adapting: TrainConfig):
    retriever = dataclasses.replace(adapting.retriever, anchors=True, classifier=True)
    with pytest.raises(RarrgError, match=r"retriever\.classifier: no encoder is adapted; set vision\.adapt\.epochs"):
        dataclasses.replace(adapting, vision=VisionConfig(adapting.vision.encoders), retriever=retriever)


@pytest.mark.parametrize("pool", [None, 1])
def test_a_classifier_reads_maps_as_they_are_alone(pool: int | None, adapting: TrainConfig, tiny_timm: Path):
    encoders = [EncoderConfig(str(tiny_timm), 64, None, [3, 4]), EncoderConfig(str(tiny_timm), 128, None, [3, 4])]
    encoders = encoders if pool is None else encoders[1:]
    retriever = dataclasses.replace(adapting.retriever, anchors=True, classifier=True, pool=pool)
    config = dataclasses.replace(
        adapting, vision=dataclasses.replace(adapting.vision, encoders=encoders), retriever=retriever
    )
    with pytest.raises(RarrgError, match=r"retriever\.classifier: reads the map of .* as it is, \d x \d, but it is"):
        train(config)


def test_a_run_goes_on_with_the_encoders_it_was_begun_with_alone(adapting: TrainConfig, tmp_path: Path, monkeypatch):
    train(adapting)
    more = dataclasses.replace(adapting, trainer=dataclasses.replace(adapting.trainer, epochs=2))
    train(more, "last")
    monkeypatch.setattr(finding_classifier, "_AUGMENT", lambda pixels: pixels.flip(-2))
    elsewhere = dataclasses.replace(more, data=dataclasses.replace(more.data, cache=str(tmp_path / "elsewhere")))
    with pytest.raises(RarrgError, match=r"last\.ckpt: its run read other image encoders"):
        train(elsewhere, "last")


def test_a_run_does_not_remove_the_encoder_it_reads(adapting: TrainConfig):
    folder = train(adapting)
    (spec,) = (folder / "encoders").iterdir()
    own = dataclasses.replace(adapting, vision=VisionConfig([EncoderConfig(str(spec), 64, None, [3, 4])]))
    with pytest.raises(RarrgError, match=r"out: .* holds an encoder of vision\.encoders"):
        train(own)
    assert (spec / "model.safetensors").is_file()


@pytest.mark.parametrize(("word", "said"), [
    ("--vision.adapt.epochs=-1", "vision.adapt.epochs: must be at least 0, got -1"),
    ("--vision.adapt.epoch=8", "vision.adapt.epoch"),
    ("--vision.adapt.dropout=x", "vision.adapt.dropout"),
    ("--retriever.classifier=true", "retriever.classifier: must be false without retriever.anchors, got True"),
    ("--vision.adapt.groups=14", "vision.adapt.groups: must be 0 or at least 15, got 14"),
])  # fmt: skip
def test_a_mistake_is_one_line(word: str, said: str, capsys: pytest.CaptureFixture[str]):
    assert main(["train", "--config=demo.yaml", word]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert said in line


def test_training_anew_without_adaptation_leaves_no_encoders(adapting: TrainConfig):
    folder = train(adapting)
    assert (folder / "encoders").is_dir()
    train(dataclasses.replace(adapting, vision=dataclasses.replace(adapting.vision, adapt=AdaptConfig())))
    assert not (folder / "encoders").exists()
    ReportGenerator.from_pretrained(folder, device="cpu")
