"""Phrases of a study in plain PIL, timm, torch and numpy, as one would write it for oneself.

    python benchmarks/plain_inference.py MODEL VECTORS FRONTAL LATERAL

What ``benchmarks/inference.py`` sets beside rarrg: the same networks and vectors, no check of anything, and the phrases
put one after another in place of a report with its grounding. Only the decoder's network is rarrg's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import timm
import torch
import yaml
from PIL import Image
from safetensors.torch import load_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from rarrg.config import RetrieverConfig
from rarrg.models.retriever import PhraseRetriever


class Plain:
    """The networks, vectors and phrases of a model.

    Args:
        model: Folder of a model with one timm encoder, which lies in a folder too.
        vectors: Folder of ``vectors.npy``, the phrases' unit vectors, and ``phrases.txt``.
    """

    def __init__(self, model: Path, vectors: Path) -> None:
        config = yaml.safe_load((model / "config.yaml").read_text())
        (encoder,) = config["vision"]
        self.size = encoder["size"]
        self.network: Any = timm.create_model(f"local-dir:{encoder['spec']}", pretrained=True, num_classes=0).eval()
        self.mean, self.std = (torch.tensor(self.network.pretrained_cfg[key]).view(3, 1, 1) for key in ("mean", "std"))
        self.resample = Image.Resampling[self.network.pretrained_cfg["interpolation"].upper()]
        self.retriever = PhraseRetriever(config["channels"], config["text_dim"], RetrieverConfig(**config["retriever"]))
        self.retriever.load_state_dict(load_file(model / "model.safetensors"))
        self.retriever.eval()
        self.threshold = config["threshold"]
        self.vectors = np.load(vectors / "vectors.npy")
        self.phrases = (vectors / "phrases.txt").read_text().splitlines()

    def pixels(self, path: Path) -> torch.Tensor:
        """A file as the encoder takes it, ``[3, size, size]``."""
        image = Image.open(path).convert("L").resize((self.size, self.size), self.resample)
        return (torch.from_numpy(np.array(image)).float() / 255 - self.mean) / self.std

    @torch.inference_mode()
    def phrases_of(self, pixels: torch.Tensor) -> list[list[str]]:
        """The phrases of each image, ``[images, 3, size, size]``."""
        output = self.retriever(self.network.forward_features(pixels))
        probabilities = output.logits.sigmoid().numpy()
        found = []
        for row, embeddings in zip(probabilities, output.embeddings.numpy(), strict=True):
            chosen = np.flatnonzero(row > self.threshold)
            chosen = chosen[np.argsort(-row[chosen])] if len(chosen) else row.argmax(keepdims=True)
            nearest = (embeddings[chosen] @ self.vectors.T).argmax(axis=1)
            found.append(list(dict.fromkeys(self.phrases[place] for place in nearest)))
        return found

    def __call__(self, paths: Sequence[Path]) -> str:
        """The phrases of a study's images, one after another."""
        found = self.phrases_of(torch.stack([self.pixels(path) for path in paths]))
        return " ".join(f"{phrase.capitalize()}." for phrases in found for phrase in phrases)


if __name__ == "__main__":
    model, vectors, *paths = map(Path, sys.argv[1:])
    sys.stdout.write(Plain(model, vectors)(paths) + "\n")
