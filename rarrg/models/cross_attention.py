"""Cross-attention of few queries to many tokens, without projecting every token.

Scores are ``(W_q q) . (W_k k) = (W_k^T W_q q) . k``: moving a head's key projection to the queries' side, and its value
projection behind the weighted mean, gives the same attention and leaves tokens as they are. DeepSeek-V2
(https://arxiv.org/abs/2405.04434, section 2.1.2) absorbs projections in this way to decode from its cache. The paper's
50 queries on 37 x 37 tokens take half the operations. On a GPU, whose fused attention keeps no scores in memory,
torch's layer stays.
"""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn import functional as F

_WORTH = 2 / 3
"""Share of the operations that the absorbed form may take at most: its products are less regular."""


class CrossAttention(nn.MultiheadAttention):
    """Multi-head attention whose form depends on how many tokens are read; its weights are those of the base class.

    Args:
        dim: Width D.
        heads: Attention heads H; divides ``dim``.
        dropout: Dropout on attention weights.
    """

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__(dim, heads, dropout, batch_first=True)

    def attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Attend.

        Args:
            queries: ``[batch, N, D]``.
            keys: ``[batch, T, D]``.
            values: ``[batch, T, D]``.
            need_weights: Also return the attention weights. In training they carry dropout.

        Returns:
            ``[batch, N, D]``, and weights averaged over heads ``[batch, N, T]`` or None.
        """
        pays = absorbing_pays(queries.shape[1], keys.shape[1], self.embed_dim, self.num_heads)
        if queries.device.type != "cpu" or not pays:
            return self(queries, keys, values, need_weights=need_weights)
        return self._absorbed(queries, keys, values, need_weights)

    def _absorbed(
        self, queries: Tensor, keys: Tensor, values: Tensor, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        heads, width = self.num_heads, self.head_dim
        of_queries, of_keys, of_values = self.in_proj_weight.chunk(3)
        bias, _, value_bias = self.in_proj_bias.chunk(3)  # that of the keys moves all scores of a query alike
        asked = (
            F.linear(queries, of_queries, bias).unflatten(-1, (heads, width)).permute(2, 0, 1, 3)
        )  # [H, batch, N, d]
        asked = _by_head(asked, of_keys.unflatten(0, (heads, width)) / math.sqrt(width)).transpose(0, 1)
        weights = (asked.flatten(1, 2) @ keys.transpose(1, 2)).softmax(dim=-1)  # [batch, H * N, T]
        weights = F.dropout(weights, self.dropout, self.training)
        read = (weights @ values).unflatten(1, (heads, -1)).transpose(0, 1)  # [H, batch, N, D]
        read = _by_head(read, of_values.unflatten(0, (heads, width)).transpose(1, 2)).permute(1, 2, 0, 3)
        # Weights that dropout has scaled do not sum to 1, and each is worth the bias once.
        total = weights.sum(dim=-1).unflatten(1, (heads, -1)).transpose(1, 2).unsqueeze(-1)
        read = read + total * value_bias.unflatten(0, (heads, width))
        out = self.out_proj(read.flatten(2))
        return out, weights.unflatten(1, (heads, -1)).mean(dim=1) if need_weights else None


def _by_head(vectors: Tensor, weights: Tensor) -> Tensor:
    """``[H, batch, N, d]`` by ``[H, d, e]`` to ``[H, batch, N, e]``, all images in one product of a head."""
    return (vectors.flatten(1, 2) @ weights).unflatten(1, vectors.shape[1:3])


def absorbing_pays(queries: int, tokens: int, dim: int, heads: int) -> bool:
    """Whether the absorbed form takes clearly fewer operations than projecting keys and values of all tokens.

    Args:
        queries: Number N of queries.
        tokens: Number T of tokens.
        dim: Width D.
        heads: Heads H.
    """
    projected = tokens * (dim + queries)
    absorbed = tokens * heads * queries + queries * dim
    return absorbed < _WORTH * projected
