"""The frozen sentence encoder of key phrases, its cache on disk, and the noise of training (RA-RRG 3.2.1)."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from sentence_transformers import SentenceTransformer
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

from rarrg.artifacts import atomic_write
from rarrg.errors import RarrgError
from rarrg.hub import LOAD_ERRORS, first_line, unavailable
from rarrg.models.packaged import sentence_model_folder
from rarrg.models.reference import fingerprint_of, settings_of

# Its token ids show what a tokenizer does to capitals and accents, whatever the release of transformers calls it.
_PROBE = "No EFFUSION, no effusion, nó effusion"

# Phrases a shard of the cache: what an interrupted run loses at most.
_SHARD = 512


class TextEncoder:
    """A frozen sentence-transformers model whose embeddings have unit length.

    Args:
        name: Name it was loaded by.
        model: The model.
        revision: Commit or tag of a hub model.

    Attributes:
        dim: Width of an embedding.
        fingerprint: 16 hex digits over weights, settings, tokenizer and pooling.
    """

    def __init__(self, name: str, model: SentenceTransformer, revision: str | None) -> None:
        self.name = name
        self.revision = revision
        self._model = model.requires_grad_(False).eval()
        self.dim = self.encode(["heart"]).shape[1]
        self.fingerprint = fingerprint_of(
            model.state_dict().values(), [settings_of(_config(model)), _tokenizer(model), _pooling(model)]
        )

    def encode(self, phrases: Sequence[str]) -> Tensor:
        """Embed phrases.

        Returns:
            ``[phrases, dim]``, float32, each row of length 1, on the CPU.
        """
        if not phrases:
            return torch.zeros(0, self.dim)
        embeddings = self._model.encode(list(phrases), batch_size=64, convert_to_tensor=True, show_progress_bar=False)
        # Cloned out of inference mode. Normalised here, since not every model ends in its own normalisation.
        return F.normalize(embeddings.clone().float().cpu(), dim=-1)

    def reference(self) -> dict[str, Any]:
        """Name, revision, dimension and fingerprint: enough to load it again and check it."""
        return {"encoder": self.name, "revision": self.revision, "dim": self.dim, "fingerprint": self.fingerprint}


def load_text_encoder(name: str, revision: str | None = None) -> TextEncoder:
    """Load a frozen sentence encoder.

    Args:
        name: A sentence-transformers id on the Hugging Face hub, a local folder, or ``packaged:all-MiniLM-L6-v2``.
        revision: Commit or tag of a hub model; None takes its newest.

    Raises:
        RarrgError: The model cannot be had, or a revision was given for one that is not on the hub.
    """
    kind, _, packaged = name.partition(":")
    folder = Path(name).expanduser()
    local = kind == "packaged" or folder.is_dir()
    if local and revision is not None:
        raise RarrgError(f"{name}: only a hub model has a revision; leave it out")
    if kind == "packaged":
        folder = sentence_model_folder(packaged)
    if local and not (folder / "modules.json").is_file():
        raise RarrgError(f"{name}: the folder holds no sentence-transformers model (no modules.json)")
    try:
        model = SentenceTransformer(
            str(folder) if local else name, revision=revision, model_kwargs={"dtype": torch.float32}
        )
    except LOAD_ERRORS as error:
        if local:
            reason = first_line(error)
            raise RarrgError(f"{name}: the folder holds no usable sentence-transformers model ({reason})") from error
        raise unavailable(name, error, "a local folder or packaged:all-MiniLM-L6-v2") from error
    return TextEncoder(name, model, None if local else _commit(model) or revision)


def embed_phrases(encoder: TextEncoder, phrases: Sequence[str], cache: Path) -> Tensor:
    """Embed phrases, encoding each unique phrase once in the life of the cache.

    The cache holds shards of embeddings with their phrases, in a folder named by the encoder's fingerprint; another
    encoder never reads them. It is written as it goes, so an interrupted call loses little.

    Args:
        encoder: The sentence encoder.
        phrases: Phrases, repeated or not.
        cache: Folder of the cache.

    Returns:
        ``[phrases, dim]``, float32, unit rows in the order of ``phrases``, on the CPU.

    Raises:
        RarrgError: A shard is damaged.
    """
    folder = cache / encoder.fingerprint
    known = _read_shards(folder, set(phrases))
    new = [phrase for phrase in dict.fromkeys(phrases) if phrase not in known]
    with tqdm(total=len(new), desc="embedding phrases", unit="phrase", delay=2) as bar:
        for start in range(0, len(new), _SHARD):
            shard = new[start : start + _SHARD]
            embeddings = encoder.encode(shard)
            _write_shard(folder, shard, embeddings)
            known.update(zip(shard, embeddings, strict=True))
            bar.update(len(shard))
    return torch.stack([known[phrase] for phrase in phrases]) if phrases else torch.zeros(0, encoder.dim)


def add_noise(embeddings: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Add uniform noise to unit vectors and bring them back to unit length; for training only.

    ``normalize(normalize(e) + u / sqrt(d))`` with ``u ~ U[-1, 1]`` in every element (RA-RRG 3.2.1, after NEFTune).
    The noise is large: the mean cosine between a vector and its noisy self is about 0.866.

    Args:
        embeddings: ``[..., dim]``.
        generator: Source of the noise, on the embeddings' device.

    Returns:
        A tensor of the same shape, unit rows.
    """
    uniform = torch.rand(embeddings.shape, generator=generator, device=embeddings.device, dtype=embeddings.dtype)
    noise = (2 * uniform - 1) / math.sqrt(embeddings.shape[-1])
    return F.normalize(F.normalize(embeddings, dim=-1) + noise, dim=-1)


def _read_shards(folder: Path, wanted: set[str]) -> dict[str, Tensor]:
    known: dict[str, Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, framework="pt") as file:
                phrases = json.loads(file.metadata()["phrases"])
                rows = [row for row, phrase in enumerate(phrases) if phrase in wanted]
                if rows:
                    embeddings = file.get_tensor("embeddings")
                    known.update({phrases[row]: embeddings[row] for row in rows})
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise RarrgError(f"{path}: is damaged; delete it, and its phrases are embedded again") from error
    return known


def _write_shard(folder: Path, phrases: list[str], embeddings: Tensor) -> None:
    listed = json.dumps(phrases, ensure_ascii=False)
    name = hashlib.sha256(listed.encode()).hexdigest()[:16]
    with atomic_write(folder / f"{name}.safetensors") as temporary:
        # Not save_file, whose errors are no OSError.
        temporary.write_bytes(save({"embeddings": embeddings.contiguous()}, metadata={"phrases": listed}))


def _tokenizer(model: SentenceTransformer) -> list[Any]:
    tokenizer = model.tokenizer
    if not hasattr(tokenizer, "get_vocab"):
        return []
    probe = tokenizer.encode(_PROBE)
    return [sorted(tokenizer.get_vocab().items()), getattr(probe, "ids", probe), model.max_seq_length]


def _pooling(model: SentenceTransformer) -> list[str]:
    # sentence-transformers renamed this within version 5.
    modes = [getattr(module, "pooling_mode", None) or _old_pooling(module) for module in model]
    return [str(mode) for mode in modes if mode]


def _old_pooling(module: Any) -> str:
    return module.get_pooling_mode_str() if hasattr(module, "get_pooling_mode_str") else ""


def _config(model: SentenceTransformer) -> Any:
    """Configuration of the model's transformer, None where it has none."""
    return getattr(getattr(model[0], "auto_model", None), "config", None)


def _commit(model: SentenceTransformer) -> str | None:
    return getattr(_config(model), "_commit_hash", None)
