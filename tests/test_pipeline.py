from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import Dinov2Config, Dinov2Model

import rarrg
from rarrg.config import EncoderConfig, RetrieverConfig
from rarrg.errors import ImageError, RarrgError
from rarrg.models.retriever import ModelInfo, PhraseRetriever
from rarrg.models.vision import load_fused
from rarrg.pipeline import ReportGenerator
from rarrg.report.as_json import report_to_json
from rarrg.store.phrase_store import PhraseStore, StoredPhrase

PHRASES = ("no pleural effusion", "mild cardiomegaly", "clear lungs", "left basal opacity", "old rib fracture")
TEXT = {"encoder": "nowhere/no-such-text-encoder", "revision": None, "dim": 12, "fingerprint": "0123456789abcdef"}


def unit_rows(count: int, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, TEXT["dim"])).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def save_store(folder: Path, texts: tuple[str, ...], text: dict | None = None, seed: int = 3) -> PhraseStore:
    phrases = [StoredPhrase(phrase, count=2, studies=("s1",)) for phrase in texts]
    store = PhraseStore.build(phrases, unit_rows(len(texts), seed), text or TEXT)
    store.save(folder)
    return store


def save_tiny_encoder(folder: Path, seed: int) -> None:
    torch.manual_seed(seed)
    config = Dinov2Config(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=28, patch_size=7, mlp_ratio=2
    )
    Dinov2Model(config).save_pretrained(folder)


def build_model(root: Path, encoder_folder: Path | None = None) -> Path:
    """A model folder of the real parts, tiny and untrained: 9 queries, a 4x4 grid, five phrases."""
    if encoder_folder is None:
        encoder_folder = root / "encoder"
        save_tiny_encoder(encoder_folder, seed=0)
    encoder = load_fused([EncoderConfig(str(encoder_folder))])
    torch.manual_seed(1)
    config = RetrieverConfig(queries=9, layers=2, dim=16, heads=2, feedforward=32)
    retriever = PhraseRetriever(encoder.channels_of, TEXT["dim"], config)
    info = ModelInfo(
        retriever=dataclasses.asdict(config),
        channels=encoder.channels_of,
        text_dim=TEXT["dim"],
        vision=encoder.references(),
        text=TEXT,
        threshold=0.4,
        training={},
    )
    model = root / "model"
    retriever.save_pretrained(model, info)
    save_store(model / "store", PHRASES)
    return model


def draw_image(path: Path, seed: int, shape: tuple[int, int] = (50, 40)) -> Path:
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)).save(path)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return build_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def generate(model: Path) -> ReportGenerator:
    return ReportGenerator.from_pretrained(model, device="cpu")


@pytest.fixture
def frontal(tmp_path: Path) -> Path:
    return draw_image(tmp_path / "frontal.png", 1)


@pytest.fixture
def lateral(tmp_path: Path) -> Path:
    return draw_image(tmp_path / "lateral.png", 2, (34, 70))


def with_threshold(generate: ReportGenerator, threshold: float, together: bool = False) -> ReportGenerator:
    return ReportGenerator(
        generate.encoder,
        generate.retriever,
        generate.store,
        threshold,
        together,
        generate.device,
        generate.model_reference,
        generate.store_reference,
    )


def by_hand(generate: ReportGenerator, image: np.ndarray) -> list[tuple[float, float, int, str]]:
    """Every query's probability, similarity, index and nearest phrase, most probable first."""
    with torch.inference_mode():
        features = generate.encoder([pixels[None] for pixels in generate.encoder.preprocess(image)])
        output = generate.retriever(features)
    embeddings = unit_rows(len(PHRASES), 3)
    rows = []
    for query in range(output.logits.shape[1]):
        cosines = embeddings @ output.embeddings[0, query].numpy()
        probability = 1 / (1 + np.exp(-float(output.logits[0, query])))
        rows.append((probability, float(cosines.max()), query, PHRASES[int(cosines.argmax())]))
    return sorted(rows, reverse=True)


def test_views_together_select_by_their_mean_probability_and_each_says_its_own_phrase(generate: ReportGenerator):
    images = [np.random.default_rng(seed).integers(0, 256, (64, 48), dtype=np.uint8) for seed in (5, 6, 7)]
    rows = [
        {query: (probability, text) for probability, _, query, text in by_hand(generate, image)} for image in images
    ]
    means = {query: (rows[0][query][0] + rows[1][query][0]) / 2 for query in rows[0]}
    threshold = sorted(means.values())[-3] - 1e-4  # three queries pass
    together = with_threshold(generate, threshold, together=True)
    first, second, alone = together.retrieve_batch(images, studies=[4, 4, 9])
    for found, own in ((first, rows[0]), (second, rows[1])):
        expected = {own[query][1]: mean for query, mean in means.items() if mean > threshold}
        best = {text: max(means[q] for q in means if means[q] > threshold and own[q][1] == text) for text in expected}
        assert {phrase.text: phrase.probability for phrase in found.phrases} == pytest.approx(best, abs=1e-5)
    apart = with_threshold(generate, threshold)
    for found, image in ((alone, images[2]), (apart.retrieve_batch(images, studies=[4, 4, 9])[0], images[0])):
        expected = apart.retrieve(image).phrases
        assert [phrase.text for phrase in found.phrases] == [phrase.text for phrase in expected]
        assert [phrase.probability for phrase in found.phrases] == pytest.approx([p.probability for p in expected])


def test_selection_search_merging_and_order_equal_a_loop_by_hand(generate: ReportGenerator):
    image = np.random.default_rng(5).integers(0, 256, (64, 48), dtype=np.uint8)
    rows = by_hand(generate, image)
    threshold = (rows[5][0] + rows[6][0]) / 2  # six of nine queries pass, and five phrases cannot all differ
    expected: dict[str, tuple[float, float, int]] = {}
    for probability, similarity, query, text in rows[:6]:
        expected.setdefault(text, (probability, similarity, query))
    assert len(expected) < 6

    found = with_threshold(generate, threshold).retrieve(image)
    assert not found.below_threshold
    assert found.attention is None
    assert [phrase.text for phrase in found.phrases] == list(expected)
    for phrase in found.phrases:
        probability, similarity, query = expected[phrase.text]
        assert phrase.query == query
        assert phrase.probability == pytest.approx(probability, abs=1e-5)
        assert phrase.similarity == pytest.approx(similarity, abs=1e-5)


def test_without_a_query_above_the_threshold_the_most_probable_one_is_taken_and_flagged(generate, frontal, lateral):
    image = np.random.default_rng(5).integers(0, 256, (64, 48), dtype=np.uint8)
    probability, _, query, text = by_hand(generate, image)[0]
    strict = with_threshold(generate, (1 + probability) / 2)
    found = strict.retrieve(image)
    assert found.below_threshold
    assert [(phrase.text, phrase.query) for phrase in found.phrases] == [(text, query)]
    assert with_threshold(generate, 0.9999)(frontal, lateral).below_threshold == ("frontal", "lateral")


def test_attention_is_the_map_of_each_phrases_query(generate: ReportGenerator):
    image = np.random.default_rng(5).integers(0, 256, (64, 48), dtype=np.uint8)
    found = with_threshold(generate, 0.01).retrieve(image, need_attention=True)
    with torch.inference_mode():
        features = generate.encoder([pixels[None] for pixels in generate.encoder.preprocess(image)])
        maps = generate.retriever(features, need_attention=True).attention[0].numpy()
    assert found.attention.shape == (len(found.phrases), 4, 4)
    np.testing.assert_allclose(found.attention.sum(axis=(1, 2)), 1, atol=1e-5)
    for phrase, attention in zip(found.phrases, found.attention, strict=True):
        np.testing.assert_allclose(attention, maps[phrase.query], atol=1e-5)


def test_a_batch_gives_what_single_images_give(generate: ReportGenerator):
    loose = with_threshold(generate, 0.1)
    images = [np.random.default_rng(seed).integers(0, 256, (20 + seed, 60), dtype=np.uint8) for seed in range(4)]
    together = loose.retrieve_batch(images, need_attention=True)
    assert max(len(found.phrases) for found in together) > 1
    for image, found in zip(images, together, strict=True):
        alone = loose.retrieve(image, need_attention=True)
        assert [(phrase.text, phrase.query) for phrase in found.phrases] == [
            (phrase.text, phrase.query) for phrase in alone.phrases
        ]
        np.testing.assert_allclose(found.attention, alone.attention, atol=1e-5)


def test_report_of_both_views(generate: ReportGenerator, frontal: Path, lateral: Path):
    report, images, attention = generate.explain(frontal, lateral)
    assert generate(frontal=frontal, lateral=lateral).text == report.text
    assert list(report.phrases) == ["frontal", "lateral"]
    assert [image.shape for image in images["lateral"]] == [(34, 70)]
    for position in ("frontal", "lateral"):
        alone = generate.retrieve(images[position][0])
        assert [phrase.text for phrase in report.phrases[position]] == [phrase.text for phrase in alone.phrases]
        assert attention[position].shape == (len(alone.phrases), 4, 4)
    first = report.phrases["frontal"][0].text
    assert report.text.startswith(first[0].upper() + first[1:] + ".")


def test_either_view_may_be_missing(generate: ReportGenerator, frontal: Path, lateral: Path):
    assert list(generate(frontal=frontal).phrases) == ["frontal"]
    report = generate(lateral=str(lateral))
    assert list(report.phrases) == ["lateral"]
    assert report.images == {"lateral": (str(lateral),)}
    assert report.text


def test_no_view_and_unreadable_view(generate: ReportGenerator, frontal: Path, tmp_path: Path):
    with pytest.raises(RarrgError, match="frontal view, a lateral view or both"):
        generate()
    (tmp_path / "text.jpg").write_text("no image")
    with pytest.raises(ImageError, match=r"text\.jpg"):
        generate(frontal, tmp_path / "text.jpg")


def test_json_has_exactly_the_promised_keys(generate: ReportGenerator, model: Path, frontal: Path, lateral: Path):
    value = report_to_json(generate(frontal, lateral))
    assert json.loads(json.dumps(value)) == value
    assert set(value) == {
        "text", "phrases", "dropped", "grounding", "writer", "resolve", "images", "below_threshold", "version", "model",
        "store", "thresholds",
    }  # fmt: skip
    assert set(value["phrases"]) == {"frontal", "lateral"}
    for phrases in value["phrases"].values():
        assert phrases
        for phrase in phrases:
            assert set(phrase) == {"id", "text", "probability", "similarity", "query", "image"}
    assert value["thresholds"] == {"selection": 0.4}
    assert value["version"] == rarrg.__version__
    assert value["model"]["name"] == "model"
    assert len(value["model"]["sha256"]) == 64
    assert value["store"]["sha256"] == PhraseStore.load(model / "store").checksum


def test_public_name_is_the_pipeline():
    assert rarrg.ReportGenerator is ReportGenerator


def test_threshold_of_the_model_and_of_the_caller(model: Path, generate: ReportGenerator):
    assert generate.threshold == 0.4
    assert ReportGenerator.from_pretrained(model, threshold=0.7, device="cpu").threshold == 0.7
    with pytest.raises(RarrgError, match="threshold"):
        ReportGenerator.from_pretrained(model, threshold=1.0, device="cpu")


def test_another_store_of_the_same_text_encoder(model: Path, frontal: Path, tmp_path: Path):
    save_store(tmp_path / "other", ("hyperinflated lungs",))
    report = ReportGenerator.from_pretrained(model, store=tmp_path / "other", device="cpu")(frontal)
    assert report.text == "Hyperinflated lungs."
    assert report.store["name"] == "other"


def test_a_store_of_another_text_encoder_is_refused(model: Path, tmp_path: Path):
    save_store(tmp_path / "other", PHRASES, {**TEXT, "encoder": "other-encoder", "fingerprint": "f" * 16})
    with pytest.raises(RarrgError, match=r"other-encoder.*no-such-text-encoder"):
        ReportGenerator.from_pretrained(model, store=tmp_path / "other", device="cpu")


def test_a_changed_vision_encoder_is_refused(tmp_path: Path):
    model = build_model(tmp_path)
    save_tiny_encoder(tmp_path / "encoder", seed=9)
    with pytest.raises(RarrgError, match="trained with encoder"):
        ReportGenerator.from_pretrained(model, device="cpu")


def test_missing_folders_say_what_to_do(model: Path, tmp_path: Path):
    with pytest.raises(RarrgError, match=r"nowhere.*train\.py"):
        ReportGenerator.from_pretrained(tmp_path / "nowhere", device="cpu")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RarrgError, match="empty"):
        ReportGenerator.from_pretrained(tmp_path / "empty", device="cpu")
    shutil.copytree(model, tmp_path / "storeless", ignore=shutil.ignore_patterns("store"))
    with pytest.raises(RarrgError, match=r"storeless.store: no phrase store here"):
        ReportGenerator.from_pretrained(tmp_path / "storeless", device="cpu")


@pytest.mark.parametrize("name", ["teapot", "mps", "meta", "", "cpu:0", "cuda:", "cuda:-1", "cuda:01", "CPU"])
def test_only_the_documented_devices_are_taken(model: Path, name: str):
    with pytest.raises(RarrgError, match=f"^device {name}: is none of auto, cpu, cuda, cuda:INDEX$"):
        ReportGenerator.from_pretrained(model, device=name)


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "cuda:7"])
def test_a_gpu_where_there_is_none(model: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RarrgError, match="no GPU"):
        ReportGenerator.from_pretrained(model, device=name)
