"""Groups of phrases: what each query answers for, where that is not left to training.

DETR learns what its queries look for. On a few thousand studies that takes longer than fitting the images does: a query
that says "clear lungs" of one image and "cardiomegaly" of the next has no use for one selection probability, and what
the matching hands it changes from step to step. With groups every finding has a query of its own, and the other phrases
(normal states, absences, findings that are no observation of CheXpert) share the rest by clusters of their embeddings.
A phrase is matched to the query of its group or to none; the centre of the group is the anchor from which the query's
semantic embedding starts, as Anchor DETR's start from points of the image.

References:
    Anchor DETR, Wang et al., AAAI 2022, https://arxiv.org/abs/2109.07107.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.cluster import KMeans

from rarrg.errors import RarrgError
from rarrg.extract.claims import read_claims


@dataclass(frozen=True)
class PhraseGroups:
    """A group for each query.

    Attributes:
        anchors: Centre of each group, unit length, float32 ``[queries, dim]``.
        finding: The finding that each group stands for, int64 ``[queries]``; -1 where it is none.
        of_phrase: Group of each phrase, int64 ``[phrases]``.
    """

    anchors: np.ndarray
    finding: np.ndarray
    of_phrase: np.ndarray

    @property
    def findings(self) -> np.ndarray:
        """Groups that stand for a finding, bool ``[queries]``."""
        stands: np.ndarray = self.finding >= 0
        return stands


def group_phrases(
    phrases: Sequence[str],
    counts: Sequence[int],
    embeddings: np.ndarray,
    findings: np.ndarray,
    queries: int,
    seed: int,
) -> PhraseGroups:
    """Divide phrases into as many groups as there are queries.

    Every finding that a training phrase affirms is a group; a phrase that affirms several belongs to the rarest. The
    others are clustered by k-means, negated phrases ("no ...") apart from the rest, because sentence encoders put "no
    pleural effusion" beside "pleural effusion" (cosine 0.89 with all-MiniLM-L6-v2). Both parts get queries by their
    weight; a phrase weighs the square root of its count.

    Args:
        phrases: Different phrases.
        counts: Number of training studies with each; 0 for a phrase that training does not have, which shapes no group.
        embeddings: Their unit embeddings, float32 ``[phrases, dim]``.
        findings: What each affirms, bool ``[phrases, findings]``.
        queries: Number of groups.
        seed: Seed of k-means.

    Raises:
        RarrgError: There are fewer queries than findings and two for the rest.
    """
    weights = np.sqrt(np.asarray(counts, dtype=np.float64))
    support = findings.T.astype(np.float64) @ np.asarray(counts, dtype=np.float64)
    present = np.flatnonzero(support)
    if queries < len(present) + 2:
        raise RarrgError(
            f"retriever.queries: must be at least {len(present) + 2} with retriever.anchors, one for each finding of "
            f"the training phrases and two for the others, got {queries}"
        )
    rarest = np.where(findings[:, present], -support[present], -np.inf)
    affirms = findings[:, present].any(axis=1)
    groups = np.where(affirms, rarest.argmax(axis=1), -1) if len(present) else np.full(len(phrases), -1)
    anchors = []
    for group, finding in enumerate(present):
        own = (groups == group) & (weights > 0)
        # Where all its phrases went to rarer findings, they still say where it lies.
        own = own if own.any() else findings[:, finding]
        anchors.append(weights[own] @ embeddings[own])

    left = queries - len(present)
    negated = np.array([phrase.startswith("no ") for phrase in phrases])
    parts = [(groups < 0) & negated, (groups < 0) & ~negated]
    share = weights[parts[0]].sum() / max(weights[groups < 0].sum(), 1e-12)
    of_negated = int(np.clip(round(left * share), 1, left - 1))
    for part, number in zip(parts, (of_negated, left - of_negated), strict=True):
        known = part & (weights > 0)
        first = len(anchors)
        anchors += _centres(embeddings[known], weights[known], number, seed)
        centres = _unit(np.stack(anchors[first:]))
        groups[part] = first + (embeddings[part] @ centres.T).argmax(axis=1)
    stands_for = np.concatenate([present, np.full(left, -1)])
    return PhraseGroups(_unit(np.stack(anchors)).astype(np.float32), stands_for, groups.astype(np.int64))


def telling_groups(groups: PhraseGroups, phrases: Sequence[str], counts: Sequence[int]) -> dict[str, int]:
    """The groups that tell what an image shows beside its findings: "degenerative changes", not "clear lungs".

    What is denied or called normal is said or left unsaid by habit, and stands on no image.

    Args:
        groups: The groups.
        phrases: The phrases they were made of.
        counts: Number of training studies with each.

    Returns:
        The number of its group, from 0 without gaps, for each phrase of a group that is no finding's and whose
        phrases, by count, mostly affirm something.
    """
    told = np.array([any(not claim.general for claim in read_claims(phrase)) for phrase in phrases])
    weights = np.where(told, 1, -1) * np.asarray(counts)
    balance = np.bincount(groups.of_phrase, weights, minlength=len(groups.findings))
    kept = np.flatnonzero((balance > 0) & ~groups.findings)
    numbers = {group: number for number, group in enumerate(kept)}
    return {phrase: numbers[group] for phrase, group in zip(phrases, groups.of_phrase, strict=True) if group in numbers}


def _centres(embeddings: np.ndarray, weights: np.ndarray, number: int, seed: int) -> list[np.ndarray]:
    """Centres of ``number`` clusters; with fewer embeddings than that some come twice, with none they point nowhere."""
    if not len(embeddings):
        return [np.eye(1, embeddings.shape[1])[0]] * number
    clusters = min(number, len(embeddings))
    fitted = KMeans(clusters, n_init=2, random_state=seed).fit(embeddings, sample_weight=weights)
    return [fitted.cluster_centers_[index % clusters] for index in range(number)]


def _unit(vectors: np.ndarray) -> np.ndarray:
    unit: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit
