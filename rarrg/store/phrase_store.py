"""PhraseStore: key phrases, found by the cosine between their embeddings and a query's."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import numpy as np
from tqdm import tqdm

from rarrg.artifacts import MANIFEST, Manifest, read_jsonl, write_jsonl
from rarrg.errors import RarrgError

logger = logging.getLogger(__name__)

NAME = "phrase-store"
VERSION = 1
INDEX = "index.faiss"
PHRASES = "phrases.jsonl"
EXAMPLES = 5

PROBES = 8  # cells an IVF index looks into; FAISS' own 1 misses neighbours across a cell's border
ROUNDING = 1e-6  # by which FAISS' float32 similarities of one vector differ between batch sizes
GPU_MAX_K = 2048
CHUNK = 1 << 14


def import_faiss() -> ModuleType:
    """Import FAISS, which comes with an extra of the package.

    Raises:
        RarrgError: Neither extra is installed.
    """
    try:
        import faiss
    except ModuleNotFoundError as error:
        raise RarrgError(
            "FAISS is not installed: install exactly one of the extras cpu or gpu (`pip install 'rarrg[cpu]'`)"
        ) from error
    return faiss


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
            raise RarrgError(
                f"phrase store: {self.text!r} has {len(self.studies)} studies, at most {EXAMPLES} are kept"
            )

    def merge(self, other: StoredPhrase) -> StoredPhrase:
        """The same phrase with the counts of both and the first examples of both."""
        studies = tuple(dict.fromkeys(self.studies + other.studies))[:EXAMPLES]
        return StoredPhrase(self.text, self.count + other.count, studies)


class PhraseStore:
    """Unit text embeddings in a FAISS index, the phrases they belong to, and the text encoder they came from.

    On disk it is a folder of ``index.faiss``, ``phrases.jsonl`` and ``manifest.json``. Made by :meth:`build` or
    :meth:`load`. Searches run on the GPUs where FAISS has them and they hold the index's type, else on the CPU.

    Attributes:
        phrases: The phrases; an id of :meth:`search` is a place in this list.
        encoder: Reference of the text encoder: ``encoder``, ``revision``, ``dim``, ``fingerprint``.
        factory: FAISS factory string of the index.
    """

    def __init__(self, phrases: list[StoredPhrase], index: Any, encoder: dict[str, Any], factory: str) -> None:
        self.phrases = phrases
        self.encoder = encoder
        self.factory = factory
        self._index = index
        self._searcher: Any = None
        self._sha256: dict[str, str] | None = None

    def __len__(self) -> int:
        return len(self.phrases)

    @property
    def dim(self) -> int:
        """Dimension of the embeddings."""
        return int(self._index.d)

    @property
    def checksum(self) -> str:
        """Hex SHA-256 over the index and phrase files: the same in memory, once saved and once loaded."""
        if self._sha256 is None:
            with TemporaryDirectory() as folder:
                self._sha256 = self._write(Path(folder)).sha256
        return hashlib.sha256((self._sha256[INDEX] + self._sha256[PHRASES]).encode()).hexdigest()

    @classmethod
    def build(
        cls, phrases: Sequence[StoredPhrase], embeddings: np.ndarray, encoder: dict[str, Any], index: str = "Flat"
    ) -> PhraseStore:
        """Index phrases by their embeddings.

        Args:
            phrases: The phrases, each text once.
            embeddings: Their text embeddings ``[phrases, dim]``, without noise; brought to unit length here.
            encoder: Reference of the text encoder, as its ``reference()`` gives.
            index: FAISS factory string; ``Flat`` is exact. An IVF index looks into 8 of its cells.

        Raises:
            RarrgError: No phrases, a text twice, an embedding of length 0 or not finite, another dimension than the
                encoder's, an unknown factory string, or too few phrases to train the index on.
        """
        faiss = import_faiss()
        if not phrases:
            raise RarrgError("phrase store: there are no phrases to build it from")
        seen: set[str] = set()
        for phrase in phrases:
            if phrase.text in seen:
                raise RarrgError(f"phrase store: {phrase.text!r} is given twice; merge its counts first")
            seen.add(phrase.text)
        vectors = _unit(embeddings, encoder["dim"], phrases)
        try:
            made = faiss.index_factory(vectors.shape[1], index, faiss.METRIC_INNER_PRODUCT)
        except RuntimeError as error:
            raise RarrgError(f"store.index: FAISS refuses {index!r} ({_tail(error)})") from error
        if not made.is_trained:
            try:
                made.train(vectors)
            except RuntimeError as error:
                raise RarrgError(
                    f"store.index: {index!r} cannot be trained on {len(phrases)} phrases; take Flat or a smaller index "
                    f"({_tail(error)})"
                ) from error
        cells = faiss.try_extract_index_ivf(made)
        if cells is not None:
            cells.nprobe = min(PROBES, cells.nlist)
        store = cls(list(phrases), made, encoder, index)
        store._append(vectors)
        return store

    def add(self, phrases: Sequence[StoredPhrase], embeddings: np.ndarray) -> None:
        """Add phrases; the retriever needs no training for it, nor does the index.

        A new text is appended. A text that the store knows keeps its place and its embedding, and takes the counts and
        example studies of both.

        Args:
            phrases: The phrases.
            embeddings: Their embeddings by the store's text encoder ``[phrases, dim]``.

        Raises:
            RarrgError: An embedding of length 0 or not finite, or of another dimension than the store's.
        """
        vectors = _unit(embeddings, self.dim, phrases)
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
        self._append(vectors[new])
        self.phrases = merged

    def search(self, queries: np.ndarray, k: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Find the nearest phrases of each query.

        Best first; of equal similarities the lowest id first. With a ``Flat`` index the result is that of brute force,
        whatever the batch; another index ranks by its own, approximate similarities.

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
        vectors = _unit(queries, self.dim)
        k = min(k, len(self))
        similarities = np.empty((len(vectors), k), dtype=np.float32)
        ids = np.empty((len(vectors), k), dtype=np.int64)
        # FAISS cuts ties anywhere, so fetch until the last one fetched is surely worse than the k-th.
        pending = np.arange(len(vectors))
        fetch = min(k + 1, len(self))
        while len(pending):
            figures, found = self._nearest(vectors[pending], fetch, k)
            settled = (figures[:, k - 1] - figures[:, -1] > ROUNDING) | (fetch == len(self))
            for row in np.flatnonzero(settled):
                place = pending[row]
                exact = self._exact(vectors[place], figures[row], found[row])
                order = np.lexsort((found[row], -exact))[:k]
                similarities[place], ids[place] = exact[order].clip(-1, 1), found[row][order]
            pending = pending[~settled]
            fetch = min(2 * fetch, len(self))
        return similarities, ids

    def save(self, folder: Path) -> None:
        """Write the store as a folder, which appears whole or not at all; an earlier store there is replaced.

        Raises:
            RarrgError: The folder exists and holds something else.
        """
        folder = folder.resolve()
        if folder.is_file():
            raise RarrgError(f"{folder}: is a file; name a folder for the phrase store")
        if folder.exists():
            strange = sorted({path.name for path in folder.iterdir()} - {INDEX, PHRASES, MANIFEST})
            if strange:
                raise RarrgError(
                    f"{folder}: holds {strange[0]}, which is no part of a phrase store; name another folder"
                )
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
    def load(cls, folder: Path, encoder: dict[str, Any] | None = None) -> PhraseStore:
        """Read a store and check that it is whole and fits.

        Args:
            folder: The store's folder.
            encoder: Reference of the text encoder in use; a store of another encoder is refused.

        Raises:
            RarrgError: A file is missing, changed or malformed; index, phrases and manifest disagree; or the store was
                built with another text encoder.
        """
        faiss = import_faiss()
        manifest = Manifest.load(folder, NAME, VERSION)
        if set(manifest.sha256) != {INDEX, PHRASES}:
            raise RarrgError(f"{folder / MANIFEST}: must list {INDEX} and {PHRASES}, lists {sorted(manifest.sha256)}")
        manifest.verify(folder)
        details = manifest.details
        lacking = {"encoder", "dim", "index", "count"} - set(details)
        if lacking:
            raise RarrgError(f"{folder / MANIFEST}: details lack {', '.join(sorted(lacking))}; build the store again")
        if encoder is not None and details["encoder"]["fingerprint"] != encoder["fingerprint"]:
            raise RarrgError(
                f"{folder}: was built with text encoder {_described(details['encoder'])}, but the one in use is "
                f"{_described(encoder)}; take that encoder or build the store again"
            )
        try:
            index = faiss.read_index(str(folder / INDEX))
        except RuntimeError as error:
            raise RarrgError(f"{folder / INDEX}: is no FAISS index ({_tail(error)})") from error
        try:
            rows = read_jsonl(folder / PHRASES)
            phrases = [StoredPhrase(row["text"], row["count"], tuple(row["studies"])) for row in rows]
        except KeyError as error:
            raise RarrgError(f"{folder / PHRASES}: a phrase lacks {error}; build the store again") from error
        sizes = {INDEX: index.ntotal, PHRASES: len(phrases), MANIFEST: details["count"]}
        if len(set(sizes.values())) != 1:
            raise RarrgError(f"{folder}: numbers of phrases disagree: {_listed(sizes)}; build the store again")
        dims = {INDEX: index.d, MANIFEST: details["dim"], "text encoder": details["encoder"]["dim"]}
        if len(set(dims.values())) != 1:
            raise RarrgError(f"{folder}: dimensions disagree: {_listed(dims)}; build the store again")
        store = cls(phrases, index, details["encoder"], details["index"])
        store._sha256 = manifest.sha256
        return store

    def _write(self, folder: Path) -> Manifest:
        import_faiss().write_index(self._index, str(folder / INDEX))
        write_jsonl(folder / PHRASES, (asdict(phrase) for phrase in self.phrases))
        details = {"encoder": self.encoder, "dim": self.dim, "index": self.factory, "count": len(self)}
        manifest = Manifest.of(folder, NAME, VERSION, [INDEX, PHRASES], details)
        manifest.save(folder)
        return manifest

    def _append(self, vectors: np.ndarray) -> None:
        for start in tqdm(range(0, len(vectors), CHUNK), desc="Index phrases", disable=len(vectors) <= CHUNK):
            self._index.add(vectors[start : start + CHUNK])
        self._searcher = self._sha256 = None

    def _nearest(self, vectors: np.ndarray, fetch: int, k: int) -> tuple[np.ndarray, np.ndarray]:
        """FAISS' own answer, with at least ``k`` phrases for each query."""
        if self._searcher is None:
            self._searcher = _on_gpus(self._index)
        searcher = self._searcher if fetch <= GPU_MAX_K else self._index
        figures, ids = searcher.search(vectors, fetch)
        short = ids[:, k - 1] < 0
        if short.any():
            figures[short], ids[short] = self._search_every_cell(vectors[short], fetch)
        if (ids[:, k - 1] < 0).any():
            raise RarrgError(f"phrase store: index {self.factory!r} finds fewer than {k} phrases; Flat finds all")
        return figures, ids

    def _search_every_cell(self, vectors: np.ndarray, fetch: int) -> tuple[np.ndarray, np.ndarray]:
        """The answer of an IVF index whose probed cells hold too few phrases; other indexes have just one answer."""
        cells = import_faiss().try_extract_index_ivf(self._index)
        if cells is None:
            return self._index.search(vectors, fetch)
        probes, cells.nprobe = cells.nprobe, cells.nlist
        try:
            return self._index.search(vectors, fetch)
        finally:
            cells.nprobe = probes

    def _exact(self, query: np.ndarray, figures: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Similarities in float64, free of the rounding by which FAISS tells equal vectors apart."""
        if not isinstance(self._index, import_faiss().IndexFlat):
            return figures.astype(np.float64)
        return np.multiply(self._index.reconstruct_batch(ids), query, dtype=np.float64).sum(axis=1)


def _unit(embeddings: np.ndarray, dim: int, phrases: Sequence[StoredPhrase] | None = None) -> np.ndarray:
    """Embeddings at unit length, float32 and contiguous; ``phrases`` names them in messages."""
    vectors = np.ascontiguousarray(embeddings, dtype=np.float32)
    noun = "queries" if phrases is None else "embeddings"
    if vectors.ndim != 2 or vectors.shape[1] != dim:
        raise RarrgError(f"phrase store: {noun} must be [n, {dim}], got {list(vectors.shape)}")
    if phrases is not None and len(phrases) != len(vectors):
        raise RarrgError(f"phrase store: {len(phrases)} phrases, but {len(vectors)} embeddings")
    lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64))
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0))
    if len(bad):
        name = f"query {bad[0]}" if phrases is None else f"the embedding of {phrases[bad[0]].text!r}"
        raise RarrgError(f"phrase store: {name} is zero or not finite")
    return np.divide(vectors, lengths[:, None], out=np.empty_like(vectors), casting="same_kind")


def _on_gpus(index: Any) -> Any:
    """A copy of the index on every GPU, or the index itself where there is none or none can hold its type."""
    faiss = import_faiss()
    if faiss.get_num_gpus() == 0:
        return index
    try:
        return faiss.index_cpu_to_all_gpus(index)
    except RuntimeError as error:
        logger.warning("phrase store: searching on the CPU, as FAISS cannot copy the index to GPU (%s)", _tail(error))
        return index


def _described(encoder: dict[str, Any]) -> str:
    return f"{encoder['encoder']} (dim {encoder['dim']}, fingerprint {str(encoder['fingerprint'])[:12]})"


def _listed(figures: dict[str, int]) -> str:
    return ", ".join(f"{name} {figure}" for name, figure in figures.items())


def _tail(error: RuntimeError) -> str:
    """The part of a FAISS message after the C++ signature and place."""
    return str(error).rsplit(".cpp:", 1)[-1].split(": ", 1)[-1].strip()
