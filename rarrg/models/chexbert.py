"""CheXbert (Smit et al., 2020): a BERT whose class token says of 14 observations what a report says of them.

Source: github.com/stanfordmlgroup/CheXbert, ``src/label.py`` and ``src/bert_tokenizer.py``.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from huggingface_hub import hf_hub_download
from torch import Tensor, nn
from tqdm import tqdm
from transformers import BertConfig, BertModel, BertTokenizerFast

from rarrg.artifacts import weights_digest
from rarrg.errors import RarrgError
from rarrg.hub import LOAD_ERRORS, first_line, unavailable

REPOSITORY, FILE = "StanfordAIMI/RRG_scorers", "chexbert.pth"
"""Where the weights are on the Hugging Face hub."""

TOKENIZER = "bert-base-uncased"
"""The tokenizer that CheXbert was trained with."""

# Classes of each head: blank, positive, negative, uncertain; No Finding, the last, has the first two.
_HEADS = (*[4] * 13, 2)
_LONGEST = 512
_BATCH = 32
_HEAD_WIDTH = 64  # of attention, in every BERT of Devlin et al.; weights do not show it
# What some checkpoints hold and labels do not need.
_UNUSED = ("bert.embeddings.position_ids", "bert.pooler.")


class CheXbert:
    """CheXbert, ready to label.

    Args:
        network: The network with its weights.
        tokenizer: The tokenizer it was trained with.
        version: ``chexbert`` with a digest of the weights.
        device: Where it runs.
    """

    def __init__(self, network: _Network, tokenizer: Any, version: str, device: torch.device) -> None:
        self.version = version
        self._network = network.requires_grad_(False).eval().to(device)
        self._tokenizer = tokenizer
        self._device = device

    def label(self, texts: Sequence[str]) -> np.ndarray:
        """Label reports; equal ones once, those of like length together.

        Args:
            texts: Reports, any case. What goes beyond 512 word pieces is not read.

        Returns:
            int64 ``[texts, 14]``: 0 blank, 1 positive, 2 negative, 3 uncertain, in the order of
            ``rarrg.metrics.findings.OBSERVATIONS``; No Finding is 0 or 1.
        """
        plain = [" ".join(text.split()) for text in texts]
        pending = sorted(set(plain), key=lambda text: (len(text), text))
        known: dict[str, np.ndarray] = {}
        with tqdm(total=len(pending), desc="labelling reports", unit="report", delay=2) as bar:
            for start in range(0, len(pending), _BATCH):
                batch = pending[start : start + _BATCH]
                known.update(zip(batch, self._classes(batch), strict=True))
                bar.update(len(batch))
        return np.array([known[text] for text in plain], dtype=np.int64).reshape(len(plain), len(_HEADS))

    @torch.inference_mode()
    def _classes(self, batch: list[str]) -> np.ndarray:
        tokens = self._tokenizer(
            batch, padding=True, truncation=True, max_length=self._network.longest, return_tensors="pt"
        ).to(self._device)
        scores = self._network(tokens["input_ids"], tokens["attention_mask"])
        return torch.stack([head.argmax(dim=1) for head in scores], dim=1).cpu().numpy()


class _Network(nn.Module):
    """The layout of CheXbert's state dict; dropout has no part in labelling."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.longest = min(_LONGEST, config.max_position_embeddings)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.linear_heads = nn.ModuleList(nn.Linear(config.hidden_size, classes) for classes in _HEADS)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> list[Tensor]:
        """Scores of each head ``[batch, classes]`` for word pieces and their mask ``[batch, length]``."""
        first = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state[:, 0]
        return [head(first) for head in self.linear_heads]


def load_chexbert(
    weights: str | Path | None = None, tokenizer: str | Path = TOKENIZER, device: str | torch.device = "cpu"
) -> CheXbert:
    """Load CheXbert.

    Args:
        weights: ``chexbert.pth``, or the folder that holds it; None takes it from the Hugging Face hub.
        tokenizer: Hub id of bert-base-uncased, or a folder that holds its ``vocab.txt``.
        device: Where it runs.

    Raises:
        RarrgError: Weights or tokenizer cannot be had, or are others.
    """
    path = _weights(weights)
    network = _network(path)
    return CheXbert(network, _tokenizer(tokenizer, network), f"chexbert {weights_digest(path)}", torch.device(device))


def _weights(weights: str | Path | None) -> Path:
    if weights is None:
        try:
            return Path(hf_hub_download(REPOSITORY, FILE))
        except LOAD_ERRORS as error:
            raise unavailable(f"{REPOSITORY}/{FILE}", error, f"the path of {FILE}, fetched elsewhere") from error
    named = Path(weights).expanduser()
    path = named / FILE if named.is_dir() else named
    if not path.is_file():
        raise RarrgError(f"{path}: is not there; fetch {FILE} from huggingface.co/{REPOSITORY} and name its path")
    return path


def _network(path: Path) -> _Network:
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)["model_state_dict"]
        # The name under which DataParallel, in which it was trained, holds a network.
        state = {name.removeprefix("module."): tensor for name, tensor in saved.items()}
        network = _Network(_config(state))
        network.load_state_dict({name: state[name] for name in state if not name.startswith(_UNUSED)})
    except (OSError, EOFError, RuntimeError, pickle.UnpicklingError, LookupError, TypeError, AttributeError) as error:
        # Torch's own words tell how to load a pickle that runs code.
        reason = "more than tensors" if isinstance(error, pickle.UnpicklingError) else first_line(error)
        raise RarrgError(
            f"{path}: holds no CheXbert weights ({reason}); fetch {FILE} anew from huggingface.co/{REPOSITORY}"
        ) from error
    return network


def _config(state: Mapping[str, Tensor]) -> BertConfig:
    """The network's sizes, read off its weights."""
    words, width = state["bert.embeddings.word_embeddings.weight"].shape
    layers = {found[1] for name in state if (found := re.match(r"bert\.encoder\.layer\.(\d+)\.", name))}
    return BertConfig(
        vocab_size=words,
        hidden_size=width,
        num_hidden_layers=len(layers),
        num_attention_heads=width // _HEAD_WIDTH,
        intermediate_size=state["bert.encoder.layer.0.intermediate.dense.weight"].shape[0],
        max_position_embeddings=state["bert.embeddings.position_embeddings.weight"].shape[0],
    )


def _tokenizer(name: str | Path, network: _Network) -> Any:
    folder = Path(name).expanduser()
    local = folder.is_dir()
    if local and not any((folder / file).is_file() for file in ("vocab.txt", "tokenizer.json")):
        raise RarrgError(f"{name}: the folder holds no tokenizer; put vocab.txt of {TOKENIZER} there")
    try:
        tokenizer = BertTokenizerFast.from_pretrained(str(folder) if local else str(name))
    except LOAD_ERRORS as error:
        if local:
            raise RarrgError(f"{name}: the folder holds no usable tokenizer ({first_line(error)})") from error
        raise unavailable(str(name), error, f"a folder that holds vocab.txt of {TOKENIZER}") from error
    wanted = network.bert.config.vocab_size
    if len(tokenizer) != wanted:
        raise RarrgError(f"{name}: has {len(tokenizer)} word pieces, CheXbert {wanted}; take that of {TOKENIZER}")
    return tokenizer
