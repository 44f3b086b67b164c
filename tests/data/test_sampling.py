from __future__ import annotations

import numpy as np
import pytest
import torch

from rarrg.data.sampling import StepwiseBatches, rarity_weights


def test_rarity_weights_by_hand() -> None:
    labels = np.array([[0, 0], [0, 0], [1, 0], [1, 0], [1, 0], [1, 1]], dtype=bool)
    # counts: first 4, second 1, neither 2; with exponent 1 the largest: 1/2, 1/2, 1/4, 1/4, 1/4, 1; mean 2.75/6
    expected = torch.tensor([0.5, 0.5, 0.25, 0.25, 0.25, 1], dtype=torch.float64) * 6 / 2.75
    torch.testing.assert_close(rarity_weights(labels, 1.0), expected)
    torch.testing.assert_close(rarity_weights(labels, 0.0), torch.ones(6, dtype=torch.float64))


def test_with_exponent_one_every_finding_is_drawn_as_often_as_every_other() -> None:
    labels = np.eye(4, 3, dtype=bool).repeat([400, 30, 2, 90], axis=0)
    weights = rarity_weights(labels, 1.0)
    shares = [weights[labels[:, finding]].sum() for finding in range(3)] + [weights[~labels.any(axis=1)].sum()]
    torch.testing.assert_close(torch.stack(shares), torch.full((4,), 522 / 4, dtype=torch.float64))


def test_a_finding_that_no_image_has_does_no_harm() -> None:
    labels = np.array([[1, 0], [0, 0]], dtype=bool)
    assert torch.isfinite(rarity_weights(labels, 0.5)).all()


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
