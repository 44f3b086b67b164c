from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rarrg.data.sampling import StepwiseBatches, rarity_weights
from rarrg.data.studies import Example
from rarrg.types import View


def example(*phrases: str) -> Example:
    return Example(View(Path("x.png"), "frontal", "x"), "s", phrases)


def test_rarity_weights_by_hand() -> None:
    examples = [example("a"), example("a"), example("a"), example("a", "b")]
    # counts: a 4, b 1; with exponent 1: 1/4, 1/4, 1/4, (1/4 + 1)/2 = 5/8; mean 11/32
    expected = torch.tensor([8, 8, 8, 20], dtype=torch.float64) / 11
    torch.testing.assert_close(rarity_weights(examples, 1.0), expected)


def test_a_phrase_said_twice_of_an_image_counts_one_image() -> None:
    weights = rarity_weights([example("a", "a"), example("b")], 1.0)
    assert weights[0] == weights[1]


@pytest.mark.parametrize("weights", [None, torch.rand(23, dtype=torch.float64, generator=torch.Generator())])
def test_resuming_anywhere_gives_the_batches_that_were_left(weights: torch.Tensor | None) -> None:
    def batches(taken: int) -> list[list[int]]:
        return list(StepwiseBatches(23, 5, seed=3, steps_taken=lambda: taken, weights=weights))

    epochs = [*batches(0), *batches(5), *batches(10)]
    assert len(epochs) == 15
    for step in range(15):
        end = 5 * (step // 5 + 1)
        assert batches(step) == epochs[step:end]


def test_an_epoch_without_weights_is_a_permutation_and_epochs_differ() -> None:
    first, second = (
        [i for batch in StepwiseBatches(23, 5, 3, lambda taken=taken: taken) for i in batch] for taken in (0, 5)
    )
    assert sorted(first) == sorted(second) == list(range(23))
    assert first != second


def test_weights_decide_how_often_an_image_is_drawn() -> None:
    weights = torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64)
    drawn = torch.tensor(
        [
            i
            for epoch in range(2000)
            for batch in StepwiseBatches(3, 3, 0, lambda epoch=epoch: epoch, weights)
            for i in batch
        ]
    )
    share = torch.bincount(drawn, minlength=3) / len(drawn)
    assert share[0] == 0
    assert share[2].item() == pytest.approx(0.75, abs=0.03)


def test_limit_shortens_the_epoch() -> None:
    sampler = StepwiseBatches(23, 5, 0, lambda: 4, limit=2)
    assert len(sampler) == 2
    assert len(list(sampler)) == 2  # step 4 is the start of the third epoch of two steps
