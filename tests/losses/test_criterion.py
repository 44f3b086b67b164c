"""The objective against loops over Eq. 3 and 7, and the properties any batch must have."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from rarrg.config import LossConfig
from rarrg.errors import RarrgError
from rarrg.losses.contrastive import soft_contrastive_loss
from rarrg.losses.criterion import Criterion
from rarrg.losses.selection import distribution_balanced_loss

TERMS = ["selection", "similarity", "contrastive"]


def draw(seed: int = 0, counts=(4, 2, 0), queries: int = 6, phrases: int = 4, dim: int = 8):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(len(counts), queries, generator=generator)
    embeddings = F.normalize(torch.randn(len(counts), queries, dim, generator=generator), dim=-1)
    texts = F.normalize(torch.randn(len(counts), phrases, dim, generator=generator), dim=-1)
    return logits, embeddings, texts, torch.tensor(counts)


def by_equations(logits, embeddings, texts, matches):
    """Sums of Eq. 3 over queries and images, and the pairs of Eq. 7, by plain loops."""
    partner = {(b, q): p for b, q, p in zip(*(index.tolist() for index in matches), strict=True)}
    selection = similarity = 0.0
    pairs = []
    for image in range(logits.shape[0]):
        for query in range(logits.shape[1]):
            phrase = partner.get((image, query))
            label = torch.tensor(phrase is not None)
            selection += distribution_balanced_loss(logits[image, query], label, 1.5, logits.shape[1]).item()
            if phrase is not None:
                similarity += 1 - F.cosine_similarity(texts[image, phrase], embeddings[image, query], dim=0).item()
                pairs.append((texts[image, phrase], embeddings[image, query]))
    return selection, similarity, soft_contrastive_loss(*map(torch.stack, zip(*pairs, strict=True))).item()


@pytest.mark.parametrize(("reduction", "sizes"), [("sum", (1, 1)), ("batch_mean", (3, 3)), ("mean", (18, 6))])
def test_terms_are_those_of_the_equations(reduction, sizes):
    inputs = draw()
    terms, matches = Criterion(LossConfig(reduction=reduction), 6, 1.5)(*inputs)
    selection, similarity, contrastive = by_equations(*inputs[:3], matches)
    assert list(terms) == TERMS
    assert all(term.shape == () and term.dtype == torch.float32 for term in terms.values())
    expected = [selection / sizes[0], similarity / sizes[1], contrastive]
    assert [terms[name].item() for name in TERMS] == pytest.approx(expected, rel=1e-5)


def test_weights_are_applied_in_the_total_alone():
    inputs = draw()
    plain, _ = Criterion(LossConfig(), 6, 1.5)(*inputs)
    weighted = Criterion(LossConfig(selection=2.0, similarity=0.0, contrastive=10.0), 6, 1.5)
    terms, _ = weighted(*inputs)
    assert all(torch.equal(terms[name], plain[name]) for name in TERMS)
    assert weighted.total(terms).item() == pytest.approx((2 * plain["selection"] + 10 * plain["contrastive"]).item())


def test_the_paper_weighs_1_1_and_a_tenth():
    terms = {"selection": torch.tensor(1.0), "similarity": torch.tensor(10.0), "contrastive": torch.tensor(100.0)}
    assert Criterion(LossConfig(), 50, 7.16).total(terms).item() == pytest.approx(21.0)


def test_options_reach_the_matching_and_the_contrastive_term():
    inputs = draw(3)
    base, _ = Criterion(LossConfig(), 6, 1.5)(*inputs)
    for option in ({"temperature": 0.1}, {"target_temperature": 0.1}, {"targets": "text"}):
        terms, _ = Criterion(LossConfig(**option), 6, 1.5)(*inputs)
        assert terms["contrastive"] != base["contrastive"]
        assert terms["similarity"] == base["similarity"]
    _, matches = Criterion(LossConfig(match_probability=1000.0), 6, 1.5)(*inputs)
    top = inputs[0][0].topk(4).indices.sort().values
    assert matches.query[matches.image == 0].tolist() == top.tolist()


def test_the_mean_number_of_phrases_is_the_argument_not_the_config():
    few, _ = Criterion(LossConfig(positives=None), 6, 0.1)(*draw())
    many, _ = Criterion(LossConfig(positives=3.0), 6, 5.0)(*draw())
    assert few["selection"] != many["selection"]


def test_no_parameters():
    assert not Criterion(LossConfig(), 50, 7.16).state_dict()


@given(seed=st.integers(0, 10**6), reduction=st.sampled_from(["mean", "batch_mean", "sum"]))
@settings(max_examples=25, deadline=None)
def test_the_order_of_queries_phrases_and_images_changes_nothing(seed, reduction):
    logits, embeddings, texts, counts = draw(seed)
    criterion = Criterion(LossConfig(reduction=reduction), 6, 1.5)
    terms, _ = criterion(logits, embeddings, texts, counts)
    generator = torch.Generator().manual_seed(seed)
    queries = torch.randperm(6, generator=generator)
    texts = torch.stack(
        [
            t[torch.cat([torch.randperm(n, generator=generator), torch.arange(n, 4)])]
            for t, n in zip(texts, counts, strict=True)
        ]
    )
    images = torch.randperm(3, generator=generator)
    shuffled, _ = criterion(logits[:, queries][images], embeddings[:, queries][images], texts[images], counts[images])
    for name in TERMS:
        torch.testing.assert_close(shuffled[name], terms[name], rtol=1e-5, atol=1e-6)


def gradients(criterion, logits, embeddings, texts, counts):
    raw = embeddings.clone().requires_grad_()
    logits = logits.clone().requires_grad_()
    terms, matches = criterion(logits, F.normalize(raw, dim=-1), texts, counts)
    criterion.total(terms).backward()
    return logits.grad, raw.grad, terms, matches


def test_gradients_are_finite_and_reach_every_logit_and_every_matched_embedding():
    inputs = draw(counts=(60, 1, 0, 12), queries=50, phrases=60)
    to_logits, to_embeddings, _, matches = gradients(Criterion(LossConfig(), 50, 7.16), *inputs)
    assert to_logits.isfinite().all()
    assert to_embeddings.isfinite().all()
    assert (to_logits != 0).all()
    reached = to_embeddings.abs().sum(-1) > 0
    expected = torch.zeros(4, 50, dtype=torch.bool)
    expected[matches.image, matches.query] = True
    assert torch.equal(reached, expected)
    assert expected.sum(1).tolist() == [50, 1, 0, 12]


@pytest.mark.parametrize("reduction", ["mean", "batch_mean", "sum"])
@pytest.mark.parametrize("width", [0, 4])
def test_a_batch_without_any_phrase_still_trains_the_selection(width, reduction):
    inputs = draw(counts=(0, 0), phrases=width)
    to_logits, to_embeddings, terms, matches = gradients(Criterion(LossConfig(reduction=reduction), 6, 1.5), *inputs)
    assert len(matches.image) == 0
    assert terms["similarity"] == terms["contrastive"] == 0
    assert (to_logits > 0).all()  # every probability is pushed down
    assert torch.equal(to_embeddings, torch.zeros_like(to_embeddings))


def test_bfloat16_gives_float32_terms_close_to_exact_ones_and_bfloat16_gradients():
    logits, embeddings, texts, counts = draw(counts=(12, 0, 7), queries=50, phrases=12, dim=32)
    criterion = Criterion(LossConfig(temperature=0.1), 50, 7.16)
    exact, _ = criterion(logits, embeddings, texts, counts)
    with torch.autocast("cpu", torch.bfloat16):
        low = (logits.bfloat16().requires_grad_(), embeddings.bfloat16().requires_grad_())
        terms, _ = criterion(*low, texts, counts)
        criterion.total(terms).backward()
    for name in TERMS:
        assert terms[name].dtype == torch.float32
        torch.testing.assert_close(terms[name], exact[name], rtol=0.02, atol=0.01)
    assert all(tensor.grad.dtype == torch.bfloat16 and tensor.grad.isfinite().all() for tensor in low)


def test_descending_the_objective_fits_a_batch():
    logits, embeddings, texts, counts = draw(5, counts=(3, 1, 0), queries=6, dim=8)
    logits, raw = logits.requires_grad_(), embeddings.requires_grad_()
    criterion = Criterion(LossConfig(), 6, 1.5)
    optimiser = torch.optim.Adam([logits, raw], lr=0.1)
    history = []
    for _ in range(100):
        terms, _ = criterion(logits, F.normalize(raw, dim=-1), texts, counts)
        history.append(criterion.total(terms).item())
        optimiser.zero_grad()
        criterion.total(terms).backward()
        optimiser.step()
    assert all(later < earlier for earlier, later in pairwise(history[::25]))
    assert terms["similarity"] < 0.01
    assert (logits.sigmoid() > 0.4).sum(1).tolist() == counts.tolist()


def test_mistakes_are_refused():
    with pytest.raises(RarrgError, match=r"below retriever.queries \(6\), got 7.16"):
        Criterion(LossConfig(), 6, 7.16)
    with pytest.raises(ValueError, match="expected logits of 50 queries, got 6"):
        Criterion(LossConfig(), 50, 7.16)(*draw())


FINDINGS = torch.tensor([True, False, False, True, False, False])


@pytest.mark.parametrize(("reduction", "size"), [("sum", 1), ("batch_mean", 3), ("mean", 18)])
def test_queries_without_a_finding_weigh_less_in_the_selection_alone(reduction, size):
    inputs = draw()
    criterion = Criterion(LossConfig(reduction=reduction, background=0.25), 6, 1.5, FINDINGS)
    # Two of 1 and four of 0.25 have mean 0.5.
    assert criterion.query_weights.tolist() == pytest.approx([2, 0.5, 0.5, 2, 0.5, 0.5])
    terms, matches = criterion(*inputs)
    plain, unweighted = Criterion(LossConfig(reduction=reduction), 6, 1.5)(*inputs)
    assert all(torch.equal(a, b) for a, b in zip(matches, unweighted, strict=True))
    assert terms["similarity"] == plain["similarity"]
    assert terms["contrastive"] == plain["contrastive"]
    labels = torch.zeros(3, 6)
    labels[matches.image, matches.query] = 1
    expected = 0.0
    for image in range(3):
        for query, weight in enumerate([2, 0.5, 0.5, 2, 0.5, 0.5]):
            one = distribution_balanced_loss(inputs[0][image, query], labels[image, query], 1.5, 6)
            expected += weight * one.item() / size
    assert terms["selection"].item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("background", [0.0, 0.25, 1.0, 4.0])
@pytest.mark.parametrize("stand", [[], [2], [0, 3, 5], [0, 1, 2, 3, 4, 5]])
def test_query_weights_have_mean_one(background, stand):
    findings = torch.zeros(6, dtype=torch.bool)
    findings[stand] = True
    weights = Criterion(LossConfig(background=background), 6, 1.5, findings).query_weights
    assert weights.dtype == torch.float32
    assert weights.mean().item() == pytest.approx(1)
    if 0 < len(stand) < 6:
        assert (weights[~findings] / weights[findings][0]).tolist() == pytest.approx([background] * (6 - len(stand)))


@pytest.mark.parametrize(("background", "findings"), [(0.25, None), (1.0, FINDINGS)])
def test_queries_weigh_alike_without_findings_or_with_background_1(background, findings):
    inputs = draw()
    criterion = Criterion(LossConfig(background=background), 6, 1.5, findings)
    assert criterion.query_weights.tolist() == [1] * 6
    assert not criterion.state_dict()
    plain, _ = Criterion(LossConfig(), 6, 1.5)(*inputs)
    terms, _ = criterion(*inputs)
    assert all(torch.equal(terms[name], plain[name]) for name in TERMS)


def test_groups_reach_the_matching():
    logits, embeddings, texts, counts = draw()
    groups = torch.tensor([[5, 4, 5, 0], [1, 1, 0, 0], [0, 0, 0, 0]])
    terms, matches = Criterion(LossConfig(reduction="sum"), 6, 1.5)(logits, embeddings, texts, counts, groups)
    assert list(zip(matches.image.tolist(), matches.query.tolist(), strict=True)) == [(0, 0), (0, 4), (0, 5), (1, 1)]
    selection, similarity, contrastive = by_equations(logits, embeddings, texts, matches)
    assert [terms[name].item() for name in TERMS] == pytest.approx([selection, similarity, contrastive], rel=1e-5)
