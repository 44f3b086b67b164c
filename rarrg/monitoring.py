"""What a validation says beyond its losses: pure figures of selection, retrieval, variety and the use of queries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.ndimage import uniform_filter1d
from torch import Tensor
from tqdm.auto import tqdm

from rarrg.grouping import PhraseGroups
from rarrg.metrics.classification import confusion, macro_f1, micro_f1
from rarrg.metrics.findings import positive_findings
from rarrg.metrics.phrases import distinct, phrase_hits, precision, recall
from rarrg.models.retriever import select_queries, shared_logits

THRESHOLDS = tuple(round(0.05 * step, 2) for step in range(1, 20))
"""Selection thresholds of the sweep."""

CANDIDATES = tuple(round(0.005 * step, 3) for step in range(10, 191))
"""Selection thresholds that validation chooses from."""

SMOOTHED = 25
"""Candidates over which scores are averaged before the best is taken: 0.06 to both sides."""

LABELLED_AT_ONCE = 1000


@dataclass(frozen=True)
class PhraseTable:
    """Every phrase of training and validation; the other figures name phrases by their row here.

    Attributes:
        texts: The phrases.
        embeddings: Clean unit embeddings, float32 ``[phrases, dim]``.
        findings: What each phrase affirms, bool ``[phrases, findings]``.
    """

    texts: Sequence[str]
    embeddings: np.ndarray
    findings: np.ndarray

    @classmethod
    def of(cls, texts: Sequence[str], embeddings: np.ndarray) -> PhraseTable:
        """Label the findings of each phrase, which takes about a minute for the phrases of MIMIC-CXR."""
        starts = range(0, len(texts), LABELLED_AT_ONCE)
        bar = tqdm(starts, desc="labelling phrases", unit_scale=LABELLED_AT_ONCE, unit="phrase", delay=2)
        labels = [positive_findings(texts[start : start + LABELLED_AT_ONCE]) for start in bar]
        return cls(texts, embeddings, np.concatenate(labels))

    def findings_of(self, phrases: Sequence[np.ndarray]) -> np.ndarray:
        """Findings that any phrase of an image affirms: rows of each image to bool ``[images, findings]``."""
        return np.stack([self.findings[rows].any(axis=0) for rows in phrases])


@dataclass(frozen=True)
class Validation:
    """What the queries did with some validation images.

    Attributes:
        logits: Selection logits, float32 ``[images, queries]``.
        cosines: Cosine of a query's semantic embedding and the phrase that was matched to it, NaN where none was,
            float32 ``[images, queries]``.
        retrieved: The stored phrase nearest to each query, as a row of the phrase table; -1 where it was not looked up,
            int64 ``[images, queries]``.
        similarities: Its cosine, float32 ``[images, queries]``.
        references: Rows of each image's own phrases, int64 ``[phrases]`` each.
    """

    logits: Tensor
    cosines: np.ndarray
    retrieved: np.ndarray
    similarities: np.ndarray
    references: Sequence[np.ndarray]

    @classmethod
    def join(cls, parts: Sequence[Validation]) -> Validation:
        """All images of several batches, in their order."""
        return cls(
            torch.cat([part.logits for part in parts]),
            np.concatenate([part.cosines for part in parts]),
            np.concatenate([part.retrieved for part in parts]),
            np.concatenate([part.similarities for part in parts]),
            [rows for part in parts for rows in part.references],
        )

    @classmethod
    def dealt(cls, parts: Sequence[Validation]) -> Validation:
        """A batch whose images were dealt to processes in turn, in its order again.

        Args:
            parts: What each process has of it, in the order of their ranks.
        """
        joined = cls.join(parts)
        turns = np.concatenate([np.arange(len(part.references)) * len(parts) + rank for rank, part in enumerate(parts)])
        order = np.argsort(turns)
        return cls(
            joined.logits[order],
            joined.cosines[order],
            joined.retrieved[order],
            joined.similarities[order],
            [joined.references[index] for index in order],
        )

    def retrieves(self, threshold: float) -> np.ndarray:
        """Queries that retrieve a phrase, bool ``[images, queries]``: the rule of :func:`select_queries`.

        Raises:
            ValueError: The phrase of such a query was not looked up.
        """
        chosen = select_queries(self.logits, threshold).numpy()
        if (self.retrieved[chosen] < 0).any():
            raise ValueError(f"phrases were not looked up for a threshold as low as {threshold}")
        return chosen


def matched_cosine(validation: Validation) -> float:
    """Mean cosine of the matched pairs, in [-1, 1]."""
    return float(np.nanmean(validation.cosines))


def figures(validation: Validation, table: PhraseTable, threshold: float) -> dict[str, float]:
    """Figures that depend on the selection threshold.

    Args:
        validation: All validation images.
        table: The phrases that its rows name.
        threshold: Selection probability, in (0, 1).

    Returns:
        - ``selection_precision``, ``selection_recall``, ``selection_f1``: queries above the threshold against queries
          that a phrase was matched to;
        - ``phrases_per_image``: different phrases that an image retrieves, on average;
        - ``phrase_precision``, ``phrase_recall``: retrieved against own phrases at cosine 0.8, over all images;
        - ``findings_micro_f1``, ``findings_macro_f1``: findings that retrieved phrases affirm against those that the
          own phrases affirm;
        - ``distinct_phrases``, ``distinct_reports``: different phrases, and different sets of phrases, over all images.

    Raises:
        ValueError: A phrase that the threshold asks for was not looked up.
    """
    above = validation.logits.sigmoid().numpy() > threshold
    selection = confusion(~np.isnan(validation.cosines).reshape(-1, 1), above.reshape(-1, 1)).sum(axis=0)
    tp, fp, fn = selection.tolist()
    retrieved = [
        np.unique(rows[chosen])
        for rows, chosen in zip(validation.retrieved, validation.retrieves(threshold), strict=True)
    ]
    pairs = list(zip(retrieved, validation.references, strict=True))
    hits = np.sum([phrase_hits(table.embeddings[found], table.embeddings[own]) for found, own in pairs], axis=0)
    findings = confusion(table.findings_of(validation.references), table.findings_of(retrieved)).sum(axis=0)
    return {
        "selection_precision": tp / max(tp + fp, 1),
        "selection_recall": tp / max(tp + fn, 1),
        "selection_f1": float(micro_f1(selection)),
        "phrases_per_image": sum(map(len, retrieved)) / len(retrieved),
        "phrase_precision": float(precision(hits)),
        "phrase_recall": float(recall(hits)),
        "findings_micro_f1": float(micro_f1(findings)),
        "findings_macro_f1": float(macro_f1(findings)),
        "distinct_phrases": float(distinct(np.concatenate(retrieved).tolist())),
        "distinct_reports": float(distinct(tuple(rows.tolist()) for rows in retrieved)),
    }


def sweep(validation: Validation, table: PhraseTable) -> list[dict[str, float]]:
    """The :func:`figures` at each of :data:`THRESHOLDS`, with the ``threshold`` itself."""
    return [{"threshold": threshold} | figures(validation, table, threshold) for threshold in THRESHOLDS]


def choose_threshold(
    validation: Validation, table: PhraseTable, studies: Sequence[str], together: bool = False
) -> float:
    """The selection threshold with the largest sum of micro- and macro-F1 of the findings of validation studies.

    Micro-F1 alone is won by the two or three most frequent findings, and leaves the others unsaid. A study says what
    its images say together, as its report does. The sum is averaged over thresholds nearby, since on a few hundred
    studies single hits make peaks that other studies do not have. Of equal thresholds the highest is taken, which says
    least.

    Args:
        validation: All validation images.
        table: The phrases that its rows name.
        studies: Study of each image.
        together: The images of a study share the mean of their selection probabilities.

    Returns:
        One of ``CANDIDATES``.
    """
    index, validation = _studies(validation, studies, together)

    def joined(labels: np.ndarray) -> np.ndarray:
        of_study = np.zeros((index.max() + 1, labels.shape[1]), dtype=bool)
        np.logical_or.at(of_study, index, labels)
        return of_study

    truth = joined(table.findings_of(validation.references))
    scores = np.zeros(len(CANDIDATES))
    for candidate, threshold in enumerate(CANDIDATES):
        chosen = validation.retrieves(threshold)
        said = [rows[mask] for rows, mask in zip(validation.retrieved, chosen, strict=True)]
        found = confusion(truth, joined(table.findings_of(said))).sum(axis=0)
        scores[candidate] = micro_f1(found) + macro_f1(found)
    smooth = uniform_filter1d(scores, SMOOTHED, mode="nearest").round(9)
    return max(zip(smooth.tolist(), CANDIDATES, strict=True))[1]


def choose_offset(
    validation: Validation, groups: PhraseGroups, threshold: float, studies: Sequence[str], together: bool = False
) -> float:
    """What to add to the logits of queries that stand for no finding, so that the threshold of findings serves them.

    A finding is worth saying at a probability at which a normal state is not: the one is rare and the reason for the
    report, the other is in most reports anyway. So they get a threshold of their own: the one at which they retrieve as
    many phrases for validation images as the reports have of theirs. The largest F1 of phrases would be had with fewer,
    the frequent ones, and with reports that are more alike.

    Args:
        validation: All validation images.
        groups: Which queries stand for a finding, and the query of each phrase.
        threshold: The threshold in use.
        studies: Study of each image.
        together: The images of a study share the mean of their selection probabilities.

    Returns:
        The difference of the logits of both thresholds; of thresholds that come equally near, the highest's.
    """
    others = ~groups.findings
    validation = _studies(validation, studies, together)[1]
    wanted = sum(len(np.unique(rows[others[groups.of_phrase[rows]]])) for rows in validation.references)
    misses = {}
    for candidate in CANDIDATES:
        offset = _logit(threshold) - _logit(candidate)
        moved = replace(validation, logits=validation.logits + offset * torch.from_numpy(others))
        chosen = moved.retrieves(threshold) & others
        said = sum(len(np.unique(rows[mask])) for rows, mask in zip(moved.retrieved, chosen, strict=True))
        misses[candidate] = abs(said - wanted)
    best = min(CANDIDATES, key=lambda candidate: (misses[candidate], -candidate))
    return _logit(threshold) - _logit(best)


def _studies(validation: Validation, studies: Sequence[str], together: bool) -> tuple[np.ndarray, Validation]:
    """Number of each image's study, from 0, and the validation as its studies select phrases."""
    index = np.unique(studies, return_inverse=True)[1]
    if together:
        validation = replace(validation, logits=shared_logits(validation.logits, index.tolist()))
    return index, validation


def _logit(probability: float) -> float:
    return math.log(probability / (1 - probability))


def query_usage(validation: Validation, threshold: float) -> list[dict[str, float]]:
    """How much each query does.

    Args:
        validation: All validation images.
        threshold: Selection probability, in (0, 1).

    Returns:
        For each query: ``query`` (its index), ``selected`` (share of the images in which it retrieves a phrase) and
        ``distinct_phrases`` (different phrases it retrieves over all images).

    Raises:
        ValueError: A phrase that the threshold asks for was not looked up.
    """
    chosen = validation.retrieves(threshold)
    return [
        {
            "query": query,
            "selected": float(chosen[:, query].mean()),
            "distinct_phrases": distinct(validation.retrieved[chosen[:, query], query].tolist()),
        }
        for query in range(chosen.shape[1])
    ]
