"""Groups of phrases by hand, and the properties any division must have."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarrg.errors import RarrgError
from rarrg.grouping import PhraseGroups, group_phrases, telling_groups


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def affirming(phrases: int, findings: int, true: list[tuple[int, int]]) -> np.ndarray:
    affirmed = np.zeros((phrases, findings), dtype=bool)
    for phrase, finding in true:
        affirmed[phrase, finding] = True
    return affirmed


def draw(seed: int, phrases: int = 12, findings: int = 3, dim: int = 6):
    """Phrases of all kinds, each finding of a phrase by chance, about a third of them not in training."""
    generator = np.random.default_rng(seed)
    texts = [f"{'no ' if generator.random() < 0.4 else ''}phrase {index}" for index in range(phrases)]
    counts = generator.integers(0, 6, phrases) * (generator.random(phrases) < 0.8)
    embeddings = unit(generator.normal(size=(phrases, dim))).astype(np.float32)
    return texts, counts.tolist(), embeddings, generator.random((phrases, findings)) < 0.2


def assert_sound(groups: PhraseGroups, phrases: int, queries: int) -> None:
    assert groups.anchors.dtype == np.float32
    assert len(groups.anchors) == len(groups.findings) == queries
    np.testing.assert_allclose(np.linalg.norm(groups.anchors, axis=1), 1, atol=1e-6)
    assert groups.findings.dtype == bool
    assert groups.of_phrase.dtype == np.int64
    assert groups.of_phrase.shape == (phrases,)
    assert ((groups.of_phrase >= 0) & (groups.of_phrase < queries)).all()


# Of three findings 0 and 2 are affirmed in training: 0 by 5 studies, 2 by 14.
HAND = (
    ["large heart", "mildly large heart", "large heart and effusion", "effusion", "no effusion", "clear lungs"],
    [9, 4, 1, 4, 1, 1],
    np.array([[1, 0, 0], [0.6, 0.8, 0], [0, 0, 1], [0, 0.6, 0.8], [0, 0, -1], [0, -1, 0]], dtype=np.float32),
    affirming(6, 3, [(0, 2), (1, 2), (2, 2), (2, 0), (3, 0)]),
)


def test_findings_of_training_have_groups_around_their_weighted_centres():
    groups = group_phrases(*HAND, queries=4, seed=0)
    assert_sound(groups, 6, 4)
    assert groups.findings.tolist() == [True, True, False, False]
    # "large heart and effusion" goes to the rarer, effusion.
    assert groups.of_phrase[:4].tolist() == [1, 1, 0, 0]
    expected = [
        1 * np.array([0, 0, 1]) + 2 * np.array([0, 0.6, 0.8]),
        3 * np.array([1, 0, 0]) + 2 * np.array([0.6, 0.8, 0]),
        np.array([0, 0, -1]),
        np.array([0, -1, 0]),
    ]
    np.testing.assert_allclose(groups.anchors, unit(np.array(expected)), atol=1e-6)
    assert groups.of_phrase[4:].tolist() == [2, 3]


def test_groups_tell_what_is_affirmed_beside_findings():
    phrases = ["large heart", "old granuloma", "calcified granuloma", "clear lungs", "no effusion", "tortuous aorta"]
    kinds = PhraseGroups(np.eye(5), np.array([0, -1, -1, -1, -1]), np.array([0, 1, 1, 2, 3, 4]))
    assert telling_groups(kinds, phrases, [9, 1, 1, 5, 9, 3]) == {
        "old granuloma": 0,
        "calcified granuloma": 0,
        "tortuous aorta": 1,
    }
    # what a group says most often decides
    mixed = PhraseGroups(np.eye(2), np.array([-1, -1]), np.array([0, 0, 0, 0, 0, 1]))
    assert telling_groups(mixed, phrases, [1, 0, 0, 2, 0, 0]) == {}
    assert set(telling_groups(mixed, phrases, [3, 0, 0, 2, 0, 0]).values()) == {0}


def test_rarity_is_counted_in_studies_not_in_phrases():
    phrases = ["both", "a", "b", "b too", "b also"]
    affirmed = affirming(5, 2, [(0, 0), (0, 1), (1, 0), (2, 1), (3, 1), (4, 1)])
    embeddings = np.eye(5, dtype=np.float32)
    assert group_phrases(phrases, [1, 9, 1, 1, 1], embeddings, affirmed, 4, 0).of_phrase[0] == 1
    assert group_phrases(phrases, [1, 1, 1, 1, 1], embeddings, affirmed, 4, 0).of_phrase[0] == 0


@pytest.mark.parametrize("phrases", [["a and b"], ["a and b", "b and c", "a and c"]])
def test_a_finding_whose_phrases_all_belong_to_rarer_ones_has_an_anchor(phrases):
    letters = [[letter in phrase.split() for letter in "abc"] for phrase in phrases]
    counts = [3, 2, 1][: len(phrases)]
    embeddings = np.eye(len(phrases), 4, dtype=np.float32)
    assert_sound(group_phrases(phrases, counts, embeddings, np.array(letters), 6, 0), len(phrases), 6)


def test_phrases_of_validation_alone_shape_nothing_but_belong_to_their_kind():
    phrases, counts, embeddings, affirmed = HAND
    new = ["huge heart", "no heart failure", "normal", "pneumothorax", "no pneumothorax, large heart"]
    extended = group_phrases(
        [*phrases, *new],
        [*counts, *[0] * 5],
        np.concatenate([embeddings, np.eye(5, 3, dtype=np.float32) + 0.01]),
        np.concatenate([affirmed, affirming(5, 3, [(0, 2), (3, 1), (4, 2)])]),
        queries=4,
        seed=0,
    )
    before = group_phrases(*HAND, queries=4, seed=0)
    np.testing.assert_array_equal(extended.anchors, before.anchors)
    np.testing.assert_array_equal(extended.findings, before.findings)
    np.testing.assert_array_equal(extended.of_phrase[:6], before.of_phrase)
    # Training knows no pneumothorax, so that phrase is one of the others.
    assert extended.of_phrase[6:].tolist() == [1, 2, 3, 3, 1]


def test_a_cluster_is_weighed_by_the_root_of_the_counts():
    groups = group_phrases(
        ["no a", "no b", "clear"], [9, 4, 1], np.eye(3, dtype=np.float32), np.zeros((3, 13), dtype=bool), 2, 0
    )
    np.testing.assert_allclose(groups.anchors, [unit(np.array([3, 2, 0])), [0, 0, 1]], atol=1e-6)
    assert groups.of_phrase.tolist() == [0, 0, 1]
    assert not groups.findings.any()


def test_kinds_have_queries_by_their_weight():
    # Roots of the counts: 6 of absences, 2 of others, for 8 queries; each of the 8 phrases has one of its own.
    phrases = [*(f"no {letter}" for letter in "abcdef"), "clear"]
    counts = [1] * 6 + [4]
    embeddings = np.eye(7, dtype=np.float32)
    groups = group_phrases(phrases, counts, embeddings, np.zeros((7, 2), dtype=bool), 8, 0)
    assert sorted(groups.of_phrase[:6].tolist()) == [0, 1, 2, 3, 4, 5]
    assert groups.of_phrase[6] in (6, 7)
    np.testing.assert_allclose(groups.anchors[groups.of_phrase], embeddings, atol=1e-6)


def test_an_absence_beside_its_finding_stays_apart():
    embeddings = unit(np.array([[1, 0, 0], [1, 0.01, 0], [1, 0, 0.01], [0, 1, 0]])).astype(np.float32)
    phrases = ["effusion", "no effusion", "fluid", "no fluid"]
    groups = group_phrases(phrases, [1] * 4, embeddings, affirming(4, 1, [(0, 0)]), 3, 0)
    assert groups.of_phrase.tolist() == [0, 1, 2, 1]


@pytest.mark.parametrize("queries", [12, 30])
def test_fewer_phrases_than_queries(queries):
    groups = group_phrases(*HAND, queries=queries, seed=0)
    assert_sound(groups, 6, queries)
    assert groups.findings.sum() == 2
    np.testing.assert_allclose(groups.anchors[groups.of_phrase[4:]], HAND[2][4:], atol=1e-6)


KINDS = {"affirmed": [0, 1, 2, 3], "negated": [4], "other": [5]}


@pytest.mark.parametrize("missing", [["affirmed"], ["negated"], ["other"], ["negated", "other"], ["affirmed", "other"]])
def test_kinds_may_be_missing(missing):
    kept = sorted(row for kind, rows in KINDS.items() if kind not in missing for row in rows)
    phrases, counts, embeddings, affirmed = HAND
    groups = group_phrases(
        [phrases[row] for row in kept], [counts[row] for row in kept], embeddings[kept], affirmed[kept], 6, 0
    )
    assert_sound(groups, len(kept), 6)
    assert groups.findings.sum() == (0 if "affirmed" in missing else 2)
    kinds = [
        {int(group) for row, group in zip(kept, groups.of_phrase, strict=True) if row in rows}
        for rows in KINDS.values()
    ]
    assert len(set.union(*kinds)) == sum(map(len, kinds))


def test_a_kind_that_only_validation_has():
    phrases, counts, embeddings, affirmed = HAND
    groups = group_phrases(phrases, [*counts[:4], 0, 1], embeddings, affirmed, 6, 0)
    assert_sound(groups, 6, 6)
    assert groups.of_phrase[4] != groups.of_phrase[5]
    assert not groups.findings[groups.of_phrase[4:]].any()


@given(seed=st.integers(0, 10**6), spare=st.integers(0, 8))
@settings(max_examples=40, deadline=None)
def test_every_phrase_belongs_to_its_kind(seed, spare):
    texts, counts, embeddings, affirmed = draw(seed)
    support = [sum(c for c, row in zip(counts, affirmed, strict=True) if row[f]) for f in range(3)]
    present = [finding for finding in range(3) if support[finding]]
    queries = len(present) + 2 + spare
    groups = group_phrases(texts, counts, embeddings, affirmed, queries, seed)
    assert_sound(groups, 12, queries)
    assert groups.findings.tolist() == [True] * len(present) + [False] * (queries - len(present))
    absences, others = set(), set()
    for text, row, group in zip(texts, affirmed, groups.of_phrase.tolist(), strict=True):
        mine = [finding for finding in present if row[finding]]
        if mine:
            assert present[group] in mine
            assert support[present[group]] == min(support[finding] for finding in mine)
        else:
            assert not groups.findings[group]
            (absences if text.startswith("no ") else others).add(group)
    assert not absences & others


def test_the_seed_decides():
    texts, counts, embeddings, affirmed = draw(3, phrases=200, findings=2, dim=8)
    first, second = (group_phrases(texts, counts, embeddings, affirmed, 20, seed=5) for _ in range(2))
    np.testing.assert_array_equal(first.anchors, second.anchors)
    np.testing.assert_array_equal(first.of_phrase, second.of_phrase)
    other = group_phrases(texts, counts, embeddings, affirmed, 20, seed=6)
    assert not np.array_equal(first.of_phrase, other.of_phrase)
    np.testing.assert_array_equal(first.anchors[first.findings], other.anchors[other.findings])


def test_the_other_phrases_go_to_the_nearest_anchor_of_their_kind():
    texts, counts, embeddings, affirmed = draw(4, phrases=200, findings=2, dim=8)
    groups = group_phrases(texts, counts, embeddings, affirmed, 20, seed=0)
    cosines = embeddings @ groups.anchors.T
    kind = np.array([text.startswith("no ") for text in texts])
    rest = ~groups.findings[groups.of_phrase]
    for negated in (True, False):
        mine = rest & (kind == negated)
        own = np.unique(groups.of_phrase[mine])
        assert len(own) > 1
        np.testing.assert_allclose(cosines[mine, groups.of_phrase[mine]], cosines[mine][:, own].max(axis=1), atol=1e-6)


def test_too_few_queries_are_refused():
    message = "retriever.queries: must be at least 4 with retriever.anchors"
    with pytest.raises(RarrgError, match=rf"^{re.escape(message)}[^\n]*, got 3$"):
        group_phrases(*HAND, queries=3, seed=0)
    nothing = np.zeros((6, 3), dtype=bool)
    with pytest.raises(RarrgError, match=r"at least 2 with retriever\.anchors"):
        group_phrases(*HAND[:3], nothing, queries=1, seed=0)
    assert_sound(group_phrases(*HAND[:3], nothing, queries=2, seed=0), 6, 2)
