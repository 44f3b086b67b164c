"""Soft in-batch semantic contrastive loss (RA-RRG Eq. 4-6)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class _Gram(torch.autograd.Function):
    """``x @ x.T``, whose gradient is one product instead of autograd's two: ``(g + g.T) @ x``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x @ x.T

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        (gradient,) = gradients
        return (gradient + gradient.T) @ x


def soft_contrastive_loss(
    text: Tensor,
    semantic: Tensor,
    temperature: float = 1.0,
    target_temperature: float = 1.0,
    targets: Literal["both", "text"] = "both",
) -> Tensor:
    """Pull matched text and semantic embeddings together and others apart, less so where they mean the same.

    A symmetric cross-entropy as in CLIP, whose targets are soft: two pairs that resemble each other within their
    modalities are not treated as negatives::

        Z = text @ semantic.T / temperature                                                   (Eq. 4)
        q = softmax over columns of (text @ text.T + semantic @ semantic.T) / 2 / target_temperature   (Eq. 5)
        loss = mean over k of (H(q[k, :], softmax(Z[k, :])) + H(q[:, k], softmax(Z[:, k]))) / 2       (Eq. 6)

    As printed, the columns of q are not normalised again, so the second term weighs a pair by its column sum. The
    paper has no temperature, which is 1: targets are then nearly uniform and the loss stays near ln(pairs).

    The time goes into products of ``pairs * pairs * dim``. Eq. 4 and 5 as written take six of them with the gradient to
    ``semantic``; here ``text @ text.T + semantic @ semantic.T = S - Z - Z.T`` with ``S`` the products of the sums
    ``text + semantic``, which takes four.

    Args:
        text: Text embeddings of the matched pairs, unit length, ``[pairs, dim]``.
        semantic: Semantic embeddings of the same pairs, unit length, ``[pairs, dim]``.
        temperature: Divides the similarities between the modalities.
        target_temperature: Divides the similarities within the modalities.
        targets: ``both`` takes the targets from both modalities, and gradient flows through them as in Eq. 5 as
            printed; ``text`` takes them from the text embeddings alone, without gradient.

    Inputs:
        +----------------+----------------+-----------------------------+
        | text           | semantic       | loss                        |
        +================+================+=============================+
        | ``[pairs, d]`` | ``[pairs, d]`` | a scalar, at least float32  |
        +----------------+----------------+-----------------------------+

    Relations:
        - With one-hot targets it is the loss of CLIP.
        - It is the loss of the OpenAI-CLIP re-implementation by M. Shariatnia at temperature 1.
        - Pairs are those it is given; the criterion gathers them where several processes share a batch.

    References:
        RA-RRG, Eq. 4-6, https://arxiv.org/abs/2504.07415.

    Returns:
        The mean over pairs; a zero that is still connected to ``text`` and ``semantic`` where there are none.

    Raises:
        ValueError: ``targets`` is neither ``both`` nor ``text``.
    """
    if targets not in ("both", "text"):
        raise ValueError(f"targets must be 'both' or 'text', got {targets!r}")
    dtype = torch.promote_types(torch.promote_types(text.dtype, semantic.dtype), torch.float32)
    text, semantic = text.to(dtype), semantic.to(dtype)
    if len(text) == 0:
        return text.sum() + semantic.sum()  # 0, and on the graph
    with torch.autocast(text.device.type, enabled=False):
        cosines = text @ semantic.T
        logits = cosines / temperature
        if targets == "both":
            likeness = (_Gram.apply(text + semantic) - cosines - cosines.T) / 2
        else:
            likeness = text.detach() @ text.detach().T
        soft = (likeness / target_temperature).softmax(dim=1)
        # H(q, softmax(z)) = sum(q) * logsumexp(z) - q . z, so that no matrix of log-probabilities is kept.
        rows = logits.logsumexp(dim=1).sum()
        columns = soft.sum(dim=0) @ logits.logsumexp(dim=0)
        return (rows + columns - 2 * (soft * logits).sum()) / (2 * len(text))
