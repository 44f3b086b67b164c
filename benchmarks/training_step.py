"""Where a training step's operations and seconds go, for ``training.py``."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.h100_plan import CHANNELS, GRID, decoder_operations, encoder_operations
from benchmarks.measuring import Table, alternate, measurement, spread
from benchmarks.reference_recipe import objective
from rarrg.config import EncoderConfig, LossConfig, RetrieverConfig
from rarrg.losses.criterion import Criterion
from rarrg.models.cross_attention import CrossAttention
from rarrg.models.retriever import PhraseRetriever
from rarrg.models.vision import load_backbone, load_fused

LOSS = LossConfig()
POSITIVES = 7.16


def criterion_tables(batch: int, repeats: int) -> tuple[list[Table], float]:
    """The criterion at a batch of the paper, beside the reference's and a decoder step; and its share of the step."""
    generator = torch.Generator().manual_seed(0)
    counts = torch.poisson(torch.full((batch,), 7.16), generator=generator).long()
    phrases = F.normalize(torch.randn(batch, int(counts.max()), 768, generator=generator), dim=-1)
    texts = [row[:count] for row, count in zip(phrases, counts.tolist(), strict=True)]
    logits = torch.randn(batch, 50, generator=generator).requires_grad_()
    embeddings = F.normalize(torch.randn(batch, 50, 768, generator=generator), dim=-1).requires_grad_()
    criterion = Criterion(LOSS, 50, POSITIVES)
    calls: dict[str, Callable[[], object]] = {
        "reference": lambda: objective(logits, embeddings, texts, LOSS, POSITIVES).backward(),
        "rarrg": lambda: criterion.total(criterion(logits, embeddings, phrases, counts)[0]).backward(),
    }
    alone = alternate(calls, repeats)
    retriever = PhraseRetriever([904], 768, RetrieverConfig())
    features = torch.randn(batch, 904, 8, 8, generator=generator)
    with FlopCounterMode(display=False) as counted:
        step(retriever, features[:2])
    seconds = []
    for _ in range(max(1, repeats // 4)):
        start = perf_counter()
        step(retriever, features)
        seconds.append(perf_counter() - start)
    decoder = measurement("decoder", seconds)
    flops = counted.get_total_flops() / 2 * batch
    peak, half = matmul_peak(), matmul_peak(torch.bfloat16)
    share = alone["rarrg"].median / (alone["rarrg"].median + decoder.median)
    rows = [
        ("reference's criterion, forward and backward", spread(alone["reference"]), ""),
        ("rarrg's criterion, forward and backward", spread(alone["rarrg"]), f"{share:.2%}"),
        ("decoder and heads, 8 x 8 tokens, forward and backward", spread(decoder), f"{1 - share:.2%}"),
    ]
    speed = [
        (
            "decoder and heads",
            f"{flops / 1e9:.0f}",
            f"{flops / decoder.median / 1e9:.0f}",
            f"{flops / decoder.median / peak:.0%}",
        ),
        ("matmul 2048 x 2048", f"{2 * 2048**3 / 1e9:.0f}", f"{peak / 1e9:.0f}", "100%"),
        ("matmul 2048 x 2048 in bfloat16", f"{2 * 2048**3 / 1e9:.0f}", f"{half / 1e9:.0f}", f"{half / peak:.0%}"),
    ]
    return [
        Table(
            f"A step's criterion at {batch} images, 50 queries, {len(torch.cat(texts))} phrases, float32",
            ("", "ms", "of the step"),
            rows,
        ),
        Table("Floating point operations a second", ("", "GFLOP", "GFLOP/s", "of the matmul"), speed),
    ], share


def step(retriever: PhraseRetriever, features: Tensor) -> None:
    """Forward and backward of decoder and heads."""
    output = retriever(features)
    (output.logits.sum() + output.embeddings.sum()).backward()


def matmul_peak(dtype: torch.dtype = torch.float32) -> float:
    """Operations a second of the best of five products."""
    matrix = torch.randn(2048, 2048, dtype=dtype)
    torch.mm(matrix, matrix)
    seconds = []
    for _ in range(5):
        start = perf_counter()
        torch.mm(matrix, matrix)
        seconds.append(perf_counter() - start)
    return 2 * 2048**3 / min(seconds)


def operations_table() -> Table:
    """Operations of a training step on one image at the paper's grid: what no implementation of either can undercut."""
    encoders = encoder_operations()
    ours = decoder_operations(GRID)
    plain = decoder_operations(GRID, plain=True)
    rows = [
        ("image encoders, forward", f"{encoders / 1e9:.0f}", "0"),
        ("decoder and heads, forward and backward", f"{plain / 1e9:.0f}", f"{ours / 1e9:.0f}"),
        ("both", f"{(encoders + plain) / 1e9:.0f}", f"{ours / 1e9:.0f} (1/{(encoders + plain) / ours:.1f})"),
    ]
    return Table(
        f"GFLOP an image at the paper's grid, {GRID} x {GRID} tokens",
        ("", "reference recipe", "rarrg, later epochs"),
        rows,
        "rarrg's decoder projects queries in place of tokens in cross-attention (rarrg/models/cross_attention.py). At "
        "the same speed of arithmetic later epochs cannot be faster at this grid by more than the last ratio.",
    )


def choices_of_a_step(folder: Path, quick: bool) -> Table:
    """Parts of a step as rarrg computes them, each beside the form that libraries take if nobody says otherwise."""
    torch.manual_seed(0)
    repeats, few, side = (3, 4, 10) if quick else (5, 16, GRID)
    rows = []
    for name, calls in {
        f"EfficientNet-Lite0, {few} images of 256 x 256, forward: channels first; last": _memory_formats(few),
        "DINOv2-B, one image of 518 x 518, forward: attention by steps; fused": _attentions(folder, quick),
        f"cross-attention, 50 queries, {side} x {side} tokens, 4 images, both passes: torch's; rarrg's": (
            _cross_attentions(side)
        ),
        "AdamW, the paper's decoder: tensor by tensor; fused": _optimisers(),
    }.items():
        (_, usual), (_, chosen) = alternate(calls, repeats).items()
        rows.append((name, spread(usual), spread(chosen), f"{chosen.median / usual.median:.2f}"))
    return Table(
        "Choices within a step, ms",
        ("", "usual", "rarrg's", "of the time"),
        rows,
        "torch.compile is left off: benchmarks/compiled.py.",
    )


def _memory_formats(images: int) -> dict[str, Callable[[], object]]:
    backbone = load_backbone("packaged:efficientnet-lite0", 256, None, [3, 4])
    network = copy.deepcopy(backbone.network).eval().requires_grad_(False)
    encoder = load_fused([EncoderConfig("packaged:efficientnet-lite0", 256, None, [3, 4])])
    pixels = torch.rand(images, 3, 256, 256)
    return {
        "first": lambda: backbone.features(network, pixels),
        "last": lambda: encoder([pixels]),
    }


def _attentions(folder: Path, quick: bool) -> dict[str, Callable[[], object]]:
    from transformers import Dinov2Config, Dinov2Model

    Dinov2Model(Dinov2Config(num_hidden_layers=1 if quick else 12)).save_pretrained(folder)
    side = 112 if quick else 518
    by_steps = Dinov2Model.from_pretrained(folder, attn_implementation="eager").eval().requires_grad_(False)
    encoder = load_fused([EncoderConfig(str(folder), side)])
    pixels = torch.rand(1, 3, side, side)
    return {"steps": lambda: by_steps(pixels), "fused": lambda: encoder([pixels])}


def _cross_attentions(side: int) -> dict[str, Callable[[], object]]:
    attention = CrossAttention(768, 8, 0.0)
    queries, tokens = torch.randn(4, 50, 768, requires_grad=True), torch.randn(4, side**2, 768, requires_grad=True)
    return {
        "torch": lambda: attention(queries, tokens, tokens, need_weights=False)[0].sum().backward(),
        "rarrg": lambda: attention.attend(queries, tokens, tokens)[0].sum().backward(),
    }


def _optimisers() -> dict[str, Callable[[], object]]:
    calls: dict[str, Callable[[], object]] = {}
    for name, fused in (("tensor by tensor", False), ("fused", True)):
        retriever = PhraseRetriever([CHANNELS], 768, RetrieverConfig())
        for parameter in retriever.parameters():
            parameter.grad = torch.randn_like(parameter)
        calls[name] = torch.optim.AdamW(retriever.parameters(), 2e-4, fused=fused, foreach=False).step
    return calls
