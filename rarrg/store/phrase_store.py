"""PhraseStore: key phrases, found by the cosine between their embeddings and a query's."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rarrg.artifacts import MANIFEST, Manifest, write_jsonl, writing
from rarrg.errors import RarrgError
from rarrg.store.json_lines import JsonLines
from rarrg.store.vector_index import VectorIndex, check_shape, unit

NAME = "phrase-store"
VERSION = 1
INDEX = "index.faiss"
PHRASES = "phrases.jsonl"
EXAMPLES = 5
_FINDER = ".DS_Store"  # what macOS leaves in a folder that was looked at
_TRIES = 5

log = logging.getLogger(__name__)


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
        phrases: The phrases; an id of :meth:`search` is a place in them. Those of a loaded store are parsed one by one
            as they are asked for.
        encoder: Reference of the text encoder: ``encoder``, ``revision``, ``dim``, ``fingerprint``.
        factory: FAISS factory string of the index, with its parameters.
        credentialed: The phrases are of data that must stay on this machine.
    """

    def __init__(
        self,
        phrases: Sequence[StoredPhrase],
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
            index: FAISS factory string and, after a semicolon, parameters, as ``IVF1024,Flat; nprobe=16``; ``Flat`` is
                exact. See :func:`~rarrg.store.faiss_index.empty_index`.
            credentialed: The phrases are of data that must stay on this machine; false lets a language model elsewhere
                have them.

        Raises:
            RarrgError: FAISS is not installed; no phrases, or a text twice; an embedding of length 0, not finite or of
                another dimension than the encoder's; a factory string that FAISS refuses, or too few phrases to train
                the index on.
        """
        if not phrases:
            raise RarrgError("phrase store: there are no phrases to build it from")
        names = [phrase.text for phrase in phrases]
        if len(set(names)) < len(names):
            twice = Counter(names).most_common(1)[0][0]
            raise RarrgError(f"phrase store: {twice!r} is given twice; merge its counts first")
        check_shape(embeddings, encoder["dim"], names)
        return cls(list(phrases), VectorIndex.build(embeddings, index, names), encoder, index, credentialed)

    def with_index(self, index: str) -> PhraseStore:
        """The same phrases in another kind of index.

        Args:
            index: As for :meth:`build`.

        Raises:
            RarrgError: The present index keeps only roundings of the embeddings, or FAISS refuses the new one.
        """
        return self.build(self.phrases, self.vectors(), self.encoder, index, self.credentialed)

    def vectors(self) -> np.ndarray:
        """Unit embeddings of the phrases, float32 ``[phrases, dim]``.

        Raises:
            RarrgError: The index keeps only roundings of them.
        """
        return self._index.vectors()

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
            RarrgError: The path is a file, or a folder that holds something else; or it cannot be written to, which
                leaves the earlier store as it was.
        """
        folder = Path(folder).resolve()
        if folder.is_file():
            raise RarrgError(f"{folder}: is a file; name a folder for the phrase store")
        if folder.exists():
            strange = sorted({path.name for path in folder.iterdir()} - {INDEX, PHRASES, MANIFEST, _FINDER})
            if strange:
                raise RarrgError(f"{folder}: holds {strange[0]}, no part of a phrase store; name another folder")
        # Processes on several machines that share the folder may have the same number.
        unique = f"{os.getpid()}-{secrets.token_hex(4)}"
        temporary = folder.with_name(f".{folder.name}.{unique}.tmp")
        former = folder.with_name(f".{folder.name}.{unique}.old")
        with writing(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
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
        for replaced in _set_aside(folder):
            shutil.rmtree(replaced, ignore_errors=True)
        self._sha256 = manifest.sha256

    @classmethod
    def load(cls, folder: str | Path, encoder: dict[str, Any] | None = None) -> PhraseStore:
        """Open a store and check that it is whole and fits.

        Both files are read through once for their checksums; then the index is mapped, so that its vectors are shared
        with other processes and leave memory when it is short. So its file must not be written to while the store is
        in use; :meth:`save` replaces files and never writes into them.

        Args:
            folder: The store's folder.
            encoder: Reference of the text encoder in use; a store of another encoder is refused.

        Raises:
            RarrgError: FAISS is not installed; a file is missing, changed or malformed; index, phrases and manifest
                disagree; or the store was built with another text encoder.
        """
        folder = Path(folder)
        for _ in range(_TRIES):
            before = _manifest(folder)
            try:
                store = cls._read(folder, encoder)
            except RarrgError:
                if _manifest(folder) == before:
                    raise
                continue
            # Files are opened by name, one after another: they are of one store if it was there all the while.
            if _manifest(folder) == before:
                return store
        raise RarrgError(f"{folder}: was replaced again and again while it was read; try once more")

    @classmethod
    def _read(cls, folder: Path, encoder: dict[str, Any] | None) -> PhraseStore:
        if not folder.exists() and (former := _set_aside(folder.resolve())):
            log.warning("%s: its replacement is under way or was cut short; read from %s", folder, former[-1])
            folder = former[-1]
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
        phrases = JsonLines(folder / PHRASES, _phrase)
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
        write_jsonl(folder / PHRASES, (vars(phrase) for phrase in self.phrases))
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


def _manifest(folder: Path) -> bytes | None:
    try:
        return (folder / MANIFEST).read_bytes()
    except OSError:
        return None


def _set_aside(folder: Path) -> list[Path]:
    """Earlier stores of a folder that make way for a new one, or did where a save was killed; the latest last."""
    return sorted(folder.parent.glob(f".{escape(folder.name)}.*.old"), key=lambda path: path.stat().st_mtime)


def _phrase(row: dict[str, Any]) -> StoredPhrase:
    return StoredPhrase(row["text"], row["count"], tuple(row["studies"]))


def _described(encoder: dict[str, Any]) -> str:
    return f"{encoder['encoder']} (dim {encoder['dim']}, fingerprint {str(encoder['fingerprint'])[:12]})"


def _listed(figures: dict[str, int]) -> str:
    return ", ".join(f"{name} {figure}" for name, figure in figures.items())
