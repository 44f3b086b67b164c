"""The selection loss against known figures and against the general distribution-balanced loss, step by step."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from rarrg.errors import RarrgError
from rarrg.losses.selection import distribution_balanced_loss, initial_bias

VECTOR = {  # logit: (positive, negative)
    -2: (3.735305, 0.000005),
    -1: (1.620194, 0.001557),
    0: (0.411342, 0.162984),
    1: (0.055255, 1.709862),
    2: (0.004475, 4.155298),
}


def general_loss(logits, labels, class_sizes, total):
    """The general loss for any number of samples and classes, as its steps are published. Returns loss and weight."""
    inverse = 1 / class_sizes
    ratio = inverse.unsqueeze(0) / (labels * inverse).sum(dim=1, keepdim=True)
    weight = 0.1 + torch.sigmoid(10.0 * (ratio - 0.2))
    z = logits - torch.log(total / class_sizes - 1) * 0.05 / 2.0
    z = z * (1 - labels) * 2.0 + z * labels
    entropy = F.binary_cross_entropy_with_logits(z, labels, reduction="none")
    scaled = weight / 2.0 * (1 - labels) + weight * labels
    return 2.0 * (1 - torch.exp(-entropy)) ** 2.0 * scaled * entropy, weight


@pytest.mark.parametrize(("logit", "expected"), VECTOR.items())
def test_known_figures(logit, expected):
    loss = distribution_balanced_loss(torch.full((2,), float(logit)), torch.tensor([1, 0]))
    assert loss.tolist() == pytest.approx(expected, abs=1e-6)


def test_the_bias_is_that_of_7_16_positives_in_50():
    assert initial_bias(7.16, 50) == pytest.approx(-0.0447240566, abs=1e-9)
    assert initial_bias(25, 50) == 0


@pytest.mark.parametrize(("positives", "total"), [(7.16, 50), (5.2, 50), (1.5, 8)])
def test_it_is_the_general_loss_with_one_class_and_a_sample_for_each_query(positives, total):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, total, generator=generator, dtype=torch.float64) * 3
    labels = (torch.rand(6, total, generator=generator) < 0.2).double()
    labels[0] = 0
    loss = distribution_balanced_loss(logits, labels, positives, total)
    general, _ = general_loss(logits.reshape(-1, 1), labels.reshape(-1, 1), torch.tensor([positives]).double(), total)
    assert loss.shape == logits.shape
    torch.testing.assert_close(loss.reshape(-1, 1), general, rtol=1e-6, atol=1e-9)


def test_queries_as_classes_would_be_another_loss():
    matched = torch.tensor([1, 3, 5, 7, 10, 20])
    labels = (torch.arange(50) < matched.unsqueeze(1)).double()
    logits = torch.randn(6, 50, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    sizes = torch.full((50,), 7.16, dtype=torch.float64)
    other, weight = general_loss(logits, labels, sizes, 50)
    # the general loss is what it should be: the known weights for 1, 3, 5, 7, 10 and 20 matched queries
    assert weight[:, 0].tolist() == pytest.approx([1.0997, 0.891, 0.600, 0.461, 0.369, 0.282], abs=1e-3)
    ours = distribution_balanced_loss(logits, labels)
    assert not torch.isclose(
        ours[1:], other[1:], rtol=0.01, atol=0
    ).any()  # every query of every image with 3 or more matched
    torch.testing.assert_close(ours[0][labels[0] == 1], other[0][labels[0] == 1], rtol=1e-4, atol=0)


def test_labels_may_be_bool_int_or_float():
    logits = torch.tensor([0.3, -0.7, 1.2])
    labels = torch.tensor([True, False, True])
    results = [
        distribution_balanced_loss(logits, labels.to(dtype)) for dtype in (torch.bool, torch.int64, torch.float32)
    ]
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_the_caller_keeps_his_logits():
    logits = torch.tensor([0.5, -0.5])
    distribution_balanced_loss(logits, torch.tensor([1, 0]))
    assert logits.tolist() == [0.5, -0.5]


def test_bfloat16_logits_are_computed_in_float32_under_autocast():
    logits = torch.linspace(-6, 6, 25).bfloat16()
    labels = torch.arange(25) % 2
    with torch.autocast("cpu", torch.bfloat16):
        loss = distribution_balanced_loss(logits, labels)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, distribution_balanced_loss(logits.float(), labels))


def test_extreme_logits_keep_loss_and_gradient_finite():
    logits = torch.tensor([-1e4, -50.0, 50.0, 1e4]).repeat(2).requires_grad_()
    labels = torch.tensor([1, 1, 1, 1, 0, 0, 0, 0])
    loss = distribution_balanced_loss(logits, labels)
    loss.sum().backward()
    assert loss.isfinite().all()
    assert logits.grad.isfinite().all()
    # certain and wrong is linear: 2 * 1.09966 a unit for positives, 2 * 0.55 * 2 for negatives
    assert logits.grad[0] == pytest.approx(-2.1993293, rel=1e-5)
    assert logits.grad[7] == pytest.approx(2.2, rel=1e-5)


def test_gradcheck():
    logits = torch.linspace(-2, 2, 6, dtype=torch.float64).requires_grad_()
    labels = torch.tensor([1, 0, 1, 0, 1, 0])
    assert torch.autograd.gradcheck(lambda z: distribution_balanced_loss(z, labels), logits)


@pytest.mark.parametrize("positives", [0, -1, 50, 60, math.nan])
def test_class_sizes_without_a_bias_are_refused(positives):
    with pytest.raises(RarrgError, match=r"loss.positives: must be above 0 and below retriever.queries"):
        distribution_balanced_loss(torch.zeros(1), torch.ones(1), positives, 50)
