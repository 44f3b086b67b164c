"""Matching against brute force, the printed N x N formulation, and the sizes that images come in."""

from __future__ import annotations

from itertools import chain, combinations, permutations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from rarrg.errors import RarrgError
from rarrg.losses.matching import Matches, match, matching_cost

MU = 0.5


def draw(seed: int, batch: int = 3, queries: int = 6, phrases: int = 4, dim: int = 8):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(batch, queries, generator=generator)
    embeddings = F.normalize(torch.randn(batch, queries, dim, generator=generator), dim=-1)
    texts = F.normalize(torch.randn(batch, phrases, dim, generator=generator), dim=-1)
    return logits, embeddings, texts


def triples(matches: Matches) -> set[tuple[int, int, int]]:
    return set(zip(*(index.tolist() for index in matches), strict=True))


def cost_of(logits, embeddings, texts, image: int, query: int, phrase: int) -> float:
    """Eq. 2 for one real phrase, written out."""
    probability = 1 / (1 + np.exp(-float(logits[image, query])))
    return -MU * probability - float((embeddings[image, query] * texts[image, phrase]).sum())


def test_the_cost_is_equation_2_in_each_image():
    logits, embeddings, texts = draw(0)
    cost = matching_cost(logits, embeddings, texts, MU)
    assert cost.shape == (3, 6, 4)  # an image's queries by its own phrases, not by all phrases of the batch
    for image, query, phrase in np.ndindex(3, 6, 4):
        assert cost[image, query, phrase] == pytest.approx(
            cost_of(logits, embeddings, texts, image, query, phrase), abs=1e-6
        )


@given(
    seed=st.integers(0, 10**6), queries=st.integers(1, 5), counts=st.lists(st.integers(0, 5), min_size=1, max_size=3)
)
@settings(max_examples=40, deadline=None)
def test_the_match_is_the_best_of_all_permutations(seed, queries, counts):
    logits, embeddings, texts = draw(seed, len(counts), queries, 5)
    matches = match(logits, embeddings, texts, torch.tensor(counts), MU)
    for image, count in enumerate(counts):
        pairs = [(query, phrase) for b, query, phrase in triples(matches) if b == image]
        size = min(queries, count)
        assert len(pairs) == size
        found = sum(cost_of(logits, embeddings, texts, image, query, phrase) for query, phrase in pairs)
        best = min(
            sum(cost_of(logits, embeddings, texts, image, q, p) for q, p in zip(chosen, phrases, strict=True))
            for chosen in permutations(range(queries), size)
            for phrases in ([tuple(range(count))] if count <= queries else permutations(range(count), size))
        )
        assert found == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("count", [0, 1, 7, 50])
def test_the_rectangle_costs_as_much_as_the_padded_square_of_equation_1(count):
    logits, embeddings, texts = draw(count, batch=1, queries=50, phrases=50, dim=16)
    square = np.zeros((50, 50))  # empty phrases cost 0
    for query, phrase in np.ndindex(50, count):
        square[query, phrase] = cost_of(logits, embeddings, texts, 0, query, phrase)
    literal = square[linear_sum_assignment(square)].sum()
    matches = match(logits, embeddings, texts, torch.tensor([count]), MU)
    assert square[matches.query.numpy(), matches.phrase.numpy()].sum() == pytest.approx(literal, abs=1e-5)


def test_images_with_no_one_and_too_many_phrases_side_by_side():
    logits, embeddings, texts = draw(1, batch=4, queries=50, phrases=60)
    matches = match(logits, embeddings, texts, torch.tensor([0, 1, 60, 3]))
    assert torch.bincount(matches.image, minlength=4).tolist() == [0, 1, 50, 3]
    for image in range(4):
        mine = matches.image == image
        assert len(set(matches.query[mine].tolist())) == len(set(matches.phrase[mine].tolist())) == int(mine.sum())
    assert sorted(matches.query[matches.image == 2].tolist()) == list(range(50))


def test_pairs_are_int64_and_sorted_by_image_then_query():
    logits, embeddings, texts = draw(2, batch=5, queries=9, phrases=12)
    matches = match(logits, embeddings, texts, torch.tensor([3, 12, 0, 9, 1]))
    order = list(zip(matches.image.tolist(), matches.query.tolist(), strict=True))
    assert order == sorted(order)
    assert all(index.dtype == torch.int64 and index.device == logits.device for index in matches)


@pytest.mark.parametrize("width", [0, 3])
def test_a_batch_without_phrases_gives_empty_indices(width):
    logits, embeddings, texts = draw(3, phrases=width)
    matches = match(logits, embeddings, texts, torch.zeros(3, dtype=torch.long))
    assert [index.shape for index in matches] == [(0,)] * 3
    assert all(index.dtype == torch.int64 for index in matches)


def test_padding_is_not_looked_at():
    logits, embeddings, texts = draw(4)
    counts = torch.tensor([2, 0, 3])
    padded = texts.clone()
    for image, count in enumerate(counts):
        padded[image, count:] = float("nan")
    assert triples(match(logits, embeddings, padded, counts)) == triples(match(logits, embeddings, texts, counts))


def test_bfloat16_is_matched_in_float32_even_under_autocast():
    logits, embeddings, texts = (tensor.bfloat16() for tensor in draw(5, queries=50, phrases=20, dim=32))
    counts = torch.tensor([20, 5, 11])
    exact = match(logits.float(), embeddings.float(), texts.float(), counts)
    with torch.autocast("cpu", torch.bfloat16):
        cost = matching_cost(logits, embeddings, texts)
        assert cost.dtype == torch.float32
        assert torch.equal(cost, matching_cost(logits.float(), embeddings.float(), texts.float()))
        assert triples(match(logits, embeddings, texts, counts)) == triples(exact)
        assert triples(match(logits.float(), embeddings.float(), texts.float(), counts)) == triples(exact)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_the_order_of_queries_and_phrases_does_not_matter(seed):
    logits, embeddings, texts = draw(seed)
    counts = torch.tensor([4, 2, 0])
    generator = torch.Generator().manual_seed(seed)
    queries = torch.randperm(6, generator=generator)
    phrases = torch.stack([torch.cat([torch.randperm(n, generator=generator), torch.arange(n, 4)]) for n in counts])
    shuffled = match(
        logits[:, queries],
        embeddings[:, queries],
        torch.stack([t[p] for t, p in zip(texts, phrases, strict=True)]),
        counts,
    )
    undone = {(b, int(queries[q]), int(phrases[b, p])) for b, q, p in triples(shuffled)}
    assert undone == triples(match(logits, embeddings, texts, counts))


def test_the_weight_of_the_probability_decides_between_equal_cosines():
    embeddings = torch.tensor([[[1.0, 0.0], [0.8, 0.6]]])
    texts = torch.tensor([[[1.0, 0.0]]])
    logits = torch.tensor([[-3.0, 3.0]])  # cosine gap 0.2, probability gap 0.905
    assert match(logits, embeddings, texts, torch.tensor([1]), 0.0).query.tolist() == [0]
    assert match(logits, embeddings, texts, torch.tensor([1]), 0.5).query.tolist() == [1]


def test_no_gradient_is_recorded():
    logits, embeddings, texts = draw(6)
    assert not match(
        logits.requires_grad_(), embeddings.requires_grad_(), texts, torch.tensor([1, 1, 1])
    ).query.requires_grad


@pytest.mark.parametrize(
    ("place", "name"), [(0, "selection logits"), (1, "semantic embeddings"), (2, "phrase embeddings")]
)
def test_a_broken_input_is_named(place, name):
    inputs = draw(7)
    inputs[place][1, 0] = float("nan")
    with pytest.raises(RarrgError, match=rf"{name} of the batch hold NaN or infinity, first seen in image 1"):
        match(*inputs, torch.tensor([4, 4, 4]))


@pytest.mark.parametrize("value", [float("inf"), float("-inf")])
def test_an_infinite_embedding_is_refused(value):
    logits, embeddings, texts = draw(7)
    embeddings[2, 0, 0] = value
    with pytest.raises(
        RarrgError, match="semantic embeddings of the batch hold NaN or infinity, first seen in image 2"
    ):
        match(logits, embeddings, texts, torch.tensor([4, 4, 4]))


@pytest.mark.parametrize("counts", [[1, 5, 1], [1, -1, 1]])
def test_a_count_that_the_padding_cannot_hold_is_refused(counts):
    with pytest.raises(ValueError, match="between 0 and the 4"):
        match(*draw(8), torch.tensor(counts))


def test_a_phrase_is_matched_to_the_query_of_its_group_alone():
    # The other query is nearer to each, and by far more probable.
    embeddings = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]])
    texts = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    logits = torch.tensor([[-9.0, -9.0, 9.0]])
    groups = torch.tensor([[1, 0]])
    assert triples(match(logits, embeddings, texts, torch.tensor([2]), MU, groups)) == {(0, 1, 0), (0, 0, 1)}


def test_of_two_phrases_of_a_group_the_nearer_is_kept():
    # Given to query 1 the first phrase would cost far more than the second: that must not decide who has query 0.
    embeddings = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    texts = torch.tensor([[[0.8, 0.6], [0.6, -0.8]], [[0.8, -0.6], [0.6, 0.8]]])
    groups = torch.zeros(2, 2, dtype=torch.int64)
    matches = match(torch.zeros(2, 2), embeddings.expand(2, -1, -1), texts, torch.tensor([2, 2]), MU, groups)
    assert triples(matches) == {(0, 0, 0), (1, 0, 0)}


@given(
    seed=st.integers(0, 10**6),
    queries=st.integers(1, 5),
    counts=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    mu=st.sampled_from([0.0, MU, 1e3, 1e5]),
)
@settings(max_examples=60, deadline=None)
def test_with_groups_the_match_is_the_best_of_all_that_are_allowed(seed, queries, counts, mu):
    logits, embeddings, texts = draw(seed, len(counts), queries, 5)
    groups = torch.randint(queries, (len(counts), 5), generator=torch.Generator().manual_seed(seed))
    matches = match(logits, embeddings, texts, torch.tensor(counts), mu, groups)
    cost = matching_cost(logits, embeddings, texts, mu).double()
    for image, count in enumerate(counts):
        pairs = [(query, phrase) for b, query, phrase in triples(matches) if b == image]
        assert all(groups[image, phrase] == query for query, phrase in pairs)
        assert all(phrase < count for _, phrase in pairs)
        assert len({query for query, _ in pairs}) == len(pairs)
        # Every set of phrases that no two share a query: the largest first, then the cheapest.
        best = min(
            (-len(chosen), sum(float(cost[image, groups[image, p], p]) for p in chosen))
            for chosen in chain.from_iterable(combinations(range(count), size) for size in range(count + 1))
            if len({int(groups[image, p]) for p in chosen}) == len(chosen)
        )
        found = sum(float(cost[image, query, phrase]) for query, phrase in pairs)
        assert (-len(pairs), found) == pytest.approx(best, rel=1e-6, abs=1e-5)


def test_groups_of_the_padding_are_not_looked_at_and_may_be_empty():
    logits, embeddings, texts = draw(9)
    counts = torch.tensor([2, 0, 3])
    groups = torch.tensor([[3, 1, 0, 0], [0, 0, 0, 0], [5, 5, 2, 0]])
    matches = match(logits, embeddings, texts, counts, MU, groups)
    assert [(b, q) for b, q, _ in sorted(triples(matches))] == [(0, 1), (0, 3), (2, 2), (2, 5)]
    padded = groups.clone()
    padded[0, 2:], padded[1], padded[2, 3:] = 1, 4, 5
    assert triples(match(logits, embeddings, texts, counts, MU, padded)) == triples(matches)
    none = match(logits, embeddings, texts[:, :0], torch.zeros(3, dtype=torch.long), MU, groups[:, :0])
    assert [index.shape for index in none] == [(0,)] * 3


def test_each_phrase_of_its_own_free_choice_is_matched_as_without_groups():
    logits, embeddings, texts = draw(10)
    counts = torch.tensor([4, 1, 3])
    free = match(logits, embeddings, texts, counts, MU, None)
    assert triples(free) == triples(match(logits, embeddings, texts, counts, MU))
    groups = torch.zeros(3, 4, dtype=torch.int64)
    groups[free.image, free.phrase] = free.query
    assert triples(match(logits, embeddings, texts, counts, MU, groups)) == triples(free)


@pytest.mark.parametrize(
    ("place", "name"), [(0, "selection logits"), (1, "semantic embeddings"), (2, "phrase embeddings")]
)
def test_a_broken_input_is_named_where_groups_forbid_its_pairs(place, name):
    inputs = draw(7)
    inputs[place][1, 0] = float("nan")
    groups = torch.full((3, 4), 5)
    with pytest.raises(RarrgError, match=rf"{name} of the batch hold NaN or infinity, first seen in image 1"):
        match(*inputs, torch.tensor([4, 4, 4]), MU, groups)
