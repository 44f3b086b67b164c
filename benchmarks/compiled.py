"""Whether ``torch.compile`` makes a training step's decoder faster on this machine; not a part of ``rarrg bench``.

    python benchmarks/compiled.py [--json FILE] [--quick]

Compiling takes a minute or more, a C++ compiler on a CPU and Triton on a GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.measuring import Report, Table, alternate, arguments, finish, spread
from rarrg.config import RetrieverConfig
from rarrg.models.retriever import PhraseRetriever

CHOICES = (
    ("the paper's decoder, 37 x 37 tokens of 1536", RetrieverConfig(), 1536, 37, 4),
    ("the paper's decoder, 8 x 8 tokens of 904", RetrieverConfig(), 904, 8, 16),
    ("iu_xray.yaml's decoder, 8 x 8 tokens of 904", RetrieverConfig(layers=1, dim=128, feedforward=512), 904, 8, 64),
)


def main() -> None:
    """Print the table."""
    options = arguments(__doc__).parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows = []
    for name, config, channels, side, images in CHOICES[-1:] if options.quick else CHOICES:
        retriever = PhraseRetriever([channels], 768, config).to(device)
        features = torch.randn(images, channels, side, side, device=device)

        def step(network: nn.Module, features: torch.Tensor = features) -> None:
            found = network(features)
            (found.logits.sum() + found.embeddings.sum()).backward()
            if device.type == "cuda":
                torch.cuda.synchronize()

        compiled = torch.compile(retriever)
        start = perf_counter()
        step(compiled)
        first = perf_counter() - start
        calls: dict[str, Callable[[], object]] = {
            "eager": lambda step=step, network=retriever: step(network),
            "compiled": lambda step=step, network=compiled: step(network),
        }
        times = alternate(calls, 3 if options.quick else 8)
        eager, faster = times.values()
        ratio = f"{faster.median / eager.median:.2f}"
        rows.append((name, str(images), f"{first:.0f}", spread(eager), spread(faster), ratio))
    columns = ("", "images", "first step compiled, s", "eager, ms", "compiled, ms", "of the time")
    table = Table(f"Forward and backward on {device}", columns, rows)
    about = "Decoder and heads as they are, and through torch.compile with its defaults."
    finish(Report("torch.compile", about, [table]), options)


if __name__ == "__main__":
    main()
