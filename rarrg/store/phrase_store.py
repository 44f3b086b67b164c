"""PhraseStore: key phrases, found by the cosine between their embeddings and a query's."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rarrg.artifacts import MANIFEST, Manifest, read_jsonl, write_jsonl
from rarrg.errors import RarrgError
from rarrg.store.vector_index import VectorIndex, unit

NAME = "phrase-store"
VERSION = 1
INDEX = "index.faiss"
PHRASES = "phrases.jsonl"
EXAMPLES = 5


@dataclass(frozen=True)
class StoredPhrase:
    """A key phrase and where it comes from.

    Attributes:
        text: The phrase, unique in its store.
        count: How often it occurs in the training set, at least 1.
        studies: Ids of at most 5 studies that hold it.
    """

    text: str
    count: int
    studies: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise RarrgError("phrase store: a phrase is empty")
        if self.count < 1:
            raise RarrgError(f"phrase store: count of {self.text!r} must be at least 1, got {self.count}")
        if len(self.studies) > EXAMPLES:
            raise RarrgError(f"phrase store: {self.text!r} has {len(self.studies)} studies, keep at most {EXAMPLES}")

    def merge(self, other: StoredPhrase) -> StoredPhrase:
        """The same phrase with the counts of both and the first examples of both."""
        studies = tuple(dict.fromkeys(self.studies + other.studies))[:EXAMPLES]
        return StoredPhrase(self.text, self.count + other.count, studies)


class PhraseStore:
    """Unit text embeddings in an index, the phrases they belong to, and the text encoder they came from.

    On disk it is a folder of ``index.faiss``, ``phrases.jsonl`` and ``manifest.json``. Made by :meth:`build` or
    :meth:`load`.

    Attributes:
        phrases: The phrases; an id of :meth:`search` is a place in this list.
        encoder: Reference of the text encoder: ``encoder``, ``revision``, ``dim``, ``fingerprint``.
        factory: FAISS factory string of the index.
        credentialed: The phrases are of data that must stay on this machine.
    """

    def __init__(
        self,
        phrases: list[StoredPhrase],
        index: VectorIndex,
        encoder: dict[str, Any],
        factory: str,
        credentialed: bool = True,
    ) -> None:
        self.phrases = phrases
        self.encoder = encoder
        self.factory = factory
        self.credentialed = credentialed
        self._index = index
        self._sha256: dict[str, str] | None = None

    def __len__(self) -> int:
        return len(self.phrases)

    @property
    def dim(self) -> int:
        """Dimension of the embeddings."""
        return self._index.dim

    @property
    def checksum(self) -> str:
        """Hex SHA-256 over the index and phrase files: the same in memory, once saved and once loaded."""
        if self._sha256 is None:
            with TemporaryDirectory() as folder:
                self._sha256 = self._write(Path(folder)).sha256
        return hashlib.sha256((self._sha256[INDEX] + self._sha256[PHRASES]).encode()).hexdigest()

    @classmethod
    def build(
        cls,
        phrases: Sequence[StoredPhrase],
        embeddings: np.ndarray,
        encoder: dict[str, Any],
        index: str = "Flat",
        credentialed: bool = True,
    ) -> PhraseStore:
        """Index phrases by their embeddings.

        Args:
            phrases: The phrases, each text once.
            embeddings: Their text embeddings ``[phrases, dim]``, without noise; brought to unit length here.
            encoder: Reference of the text encoder, as its ``reference()`` gives.
            index: FAISS factory string; ``Flat`` is exact. An IVF index will look into 8 of its cells.
            credentialed: The phrases are of data that must stay on this machine; false lets a language model elsewhere
                have them.

        Raises:
            RarrgError: FAISS is not installed; no phrases, or a text twice; an embedding of length 0, not finite or of
                another dimension than the encoder's; a factory string that FAISS refuses, or too few phrases to train
                the index on.
        """
        if not phrases:
            raise RarrgError("phrase store: there are no phrases to build it from")
        seen: set[str] = set()
        for phrase in phrases:
            if phrase.text in seen:
                raise RarrgError(f"phrase store: {phrase.text!r} is given twice; merge its counts first")
            seen.add(phrase.text)
        vectors = unit(embeddings, encoder["dim"], [phrase.text for phrase in phrases])
        return cls(list(phrases), VectorIndex.build(vectors, index), encoder, index, credentialed)

    def add(self, phrases: Sequence[StoredPhrase], embeddings: np.ndarray) -> None:
        """Add phrases; neither the retriever nor the index needs training for it.

        A new text is appended. A text that the store knows keeps its place and its embedding, and takes the counts and
        example studies of both.

        Args:
            phrases: The phrases.
            embeddings: Their embeddings by the store's text encoder ``[phrases, dim]``.

        Raises:
            RarrgError: An embedding of length 0, not finite or of another dimension than the store's.
        """
        vectors = unit(embeddings, self.dim, [phrase.text for phrase in phrases])
        merged = list(self.phrases)
        places = {phrase.text: place for place, phrase in enumerate(merged)}
        new: list[int] = []
        for row, phrase in enumerate(phrases):
            place = places.setdefault(phrase.text, len(merged))
            if place == len(merged):
                merged.append(phrase)
                new.append(row)
            else:
                merged[place] = merged[place].merge(phrase)
        self._index.add(vectors[new])
        self.phrases = merged
        self._sha256 = None

    def search(self, queries: np.ndarray, k: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Find the nearest phrases of each query.

        Best first; of equal similarities the lowest id first. With a ``Flat`` index the result is that of brute force;
        another index ranks by its own, approximate similarities.

        Args:
            queries: Semantic embeddings ``[queries, dim]``; brought to unit length here.
            k: Phrases a query, at least 1; more than the store holds gives all.

        Returns:
            Cosines, float32 in [-1, 1], and ids, int64, both ``[queries, min(k, phrases)]``.

        Raises:
            RarrgError: A query of length 0, not finite or of another dimension; ``k`` below 1; or an approximate index
                that finds fewer than ``k``.
        """
        if k < 1:
            raise RarrgError(f"phrase store: k must be at least 1, got {k}")
        return self._index.search(unit(queries, self.dim), min(k, len(self)))

    def save(self, folder: str | Path) -> None:
        """Write the store as a folder, which appears whole or not at all; an earlier store there is replaced.

        Raises:
            RarrgError: The path is a file, or a folder that holds something else.
        """
        folder = Path(folder).resolve()
        if folder.is_file():
            raise RarrgError(f"{folder}: is a file; name a folder for the phrase store")
        if folder.exists():
            strange = sorted({path.name for path in folder.iterdir()} - {INDEX, PHRASES, MANIFEST})
            if strange:
                raise RarrgError(f"{folder}: holds {strange[0]}, no part of a phrase store; name another folder")
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
        former = folder.with_name(f".{folder.name}.{os.getpid()}.old")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        try:
            manifest = self._write(temporary)
            if folder.exists():
                folder.rename(former)  # a folder cannot replace one that is not empty
            temporary.rename(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
            if former.exists() and not folder.exists():
                former.rename(folder)
            shutil.rmtree(former, ignore_errors=True)
        self._sha256 = manifest.sha256

    @classmethod
    def load(cls, folder: str | Path, encoder: dict[str, Any] | None = None) -> PhraseStore:
        """Read a store and check that it is whole and fits.

        Args:
            folder: The store's folder.
            encoder: Reference of the text encoder in use; a store of another encoder is refused.

        Raises:
            RarrgError: FAISS is not installed; a file is missing, changed or malformed; index, phrases and manifest
                disagree; or the store was built with another text encoder.
        """
        folder = Path(folder)
        manifest = Manifest.load(folder, NAME, VERSION)
        if set(manifest.sha256) != {INDEX, PHRASES}:
            raise RarrgError(f"{folder / MANIFEST}: must list {INDEX} and {PHRASES}, lists {sorted(manifest.sha256)}")
        manifest.verify(folder)
        details = manifest.details
        lacking = {"encoder", "dim", "index", "count", "credentialed"} - set(details)
        if lacking:
            raise RarrgError(f"{folder / MANIFEST}: details lack {', '.join(sorted(lacking))}; build the store again")
        if encoder is not None and details["encoder"]["fingerprint"] != encoder["fingerprint"]:
            raise RarrgError(
                f"{folder}: was built with text encoder {_described(details['encoder'])}, but the one in use is "
                f"{_described(encoder)}; take that encoder or build the store again"
            )
        index = VectorIndex.read(folder / INDEX)
        phrases = _read_phrases(folder / PHRASES)
        counts = {INDEX: len(index), PHRASES: len(phrases), MANIFEST: details["count"]}
        if len(set(counts.values())) > 1:
            raise RarrgError(f"{folder}: numbers of phrases disagree ({_listed(counts)}); build the store again")
        dims = {INDEX: index.dim, MANIFEST: details["dim"], "text encoder": details["encoder"]["dim"]}
        if len(set(dims.values())) > 1:
            raise RarrgError(f"{folder}: dimensions disagree ({_listed(dims)}); build the store again")
        store = cls(phrases, index, details["encoder"], details["index"], details["credentialed"] is not False)
        store._sha256 = manifest.sha256
        return store

    def _write(self, folder: Path) -> Manifest:
        self._index.write(folder / INDEX)
        write_jsonl(folder / PHRASES, (asdict(phrase) for phrase in self.phrases))
        details = {
            "encoder": self.encoder,
            "dim": self.dim,
            "index": self.factory,
            "count": len(self),
            "credentialed": self.credentialed,
        }
        manifest = Manifest.of(folder, NAME, VERSION, [INDEX, PHRASES], details)
        manifest.save(folder)
        return manifest


def _read_phrases(path: Path) -> list[StoredPhrase]:
    try:
        return [StoredPhrase(row["text"], row["count"], tuple(row["studies"])) for row in read_jsonl(path)]
    except KeyError as error:
        raise RarrgError(f"{path}: a phrase lacks {error}; build the store again") from error


def _described(encoder: dict[str, Any]) -> str:
    return f"{encoder['encoder']} (dim {encoder['dim']}, fingerprint {str(encoder['fingerprint'])[:12]})"


def _listed(figures: dict[str, int]) -> str:
    return ", ".join(f"{name} {figure}" for name, figure in figures.items())
