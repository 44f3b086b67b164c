"""What is searched in benchmarks/retrieval.py: made-up vectors, and embeddings of real phrases."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from rarrg.data import iu_xray
from rarrg.extract.key_phrases import read_key_phrases
from rarrg.extract.reports import reports_of
from rarrg.extract.rules_step import extract_with_rules

DIM = 768
PARTS = ((600, 1.0), (60, 0.7), (200, 0.5))
"""Findings, places and manners: how many, and how much of a vector each makes up."""

OWN = 0.15
TEXT_ENCODER = "packaged:all-MiniLM-L6-v2"


def make_up(count: int, file: Path) -> np.ndarray:
    """Write unit vectors ``[count, 768]`` and give how often each phrase occurs, ``[count]``.

    A phrase is a finding, a place and a manner, of which few are frequent (Zipf), and a little of its own; one phrase
    of five is a copy of another. So vectors lie in clusters of clusters of very different sizes, as those of real
    phrases do. Clusters without a structure of their own are no likeness: half of the nearest would be in other cells.
    """
    generator = np.random.default_rng(0)
    scale = np.float32(1 / np.sqrt(DIM))
    parts = [weight * scale * generator.standard_normal((many, DIM), dtype=np.float32) for many, weight in PARTS]
    different = count - count // 5
    vectors = np.empty((count, DIM), np.float32)
    for start in range(0, different, 1 << 14):
        rows = vectors[start : min(start + (1 << 14), different)]
        generator.standard_normal(out=rows, dtype=np.float32)
        rows *= OWN * scale
        for part in parts:
            share = 1 / np.arange(1, len(part) + 1)
            rows += part[generator.choice(len(part), len(rows), p=share / share.sum())]
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    vectors[different:] = vectors[generator.integers(0, different, count - different)]
    generator.shuffle(vectors)
    np.save(file, vectors)
    return 1 / np.arange(1, count + 1)


def real_phrases(folder: Path, place: Path) -> tuple[np.ndarray, np.ndarray]:
    """MiniLM's embeddings of the key phrases of IU X-Ray's training reports, and how often each occurs."""
    from rarrg.models.text import load_text_encoder

    studies = [study for study in iu_xray.read(folder, images=False) if study.split == "train"]
    extract_with_rules(lambda: reports_of(studies), place)
    counts = Counter(phrase for phrases in read_key_phrases(place).values() for phrase in set(phrases))
    return load_text_encoder(TEXT_ENCODER).encode(sorted(counts)).numpy(), np.array([counts[p] for p in sorted(counts)])
