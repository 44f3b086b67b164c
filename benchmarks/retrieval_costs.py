"""What benchmarks/retrieval.py runs in processes of their own: a store is built, or loaded.

    python benchmarks/retrieval_costs.py build KIND EMBEDDINGS.npy STORE
    python benchmarks/retrieval_costs.py load STORE [QUERIES.npy]

Prints seconds and bytes as JSON. Imports no more than a store needs.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from time import perf_counter

import numpy as np

from rarrg.store.phrase_store import PhraseStore, StoredPhrase

ENCODER = {"encoder": "made up", "revision": None, "dim": 768, "fingerprint": "0" * 16}


def status(name: str) -> int:
    """A size of this process in bytes, as the kernel counts it."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) << 10


class Peak:
    """The largest size of this process while the block ran, over what it was before."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> Peak:
        self.before = self.largest = status(self.name)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            self.largest = max(self.largest, status(self.name))

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.largest = max(self.largest, status(self.name))

    @property
    def bytes(self) -> int:
        """How much more than before."""
        return self.largest - self.before


def build(kind: str, embeddings: str, store: str) -> tuple[float, int]:
    """Seconds and private memory to build a store and save it."""
    PhraseStore.build([StoredPhrase("x", 1)], np.eye(1, 768), ENCODER)  # imports FAISS
    vectors = np.load(embeddings, mmap_mode="r")
    phrases = [StoredPhrase(f"made-up phrase number {place}", 1, (f"s{place}",)) for place in range(len(vectors))]
    with Peak("RssAnon") as peak:
        start = perf_counter()
        built = PhraseStore.build(phrases, vectors, ENCODER, kind)
        seconds = perf_counter() - start
        built.save(store)
    return seconds, peak.bytes


def load(store: str, queries: str | None = None) -> tuple[float, int]:
    """Seconds to load a store, and resident memory, with ``queries`` once it was searched."""
    PhraseStore.build([StoredPhrase("x", 1)], np.eye(1, 768), ENCODER)
    asked = None if queries is None else np.load(queries)
    with Peak("VmRSS") as peak:
        start = perf_counter()
        loaded = PhraseStore.load(store)
        seconds = perf_counter() - start
        if asked is not None:
            _ = loaded.phrases[loaded.search(asked)[1][0, 0]].text
    return seconds, peak.bytes


if __name__ == "__main__":
    found = build(*sys.argv[2:5]) if sys.argv[1] == "build" else load(*sys.argv[2:])
    sys.stdout.write(json.dumps(found))
