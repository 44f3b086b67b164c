"""What training on MIMIC-CXR would take on one H100: estimates from counted operations, for ``docs/performance.md``.

    python benchmarks/h100_plan.py [--json FILE]

Nothing here is timed. The operations of the paper's encoders and decoder are counted on networks of their size without
weights; the rest is arithmetic with the card's published peak and two shares of it that training jobs reach.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import CLIPVisionConfig, CLIPVisionModel, Dinov2Config, Dinov2Model

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.measuring import Goal, Report, Table, arguments, finish
from benchmarks.reference_recipe import with_plain_attention
from rarrg.config import RetrieverConfig
from rarrg.models.retriever import PhraseRetriever

IMAGES = 269_241  # training images (RA-RRG, table 11)
EPOCHS, BATCH = 10, 128  # appendix D
PEAK = 989e12
"""Operations a second of an H100 SXM in bfloat16, dense (NVIDIA H100 data sheet)."""
SHARES = (0.2, 0.4)
"""Of the peak that such networks reach, from the least to the best."""
CHANNELS, GRID = 1536, 37
DISK = 3.0e9
"""Bytes a second of one NVMe disk, read in large pieces."""
GOAL = 2.0  # hours


@dataclass(frozen=True)
class Cache:
    """A choice of what is kept.

    Attributes:
        name: What is kept.
        encodes: The encoders run in every step; else once.
        grid: Side of the grid that the decoder reads.
        read: Bytes an image that a step reads.
    """

    name: str
    encodes: bool
    grid: int
    read: float


CACHES = (
    Cache("images (mimic.yaml): uint8 squares, encoders in every step", True, GRID, 518**2 + 512**2),
    Cache("features, 37 x 37, float16", False, GRID, GRID**2 * CHANNELS * 2),
    Cache("features, 37 x 37, int8", False, GRID, GRID**2 * CHANNELS),
    Cache("features pooled to 18 x 18, float16", False, 18, 18**2 * CHANNELS * 2),
    Cache("features pooled to 10 x 10, float16", False, 10, 10**2 * CHANNELS * 2),
)


def encoder_operations() -> float:
    """Operations of both encoders' forward pass on one image."""
    with torch.device("meta"), FlopCounterMode(display=False) as counted, torch.no_grad():
        Dinov2Model(Dinov2Config(image_size=518, patch_size=14, attn_implementation="eager"))(
            torch.empty(1, 3, 518, 518)
        )
        CLIPVisionModel(CLIPVisionConfig(image_size=512, patch_size=16, attn_implementation="eager"))(
            torch.empty(1, 3, 512, 512)
        )
    return float(counted.get_total_flops())


def decoder_operations(grid: int, plain: bool = False) -> float:
    """Operations of the decoder's forward and backward pass on one image.

    Args:
        grid: Side of its grid.
        plain: Cross-attention as torch's layer has it.
    """
    # The counter knows nothing of the fused attention of a CPU. On the meta device rarrg's would be that of a GPU.
    with FakeTensorMode(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counted:
        retriever = decoder()
        if plain:
            with_plain_attention(retriever)
        found = retriever(torch.empty(1, CHANNELS, grid, grid))
        (found.logits.sum() + found.embeddings.sum()).backward()
    return float(counted.get_total_flops())


def decoder() -> PhraseRetriever:
    """The paper's."""
    return PhraseRetriever([CHANNELS], 768, RetrieverConfig())


def main() -> None:
    """Print the plan."""
    options = arguments(__doc__).parse_args()
    encoders = encoder_operations()
    rows, hours_of = [], {}
    for cache in CACHES:
        operations = decoder_operations(cache.grid, plain=True)  # as on a GPU
        seconds = []
        for share in SHARES:
            once = 0.0 if cache.encodes else IMAGES * encoders / (share * PEAK)
            work = (operations + encoders * cache.encodes) / (share * PEAK)
            seconds.append(once + EPOCHS * IMAGES * max(work, cache.read / DISK))
        slow, fast = (each / 3600 for each in seconds)
        hours_of[cache.name] = slow
        waits = cache.read / DISK > (operations + encoders * cache.encodes) / (SHARES[1] * PEAK)
        steps = [1 / (BATCH * (operations + encoders * cache.encodes) / (share * PEAK)) for share in SHARES]
        rows.append(
            (
                cache.name,
                f"{IMAGES * cache.read / 1e9:,.0f} GB",
                f"{encoders / 1e12:.2f} TFLOP" + ("" if cache.encodes else ", once"),
                f"{operations / 1e12:.3f} TFLOP",
                f"{steps[0]:.1f} to {steps[1]:.1f}",
                f"{BATCH * cache.read / DISK * 1e3:.0f} ms" + (" (the limit)" if waits else ""),
                f"{fast:.1f} to {slow:.1f}",
            )
        )
    columns = (
        *("kept", "disk", "encoders an image", "decoder an image, both passes", "steps/s by the card alone"),
        *(f"reading a batch of {BATCH}", f"hours for {EPOCHS} epochs"),
    )
    parameters = sum(weight.numel() for weight in decoder().parameters())
    weights = 2 * 172e6 + parameters * (4 + 8 + 4)
    note = (
        f"**Estimates, not measurements**: {SHARES[0]:.0%} to {SHARES[1]:.0%} of {PEAK / 1e12:.0f} TFLOP/s, a disk of "
        f"{DISK / 1e9:.0f} GB/s, {IMAGES:,} images. The paper reports 18 hours. Memory: about {weights / 1e9:.1f} GB "
        f"of weights and optimiser (decoder of {parameters / 1e6:.0f} M parameters in float32, both encoders in "
        "bfloat16), and the activations of a step. A pooled grid makes another model."
    )
    goals = [
        Goal(
            f"ten epochs of MIMIC-CXR in {GOAL:g} hours at {SHARES[0]:.0%} of an H100 (estimate); {cache.name}",
            f"{hours_of[cache.name]:.1f} h",
            hours_of[cache.name] <= GOAL,
        )
        for cache in CACHES
        if cache.grid == GRID
    ]
    about = (
        "Operations of one forward pass of DINOv2-B at 518 and CLIP-B/16 at 512 pixels and of one forward and backward "
        "pass of the decoder are counted by PyTorch's counter; what follows is arithmetic."
    )
    finish(Report("A plan for one H100", about, [Table("Hours by cache", columns, rows, note)], goals), options)


if __name__ == "__main__":
    main()
