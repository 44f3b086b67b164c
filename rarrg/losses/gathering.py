"""A batch that several processes share: what its losses need of the other processes' images."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor


class Shared(NamedTuple):
    """The pairs of a whole batch, and how large it is.

    Attributes:
        text: Text embeddings of the pairs of all processes, in the order of their ranks, ``[pairs, dim]``.
        semantic: Semantic embeddings of the same pairs.
        images: Images of all processes.
        processes: Number of processes.
    """

    text: Tensor
    semantic: Tensor
    images: int
    processes: int


def gather_pairs(text: Tensor, semantic: Tensor, images: int) -> Shared:
    """Gather the matched pairs of all processes; every process has to call it, with any number of pairs.

    What comes from other processes is constant here: each of them computes the same loss of all pairs, and with it the
    whole gradient to its own ones. ``DistributedDataParallel`` then divides by the number of processes, so the gradient
    to the own pairs is multiplied by it.

    Args:
        text: Text embeddings of the own pairs, ``[pairs, dim]``.
        semantic: Semantic embeddings of the own pairs, ``[pairs, dim]``.
        images: Images of the own part of the batch.
    """
    processes = dist.get_world_size()
    own = torch.cat([text, semantic], dim=1)
    sizes = own.new_empty((processes, 2), dtype=torch.int64)
    dist.all_gather(list(sizes.unbind()), sizes.new_tensor([len(own), images]))
    pairs = sizes[:, 0].tolist()
    # all_gather wants equal shapes.
    padded = own.new_zeros((max(pairs), own.shape[1]))
    padded[: len(own)] = own.detach()
    parts = [torch.empty_like(padded) for _ in pairs]
    if max(pairs):
        dist.all_gather(parts, padded)
    if own.requires_grad:
        own.register_hook(lambda gradient: gradient * processes)
    rows = [part[:size] for part, size in zip(parts, pairs, strict=True)]
    rows[dist.get_rank()] = own
    every_text, every_semantic = torch.cat(rows).split([text.shape[1], semantic.shape[1]], dim=1)
    return Shared(every_text, every_semantic, int(sizes[:, 1].sum()), processes)
