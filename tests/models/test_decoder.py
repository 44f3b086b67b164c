from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from rarrg.models.decoder import Decoder, sine_position

QUERIES, LAYERS, DIM, HEADS, WIDE = 5, 3, 16, 4, 24


def make(dropout: float = 0.0) -> Decoder:
    torch.manual_seed(0)
    decoder = Decoder(QUERIES, LAYERS, DIM, HEADS, WIDE, dropout).eval()
    with torch.no_grad():
        for parameter in decoder.parameters():  # biases and norms too, which start at 0 and 1
            parameter.add_(0.1 * torch.randn_like(parameter))
    return decoder


def attend(attention: nn.MultiheadAttention, query, key, value):
    """Multi-head attention of one image, one head and one query at a time."""
    size = DIM // HEADS
    weights = attention.in_proj_weight.chunk(3)
    biases = attention.in_proj_bias.chunk(3)
    q, k, v = (x @ w.T + b for x, w, b in zip((query, key, value), weights, biases, strict=True))
    out = torch.zeros(len(query), DIM)
    mean = torch.zeros(len(query), len(key))
    for head in range(HEADS):
        part = slice(head * size, (head + 1) * size)
        for row in range(len(query)):
            scores = torch.stack([q[row, part] @ k[column, part] for column in range(len(key))]) / math.sqrt(size)
            weight = scores.exp() / scores.exp().sum()
            out[row, part] = weight @ v[:, part]
            mean[row] += weight / HEADS
    return out @ attention.out_proj.weight.T + attention.out_proj.bias, mean


def norm(layer: nn.LayerNorm, x):
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
    return (x - mean) / (variance + layer.eps).sqrt() * layer.weight + layer.bias


def reference(decoder: Decoder, memory, position):
    """DETR's post-norm decoder for one image, written from its equations."""
    queries = decoder.queries.weight
    content = torch.zeros_like(queries)
    for layer in decoder.layers:
        update, _ = attend(layer.self_attention, content + queries, content + queries, content)
        content = norm(layer.norms[0], content + update)
        update, mean = attend(layer.cross_attention, content + queries, memory + position, memory)
        content = norm(layer.norms[1], content + update)
        first, _, _, second = layer.feedforward
        hidden = (content @ first.weight.T + first.bias).clamp(min=0)
        content = norm(layer.norms[2], content + hidden @ second.weight.T + second.bias)
    return norm(decoder.norm, content), mean


@pytest.mark.parametrize("with_position", [False, True])
def test_equals_a_decoder_written_by_hand(with_position: bool):
    decoder = make()
    memory, position = torch.randn(2, 7, DIM), torch.randn(7, DIM)
    given = position if with_position else None
    out, attention = decoder(memory, given, need_attention=True)
    for image in range(2):
        expected, mean = reference(decoder, memory[image], position if with_position else torch.zeros(7, DIM))
        torch.testing.assert_close(out[image], expected, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(attention[image], mean, atol=1e-5, rtol=1e-4)
    assert attention.shape == (2, QUERIES, 7)


def test_equals_torchs_decoder_where_queries_are_zero():
    decoder = make()
    # With zero queries all rows of the decoder are alike, so its layers are compared on other content as well.
    layer = nn.TransformerDecoderLayer(DIM, HEADS, WIDE, dropout=0.0, batch_first=True)
    theirs = nn.TransformerDecoder(layer, LAYERS, norm=nn.LayerNorm(DIM)).eval()
    for ours, other in zip(decoder.layers, theirs.layers, strict=True):
        other.self_attn.load_state_dict(ours.self_attention.state_dict())
        other.multihead_attn.load_state_dict(ours.cross_attention.state_dict())
        other.linear1.load_state_dict(ours.feedforward[0].state_dict())
        other.linear2.load_state_dict(ours.feedforward[3].state_dict())
        for mine, its in zip(ours.norms, (other.norm1, other.norm2, other.norm3), strict=True):
            its.load_state_dict(mine.state_dict())
    theirs.norm.load_state_dict(decoder.norm.state_dict())
    content, memory = torch.randn(2, QUERIES, DIM), torch.randn(2, 7, DIM)
    ours = content
    for step in decoder.layers:
        ours, _ = step(ours, torch.zeros_like(ours), memory, memory)
    torch.testing.assert_close(decoder.norm(ours), theirs(content, memory), atol=1e-5, rtol=1e-4)

    nn.init.zeros_(decoder.queries.weight)
    zeros = torch.zeros(2, QUERIES, DIM)
    torch.testing.assert_close(decoder(memory)[0], theirs(zeros, memory), atol=1e-5, rtol=1e-4)


def test_asking_for_attention_changes_no_output_and_rows_sum_to_one():
    decoder = make()
    memory = torch.randn(3, 6, DIM)
    plain, none = decoder(memory)
    asked, attention = decoder(memory, need_attention=True)
    assert none is None
    torch.testing.assert_close(plain, asked, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(attention.sum(-1), torch.ones(3, QUERIES))


def test_tokens_without_position_are_a_set():
    decoder = make()
    memory, position = torch.randn(1, 6, DIM), torch.randn(6, DIM)
    order = torch.randperm(6)
    torch.testing.assert_close(decoder(memory)[0], decoder(memory[:, order])[0], atol=1e-5, rtol=1e-4)
    placed, moved = decoder(memory, position)[0], decoder(memory[:, order], position)[0]
    assert (placed - moved).abs().max() > 1e-3


def test_initial_weights_are_detrs():
    torch.manual_seed(0)
    decoder = Decoder(queries=50, layers=1, dim=128, heads=8, feedforward=256, dropout=0.1)
    weight = decoder.layers[0].self_attention.in_proj_weight
    bound = math.sqrt(6 / (128 + 3 * 128))
    assert weight.abs().max() <= bound
    assert weight.abs().max() > 0.95 * bound
    wide = decoder.layers[0].feedforward[0].weight
    assert 0.95 * math.sqrt(6 / 384) < wide.abs().max() <= math.sqrt(6 / 384)
    assert decoder.queries.weight.std().item() == pytest.approx(1, abs=0.05)


def test_every_parameter_gets_a_gradient_that_it_can_have():
    decoder = Decoder(QUERIES, 2, DIM, HEADS, WIDE, dropout=0.1)
    out, _ = decoder(torch.randn(2, 7, DIM))
    (out * torch.randn_like(out)).sum().backward()
    for name, parameter in decoder.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name


def test_sine_position_by_hand():
    code = sine_position(2, 3, 8)
    assert code.shape == (6, 8)
    # Token 4 is row 2 of 2 (angle 2 pi) and column 2 of 3 (angle 4 pi / 3); periods 1 and 10000 ** (2 / 4) = 100.
    row, column = 2 * math.pi, 4 * math.pi / 3
    expected = [math.sin(row), math.cos(row), math.sin(row / 100), math.cos(row / 100),
                math.sin(column), math.cos(column), math.sin(column / 100), math.cos(column / 100)]  # fmt: skip
    torch.testing.assert_close(code[4], torch.tensor(expected), atol=1e-5, rtol=1e-4)
    # Row by row: the first three tokens share their row's half.
    torch.testing.assert_close(code[0, :4], code[2, :4])
    torch.testing.assert_close(code[0, 4:], code[3, 4:])
    assert len({tuple(token.tolist()) for token in sine_position(37, 37, 768)}) == 37 * 37
    with pytest.raises(ValueError, match="multiple of 4"):
        sine_position(2, 2, 6)
