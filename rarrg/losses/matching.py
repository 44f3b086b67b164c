"""Hungarian matching of queries to key phrases (RA-RRG Eq. 1-2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from rarrg.errors import RarrgError


class Matches(NamedTuple):
    """Matched pairs of a batch, sorted by image, then query.

    Attributes:
        image: Index of the image in the batch, int64 ``[pairs]``.
        query: Index of the query, int64 ``[pairs]``.
        phrase: Index of the phrase among its image's phrases, int64 ``[pairs]``.
    """

    image: Tensor
    query: Tensor
    phrase: Tensor


# Cost of a pair that groups forbid: the same for all of them, so that they have no say in which allowed ones are best.
FORBIDDEN = 1e4


def matching_cost(logits: Tensor, embeddings: Tensor, phrases: Tensor, probability_weight: float = 0.5) -> Tensor:
    """Cost of giving each phrase to each query of its own image (RA-RRG Eq. 2): ``-mu * probability - cosine``.

    Args:
        logits: Selection logits ``[batch, queries]``.
        embeddings: Semantic embeddings, unit length, ``[batch, queries, dim]``.
        phrases: Text embeddings, unit length, padded, ``[batch, phrases, dim]``.
        probability_weight: The weight mu of the selection probability.

    Returns:
        ``[batch, queries, phrases]``, float32 for any input dtype; what stands in the padding has no meaning.
    """
    with torch.autocast(logits.device.type, enabled=False):
        cosine = torch.bmm(embeddings.float(), phrases.float().transpose(1, 2))
        return -probability_weight * logits.float().sigmoid().unsqueeze(2) - cosine


@torch.no_grad()
def match(
    logits: Tensor,
    embeddings: Tensor,
    phrases: Tensor,
    counts: Tensor,
    probability_weight: float = 0.5,
    groups: Tensor | None = None,
) -> Matches:
    """Match queries to phrases in every image at the least total cost.

    The paper pads the phrases to as many as there are queries with empty ones of cost 0 and permutes (Eq. 1). Empty
    phrases never change which assignment of the others is best, so each image is solved as a rectangle of queries by
    real phrases instead. Costs are computed within images only, and reach the host in one copy for the whole batch.

    Args:
        logits: Selection logits ``[batch, queries]``.
        embeddings: Semantic embeddings, unit length, ``[batch, queries, dim]``.
        phrases: Text embeddings, unit length, padded, ``[batch, phrases, dim]``; 0 phrases are allowed.
        counts: Number of real phrases of each image, the first ones of its row, int64 ``[batch]``.
        probability_weight: The weight mu of the selection probability.
        groups: Query that each phrase may be matched to, int64 ``[batch, phrases]``; None lets any query have any.

    Returns:
        ``min(queries, count)`` pairs for each image, on the device of ``logits``; with groups one for each different
        group of its phrases, the phrase of least cost.

    Raises:
        ValueError: A count is negative or above the width of ``phrases``.
        RarrgError: Logits or embeddings hold NaN or infinity.
    """
    queries = logits.shape[1]
    cost = matching_cost(logits, embeddings, phrases, probability_weight)
    if groups is not None:
        allowed = groups.unsqueeze(1) == torch.arange(queries, device=groups.device)[:, None]
        # Where it is finite: NaN must still be seen.
        cost = cost.masked_fill(~allowed & cost.isfinite(), FORBIDDEN)
    # The counts ride along (exact in float32), so that a batch costs one synchronisation with the device.
    packed = torch.cat([cost.flatten(1), counts.to(cost).unsqueeze(1)], dim=1).cpu().numpy()
    sizes = packed[:, -1].astype(np.int64)
    if (sizes < 0).any() or (sizes > phrases.shape[1]).any():
        raise ValueError(f"counts must be between 0 and the {phrases.shape[1]} phrases given, got {sizes.tolist()}")

    empty = np.empty(0, dtype=np.int64)
    images_of, queries_of, phrases_of = [empty], [empty], [empty]
    for image, size in enumerate(sizes):
        block = packed[image, :-1].reshape(queries, -1)[:, :size]
        if not np.isfinite(block).all():
            raise RarrgError(
                f"matching: {_not_finite(logits, embeddings)} of the batch hold NaN or infinity, first seen in image "
                f"{image}: look for a broken input, or lower optim.learning_rate"
            )
        query, phrase = linear_sum_assignment(block)
        kept = block[query, phrase] < FORBIDDEN
        images_of.append(np.full(kept.sum(), image, dtype=np.int64))
        queries_of.append(query[kept])
        phrases_of.append(phrase[kept])
    pairs = np.stack([np.concatenate(images_of), np.concatenate(queries_of), np.concatenate(phrases_of)])
    return Matches(*torch.from_numpy(pairs).to(logits.device))


def _not_finite(logits: Tensor, embeddings: Tensor) -> str:
    if logits.isnan().any():
        return "selection logits"
    return "phrase embeddings" if embeddings.isfinite().all() else "semantic embeddings"
