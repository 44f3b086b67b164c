from __future__ import annotations

import pytest
import torch
from torch import nn

from rarrg.models.cross_attention import CrossAttention, absorbing_pays

DIM, HEADS, QUERIES = 16, 2, 3
FEW, MANY = 2, 40  # tokens at which the form of torch, and the absorbed one, is taken


def make(dropout: float = 0.0) -> CrossAttention:
    torch.manual_seed(0)
    attention = CrossAttention(DIM, HEADS, dropout)
    with torch.no_grad():
        for parameter in attention.parameters():  # biases too, which start at 0
            parameter.add_(0.3 * torch.randn_like(parameter))
    return attention


def inputs(tokens: int) -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.randn(2, length, DIM, requires_grad=True) for length in (QUERIES, tokens, tokens)]


def gradients(out: torch.Tensor, given: list[torch.Tensor], attention: nn.Module) -> list[torch.Tensor]:
    torch.manual_seed(2)
    return list(torch.autograd.grad((out * torch.randn(out.shape)).sum(), [*given, *attention.parameters()]))


@pytest.mark.parametrize("tokens", [FEW, MANY])
def test_equals_torchs_multi_head_attention_with_gradients(tokens: int):
    attention, given = make(), inputs(tokens)
    assert absorbing_pays(QUERIES, tokens, DIM, HEADS) == (tokens == MANY)
    expected, weights = nn.MultiheadAttention.forward(attention, *given)
    out, mine = attention.attend(*given, need_weights=True)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(mine, weights, atol=1e-6, rtol=1e-5)
    for ours, theirs in zip(gradients(out, given, attention), gradients(expected, given, attention), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
    assert attention.attend(*given)[1] is None


def test_dropout_falls_on_the_same_weights(monkeypatch: pytest.MonkeyPatch):
    attention, given = make(dropout=0.5).train(), inputs(MANY)
    torch.manual_seed(3)
    mask = 2.0 * (torch.rand(2, HEADS * QUERIES, MANY) < 0.5)
    monkeypatch.setattr(torch.nn.functional, "dropout", lambda x, p, training=True: x * mask.view_as(x))
    expected, weights = nn.MultiheadAttention.forward(attention, *given, need_weights=True)
    out, mine = attention.attend(*given, need_weights=True)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(mine, weights, atol=1e-6, rtol=1e-5)
    assert (mine.sum(dim=-1) - 1).abs().max() > 0.1


def test_dropout_is_off_in_evaluation():
    attention, given = make(dropout=0.9).eval(), inputs(MANY)
    torch.testing.assert_close(attention.attend(*given)[0], attention.attend(*given)[0], atol=0, rtol=0)


def test_absorbing_pays_on_the_papers_grid_and_not_on_small_ones():
    assert absorbing_pays(queries=50, tokens=37 * 37, dim=768, heads=8)
    assert not absorbing_pays(queries=50, tokens=8 * 8, dim=768, heads=8)
    assert not absorbing_pays(queries=50, tokens=37 * 37, dim=128, heads=8)


def test_lower_precision_keeps_close():
    attention, given = make(), inputs(MANY)
    with torch.autocast("cpu", torch.bfloat16):
        out, _ = attention.attend(*given)
    torch.testing.assert_close(out.float(), attention.attend(*given)[0], atol=0.05, rtol=0.05)
