from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from rarrg.models.linear_reading import LinearReading, pooled


def trained(channels: int, classes: int, seed: int) -> nn.Sequential:
    """A batch norm that has seen batches, with a scale and an offset, dropout and a linear layer."""
    torch.manual_seed(seed)
    layers = nn.Sequential(nn.BatchNorm1d(channels), nn.Dropout(0.5), nn.Linear(channels, classes))
    for value in (layers[0].weight, layers[0].bias):
        nn.init.normal_(value)
    for _ in range(3):
        layers(torch.randn(8, channels) * 3 + 1)
    return layers.eval()


def test_pooled_is_halfway_between_mean_and_maximum():
    features = torch.tensor([[[[0.0, 1.0], [2.0, 5.0]], [[-1.0, -1.0], [-1.0, -1.0]]]])
    assert pooled(features).tolist() == [[3.5, -1.0]]  # (2 + 5) / 2


def test_a_reading_has_the_logits_of_batch_norm_and_linear_layer_in_evaluation():
    layers = trained(6, 5, seed=0)
    reading = LinearReading.of(layers[0], layers[2], 3)
    channels = torch.randn(4, 6)
    torch.testing.assert_close(channels @ reading.weight.T + reading.bias, layers(channels)[:, :3])


def test_the_mean_of_readings_has_the_mean_of_their_logits(tmp_path: Path):
    first, second = (trained(channels, 3, seed) for channels, seed in ((6, 0), (4, 1)))
    joined = LinearReading.mean([LinearReading.of(each[0], each[2], 3) for each in (first, second)], before=2)
    channels = torch.randn(5, 2 + 6 + 4)
    expected = (first(channels[:, 2:8]) + second(channels[:, 8:])) / 2
    assert joined.save(tmp_path) in {path.name for path in tmp_path.iterdir()}
    kept = LinearReading.load(tmp_path)
    torch.testing.assert_close(channels @ kept.weight.T + kept.bias, expected)
