"""The soft contrastive loss against a loop over its equations."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from rarrg.losses.contrastive import soft_contrastive_loss


def draw(pairs: int, dim: int = 6, seed: int = 0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    text, semantic = torch.randn(2, pairs, dim, generator=generator, dtype=dtype)
    return F.normalize(text, dim=1), F.normalize(semantic, dim=1)


def softmax(values):
    total = sum(math.exp(value) for value in values)
    return [math.exp(value) / total for value in values]


def cross_entropy(target, predicted):
    return -sum(p * math.log(r) for p, r in zip(target, predicted, strict=True))


def by_loop(text, semantic, temperature=1.0, target_temperature=1.0, targets="both"):
    """Eq. 4, 5 and 6, term by term."""
    pairs = range(len(text))

    def dot(a, b):
        return sum(x * y for x, y in zip(a.tolist(), b.tolist(), strict=True))

    z = [[dot(text[k], semantic[l]) / temperature for l in pairs] for k in pairs]  # noqa: E741
    q = []
    for k in pairs:
        likeness = [dot(text[k], text[l]) for l in pairs]  # noqa: E741
        if targets == "both":
            likeness = [(own + dot(semantic[k], semantic[l])) / 2 for l, own in enumerate(likeness)]  # noqa: E741
        q.append(softmax([value / target_temperature for value in likeness]))
    total = 0.0
    for k in pairs:
        total += cross_entropy(q[k], softmax(z[k]))
        total += cross_entropy([row[k] for row in q], softmax([row[k] for row in z]))
    return total / (2 * len(text))


@pytest.mark.parametrize("targets", ["both", "text"])
@pytest.mark.parametrize(("temperature", "target_temperature"), [(1.0, 1.0), (0.07, 1.0), (0.5, 0.1)])
@pytest.mark.parametrize("pairs", [1, 2, 9])
def test_it_is_the_loop_over_the_equations(pairs, temperature, target_temperature, targets):
    text, semantic = draw(pairs, seed=pairs)
    loss = soft_contrastive_loss(text, semantic, temperature, target_temperature, targets)
    assert loss.item() == pytest.approx(by_loop(text, semantic, temperature, target_temperature, targets), rel=1e-9)


@pytest.mark.parametrize("targets", ["both", "text"])
def test_a_batch_of_900_pairs_agrees_with_matrices_of_log_probabilities(targets):
    text, semantic = draw(900, dim=64, dtype=torch.float32)
    z = text.double() @ semantic.double().T
    likeness = text.double() @ text.double().T
    if targets == "both":
        likeness = (likeness + semantic.double() @ semantic.double().T) / 2
    q = likeness.softmax(1)
    rows = -(q * z.log_softmax(1)).sum(1)
    columns = -(q.T * z.T.log_softmax(1)).sum(1)
    loss = soft_contrastive_loss(text, semantic, targets=targets)
    assert loss.item() == pytest.approx(((rows + columns) / 2).mean().item(), rel=1e-5)
    assert loss.item() == pytest.approx(math.log(900), abs=0.1)  # near uniform, as the paper has no temperature


def as_written(text, semantic, temperature, target_temperature, targets):
    """Eq. 4 to 6 in matrices, nothing rearranged."""
    z = text @ semantic.T / temperature
    likeness = (text @ text.T + semantic @ semantic.T) / 2 if targets == "both" else (text @ text.T).detach()
    q = (likeness / target_temperature).softmax(1)
    return -((q * z.log_softmax(1)).sum() + (q * z.log_softmax(0)).sum()) / (2 * len(text))


@pytest.mark.parametrize("targets", ["both", "text"])
@pytest.mark.parametrize(("temperature", "target_temperature"), [(1.0, 1.0), (0.07, 0.07), (0.5, 0.1)])
def test_value_and_gradients_are_those_of_the_formula_as_written(temperature, target_temperature, targets):
    inputs = [tensor.requires_grad_() for tensor in draw(200, dim=32)]
    losses = [loss(*inputs, temperature, target_temperature, targets) for loss in (as_written, soft_contrastive_loss)]
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-6, atol=0)
    for expected, found in zip(*(torch.autograd.grad(loss, inputs) for loss in losses), strict=True):
        assert (found - expected).norm() <= 1e-6 * expected.norm()


def test_columns_of_the_targets_are_not_normalised_again():
    text, semantic = draw(7, seed=3)
    text[1:4], semantic[1:4] = text[0], semantic[0]  # a common phrase: its columns of q sum to more than 1
    q = ((text @ text.T + semantic @ semantic.T) / 2 / 0.3).softmax(1)
    z = text @ semantic.T / 0.1
    other = -(q * z.log_softmax(1)).sum(1) - (q.T / q.T.sum(1, keepdim=True) * z.T.log_softmax(1)).sum(1)
    loss = soft_contrastive_loss(text, semantic, 0.1, 0.3)
    assert loss.item() == pytest.approx(by_loop(text, semantic, 0.1, 0.3), rel=1e-9)
    assert abs(loss.item() - (other / 2).mean().item()) > 0.01


@pytest.mark.parametrize("targets", ["both", "text"])
def test_gradcheck(targets):
    text, semantic = draw(5, dim=4)
    # the targets from text carry no gradient, so only the gradient to the semantic side is that of the value
    inputs = (text.requires_grad_(targets == "both"), semantic.requires_grad_())
    assert torch.autograd.gradcheck(lambda v, w: soft_contrastive_loss(v, w, 0.3, 0.2, targets), inputs)


def test_only_targets_of_both_modalities_carry_gradient():
    text, semantic = draw(6)

    def gradients(targets, q=None):
        v, w = text.clone().requires_grad_(), semantic.clone().requires_grad_()
        if q is None:
            loss = soft_contrastive_loss(v, w, 0.2, 0.2, targets)
        else:
            z = v @ w.T / 0.2
            loss = (-(q * z.log_softmax(1)).sum() - (q * z.log_softmax(0)).sum()) / 12
        return torch.autograd.grad(loss, (v, w))

    constant = {
        "text": (text @ text.T / 0.2).softmax(1),
        "both": ((text @ text.T + semantic @ semantic.T) / 2 / 0.2).softmax(1),
    }
    torch.testing.assert_close(gradients("text"), gradients("text", constant["text"]))
    for flowing, detached in zip(gradients("both"), gradients("both", constant["both"]), strict=True):
        assert (flowing - detached).abs().max() > 1e-3


def test_no_pairs_give_a_zero_on_the_graph():
    embeddings = torch.randn(3, 4, requires_grad=True)
    loss = soft_contrastive_loss(torch.empty(0, 4), embeddings[:0])
    assert loss.item() == 0
    loss.backward()
    assert torch.equal(embeddings.grad, torch.zeros(3, 4))


def test_bfloat16_is_computed_in_float32_under_autocast():
    text, semantic = (tensor.bfloat16() for tensor in draw(40, dim=32))
    exact = soft_contrastive_loss(text.float(), semantic.float(), 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        for pair in ((text, semantic), (text.float(), semantic.float())):
            loss = soft_contrastive_loss(*pair, 0.1)
            assert loss.dtype == torch.float32
            assert torch.equal(loss, exact)


def test_matched_pairs_cost_less_than_mismatched_ones():
    text, _ = draw(8, dim=16)
    assert soft_contrastive_loss(text, text, 0.1, 0.1) < soft_contrastive_loss(text, text.roll(1, 0), 0.1, 0.1) - 1


def test_unknown_targets_are_refused():
    with pytest.raises(ValueError, match="'both' or 'text', got 'image'"):
        soft_contrastive_loss(*draw(2), targets="image")
