"""CheXbert's loader and labels, on a tiny random network of the same layout."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import BertConfig, BertModel

from rarrg.errors import RarrgError
from rarrg.models import chexbert
from rarrg.models.chexbert import load_chexbert

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789-'/.,"
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
TEXTS = [
    "No pleural effusion.",
    "The heart is enlarged, with a small left effusion and mild oedema at both bases.",
    "x",
    "",
    "no  PLEURAL\neffusion.",
    *(f"opacity {number} in zone {chr(97 + number)}" for number in range(12)),
]


def network() -> dict[str, Tensor]:
    """State of a tiny CheXbert, named as the original names it but for "module."."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(PIECES), hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        initializer_range=0.3,
    )  # fmt: skip
    state = {f"bert.{name}": tensor for name, tensor in BertModel(config).state_dict().items()}
    for head, classes in enumerate([4] * 13 + [2]):
        state[f"linear_heads.{head}.weight"] = torch.randn(classes, 128)
        state[f"linear_heads.{head}.bias"] = torch.randn(classes)
    return state


STATE = network()


def save(path: Path, state: dict[str, Tensor], prefix: str = "module.") -> Path:
    torch.save({"epoch": 3, "model_state_dict": {prefix + name: tensor for name, tensor in state.items()}}, path)
    return path


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> Path:
    return save(tmp_path_factory.mktemp("weights") / "chexbert.pth", STATE)


def pieces(text: str) -> list[int]:
    """Word pieces of the tiny vocabulary, which has every letter: the first of a word, then its rest."""
    said = []
    for word in text.lower().split():
        for mark in (".", ","):
            word = word.replace(mark, f" {mark} ")
        for part in word.split():
            said += [PIECES.index(part[0]), *(PIECES.index(f"##{letter}") for letter in part[1:])]
    return [PIECES.index("[CLS]"), *said[:510], PIECES.index("[SEP]")]


def labels_one_by_one(texts: list[str]) -> np.ndarray:
    """CheXbert's own way: a report alone, without padding."""
    config = BertConfig(
        vocab_size=len(PIECES), hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    bert = BertModel(config).eval()
    bert.load_state_dict({name[5:]: tensor for name, tensor in STATE.items() if name.startswith("bert.")})
    rows = []
    for text in texts:
        with torch.no_grad():
            first = bert(torch.tensor([pieces(text)]))[0][0, 0]
        heads = [(STATE[f"linear_heads.{n}.weight"], STATE[f"linear_heads.{n}.bias"]) for n in range(14)]
        rows.append([int((weight @ first + bias).argmax()) for weight, bias in heads])
    return np.array(rows)


def test_labels_are_those_of_reports_one_by_one(weights: Path, tokenizer: Path, monkeypatch):
    monkeypatch.setattr(chexbert, "_BATCH", 5)  # several batches, padded
    found = load_chexbert(weights, tokenizer).label(TEXTS)
    assert found.shape == (len(TEXTS), 14)
    assert found.dtype == np.int64
    assert (found == labels_one_by_one(TEXTS)).all()
    assert len(np.unique(found, axis=0)) > 3  # the network tells texts apart
    assert found[:, -1].max() <= 1


def test_case_and_spacing_do_not_matter_and_no_texts_have_no_labels(weights: Path, tokenizer: Path):
    model = load_chexbert(weights, tokenizer)
    first, *_, last = model.label(TEXTS[:5])
    assert (first == last).all()
    assert model.label([]).shape == (0, 14)


def test_what_goes_beyond_512_word_pieces_is_not_read(weights: Path, tokenizer: Path):
    model = load_chexbert(weights, tokenizer)
    long = " ".join(["heart is large"] * 200)  # 12 word pieces each
    (cut,) = model.label([long])
    assert (cut == labels_one_by_one([long])[0]).all()
    assert (model.label([f"{long} and a small effusion"])[0] == cut).all()


@pytest.mark.parametrize("prefix", ["module.", ""])
def test_names_of_the_weights_and_a_folder_around_them(prefix: str, weights: Path, tokenizer: Path, tmp_path: Path):
    path = save(tmp_path / "chexbert.pth", STATE, prefix)
    model = load_chexbert(tmp_path, tokenizer)
    assert (model.label(TEXTS) == load_chexbert(weights, tokenizer).label(TEXTS)).all()
    other = load_chexbert(save(path, {**STATE, "linear_heads.0.bias": torch.zeros(4)}), tokenizer)
    assert model.version.startswith("chexbert ")
    assert model.version != other.version


def test_positions_and_pooler_may_be_there_or_not(weights: Path, tokenizer: Path, tmp_path: Path):
    expected = load_chexbert(weights, tokenizer).label(TEXTS)
    state = {name: tensor for name, tensor in STATE.items() if "pooler" not in name}
    without = save(tmp_path / "without.pth", state)
    with_positions = save(
        tmp_path / "with.pth", {**STATE, "bert.embeddings.position_ids": torch.arange(512).expand(1, -1)}
    )
    assert len(state) < len(STATE)
    for path in (without, with_positions):
        assert (load_chexbert(path, tokenizer).label(TEXTS) == expected).all()


class Sly:
    def __reduce__(self):
        return (print, ("ran",))


@pytest.mark.parametrize("broken", ["no weights", "cut off", "other network", "a weight too few", "code"])
def test_a_file_that_holds_no_chexbert_is_refused(broken: str, weights: Path, tokenizer: Path, tmp_path: Path, capsys):
    path = tmp_path / "chexbert.pth"
    if broken == "no weights":
        path.write_text("<html>log in</html>")
    elif broken == "cut off":
        path.write_bytes(weights.read_bytes()[:5000])
    elif broken == "other network":
        torch.save({"weight": torch.zeros(2)}, path)
    elif broken == "a weight too few":
        save(path, {name: tensor for name, tensor in STATE.items() if name != "linear_heads.13.bias"})
    else:
        torch.save({"model_state_dict": STATE, "sly": Sly()}, path)
    with pytest.raises(RarrgError, match=r"chexbert\.pth: holds no CheXbert weights .*fetch .* anew") as caught:
        load_chexbert(path, tokenizer)
    assert "\n" not in str(caught.value)
    assert "ran" not in capsys.readouterr().out


def test_weights_that_are_not_there(tokenizer: Path, tmp_path: Path, monkeypatch):
    with pytest.raises(RarrgError, match=r"chexbert\.pth: is not there; fetch .*StanfordAIMI/RRG_scorers"):
        load_chexbert(tmp_path, tokenizer)

    def offline(repository: str, file: str) -> str:
        raise OSError(f"offline: {repository} {file}")

    monkeypatch.setattr(chexbert, "hf_hub_download", offline)
    with pytest.raises(RarrgError, match=r"offline: StanfordAIMI/RRG_scorers chexbert\.pth.*give the path of chexbert"):
        load_chexbert(tokenizer=tokenizer)


def test_weights_of_the_hub(weights: Path, tokenizer: Path, monkeypatch):
    monkeypatch.setattr(chexbert, "hf_hub_download", lambda repository, file: str(weights))
    assert load_chexbert(tokenizer=tokenizer).label(TEXTS[:2]).shape == (2, 14)


def test_tokenizers_that_do_not_fit(weights: Path, tokenizer: Path, tmp_path: Path, monkeypatch):
    with pytest.raises(RarrgError, match=r"holds no tokenizer; put vocab\.txt of bert-base-uncased there"):
        load_chexbert(weights, tmp_path)
    shutil.copytree(tokenizer, tmp_path / "other")
    (tmp_path / "other" / "vocab.txt").write_text("\n".join(PIECES[:-3]), encoding="utf-8")
    with pytest.raises(RarrgError, match=r"has 84 word pieces, CheXbert 87; take that of bert-base-uncased"):
        load_chexbert(weights, tmp_path / "other")

    def offline(name: str) -> None:
        raise OSError(f"no {name}")

    monkeypatch.setattr(chexbert.BertTokenizerFast, "from_pretrained", offline)
    with pytest.raises(RarrgError, match=r"bert-base-uncased: cannot be had .*a folder that holds vocab\.txt"):
        load_chexbert(weights)
