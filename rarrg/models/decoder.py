"""The decoder of DETR (Carion et al., 2020), post-norm: learned queries read an image's tokens in parallel."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from rarrg.models.cross_attention import CrossAttention


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention and feed-forward, each followed by dropout, residual and layer norm.

    Args:
        dim: Width D.
        heads: Attention heads; divides ``dim``.
        feedforward: Width of the feed-forward layer.
        dropout: Dropout on attention weights and on every branch.
    """

    def __init__(self, dim: int, heads: int, feedforward: int, dropout: float) -> None:
        super().__init__()
        self.self_attention = nn.MultiheadAttention(dim, heads, dropout, batch_first=True)
        self.cross_attention = CrossAttention(dim, heads, dropout)
        self.feedforward = nn.Sequential(
            nn.Linear(dim, feedforward), nn.ReLU(), nn.Dropout(dropout), nn.Linear(feedforward, dim)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, content: Tensor, queries: Tensor, memory: Tensor, keys: Tensor, need_attention: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Apply the layer.

        Args:
            content: ``[batch, queries, dim]``.
            queries: Query embeddings, ``[batch, queries, dim]``; added to the queries of both attentions and to the
                keys of self-attention, never to values.
            memory: Values of cross-attention, ``[batch, tokens, dim]``.
            keys: Keys of cross-attention, ``[batch, tokens, dim]``: memory plus its position code.
            need_attention: Also return the cross-attention weights.

        Returns:
            New content, and cross-attention averaged over heads ``[batch, queries, tokens]`` or None.
        """
        placed = content + queries
        update, _ = self.self_attention(placed, placed, content, need_weights=False)
        content = self.norms[0](content + self.dropout(update))
        update, attention = self.cross_attention.attend(content + queries, keys, memory, need_attention)
        content = self.norms[1](content + self.dropout(update))
        content = self.norms[2](content + self.dropout(self.feedforward(content)))
        return content, attention


class Decoder(nn.Module):
    """Stack of decoder layers over zero content, with learned queries and a final layer norm.

    Defaults of the paper (RA-RRG 3.2.1, appendix D): 50 queries, 6 layers, width 768; the rest as DETR.

    Args:
        queries: Number N of learned queries.
        layers: Number of layers.
        dim: Width D.
        heads: Attention heads; divides ``dim``.
        feedforward: Width of the feed-forward layers.
        dropout: Dropout, in [0, 1).
    """

    def __init__(self, queries: int, layers: int, dim: int, heads: int, feedforward: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(dim, heads, feedforward, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        # Made after the loop: DETR leaves the queries at N(0, 1).
        self.queries = nn.Embedding(queries, dim)

    def forward(
        self, memory: Tensor, position: Tensor | None = None, need_attention: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Decode all queries in parallel.

        Args:
            memory: Image tokens, ``[batch, tokens, dim]``.
            position: Position code, ``[tokens, dim]`` or ``[batch, tokens, dim]``, added to the keys of
                cross-attention in every layer.
            need_attention: Also return the last layer's cross-attention. In training its weights carry dropout.

        Returns:
            ``[batch, queries, dim]``, and attention averaged over heads ``[batch, queries, tokens]``, each row summing
            to 1, or None.
        """
        queries = self.queries.weight.expand(len(memory), -1, -1)
        # In the type of memory: in bfloat16 every layer would turn the sum into it anew.
        keys = memory if position is None else (memory + position).to(memory.dtype)
        content = torch.zeros_like(queries)
        attention = None
        for index, layer in enumerate(self.layers):
            last = index == len(self.layers) - 1
            content, attention = layer(content, queries, memory, keys, need_attention and last)
        return self.norm(content), attention


def sine_position(height: int, width: int, dim: int) -> Tensor:
    """DETR's two-dimensional sine code, coordinates normalised to (0, 2 pi], temperature 10000.

    The first half of the channels codes the row, the second the column; within a half, sine and cosine alternate.

    Args:
        height: Rows of the grid.
        width: Columns of the grid.
        dim: Number of channels, a multiple of 4.

    Returns:
        ``[height * width, dim]``, float32, row by row.

    Raises:
        ValueError: ``dim`` is no multiple of 4.
    """
    if dim % 4:
        raise ValueError(f"dim must be a multiple of 4, got {dim}")
    rows = _sine(height, dim // 2)[:, None].expand(-1, width, -1)
    columns = _sine(width, dim // 2)[None].expand(height, -1, -1)
    return torch.cat([rows, columns], dim=-1).flatten(0, 1)


def _sine(length: int, dim: int) -> Tensor:
    coordinate = torch.arange(1, length + 1) / (length + 1e-6) * 2 * math.pi
    period = 10000 ** (torch.arange(0, dim, 2) / dim)
    angle = coordinate[:, None] / period
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
