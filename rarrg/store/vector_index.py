"""VectorIndex: a FAISS index of unit vectors, searched by cosine, with ties settled."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from tqdm import tqdm

from rarrg.errors import RarrgError

logger = logging.getLogger(__name__)

PROBES = 8  # cells an IVF index looks into; with FAISS' own 1, neighbours across a cell's border are missed
ROUNDING = 1e-6  # more than FAISS' float32 similarities of one vector differ by place and batch size
GPU_MAX_K = 2048
CHUNK = 1 << 14


def import_faiss() -> ModuleType:
    """Import FAISS, which comes with an extra of the package.

    Raises:
        RarrgError: Neither extra is installed, or what is installed does not load.
    """
    try:
        import faiss
    except ImportError as error:
        install = "install exactly one of the extras cpu or gpu (`pip install -e '.[cpu]'`)"
        if isinstance(error, ModuleNotFoundError) and error.name == "faiss":
            raise RarrgError(f"FAISS is not installed: {install}") from error
        reason = " ".join(str(error).split())
        raise RarrgError(f"FAISS is installed but does not load ({reason}): {install}") from error
    return faiss


def unit(embeddings: np.ndarray, dim: int, names: Sequence[str] | None = None) -> np.ndarray:
    """Bring embeddings to unit length.

    Args:
        embeddings: ``[n, dim]``.
        dim: The dimension they must have.
        names: What each of them is called in a message; None calls them queries.

    Returns:
        ``[n, dim]``, float32, contiguous.

    Raises:
        RarrgError: Another shape, or an embedding of length 0 or not finite.
    """
    vectors = np.ascontiguousarray(embeddings, dtype=np.float32)
    noun = "queries" if names is None else "embeddings"
    if vectors.ndim != 2 or vectors.shape[1] != dim:
        raise RarrgError(f"phrase store: {noun} must be [n, {dim}], got {list(vectors.shape)}")
    if names is not None and len(names) != len(vectors):
        raise RarrgError(f"phrase store: {len(names)} phrases, but {len(vectors)} embeddings")
    lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64))
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0))
    if len(bad):
        name = f"query {bad[0]}" if names is None else f"the embedding of {names[bad[0]]!r}"
        raise RarrgError(f"phrase store: {name} is zero or not finite")
    return np.divide(vectors, lengths[:, None], out=np.empty_like(vectors), casting="same_kind")


class VectorIndex:
    """Unit vectors in a FAISS index, numbered from 0 in the order they were added.

    Made by :meth:`build` or :meth:`read`. Searches run on the GPUs where FAISS sees any and they can hold the index's
    type, else on the CPU; files always hold the CPU index.
    """

    def __init__(self, index: Any) -> None:
        self._index = index
        self._searcher: Any = None

    def __len__(self) -> int:
        return int(self._index.ntotal)

    @property
    def dim(self) -> int:
        """Dimension of the vectors."""
        return int(self._index.d)

    @classmethod
    def build(cls, vectors: np.ndarray, factory: str) -> VectorIndex:
        """Index unit vectors ``[n, dim]``, training the index on them where its type needs it.

        Args:
            vectors: As :func:`unit` gives them.
            factory: FAISS factory string; ``Flat`` is exact. An IVF index will look into 8 of its cells.

        Raises:
            RarrgError: A factory string that FAISS refuses, or too few vectors to train on.
        """
        faiss = import_faiss()
        try:
            index = faiss.index_factory(vectors.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
        except RuntimeError as error:
            raise RarrgError(f"store.index: FAISS refuses {factory!r} ({_tail(error)})") from error
        if not index.is_trained:
            try:
                index.train(vectors)
            except RuntimeError as error:
                raise RarrgError(
                    f"store.index: {factory!r} cannot be trained on {len(vectors)} phrases; take Flat or a smaller "
                    f"index ({_tail(error)})"
                ) from error
        cells = faiss.try_extract_index_ivf(index)
        if cells is not None:
            cells.nprobe = min(PROBES, cells.nlist)
        built = cls(index)
        built.add(vectors)
        return built

    @classmethod
    def read(cls, path: Path) -> VectorIndex:
        """Read an index file.

        Raises:
            RarrgError: The file is no FAISS index.
        """
        try:
            return cls(import_faiss().read_index(str(path)))
        except RuntimeError as error:
            raise RarrgError(f"{path}: is no FAISS index ({_tail(error)})") from error

    def write(self, path: Path) -> None:
        """Write the index file; the same vectors give the same bytes."""
        import_faiss().write_index(self._index, str(path))

    def add(self, vectors: np.ndarray) -> None:
        """Append unit vectors ``[n, dim]``, without training."""
        for start in tqdm(range(0, len(vectors), CHUNK), desc="Index phrases", disable=len(vectors) <= CHUNK):
            self._index.add(vectors[start : start + CHUNK])
        self._searcher = None

    def search(self, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the ``k`` vectors nearest to each query; best first, of equal ones the lowest number first.

        FAISS cuts ties anywhere and rounds equal vectors apart in large batches. So more is fetched until the last one
        fetched is surely worse than the k-th, and an exact index's similarities are computed again in float64: its
        answer is that of brute force, whatever the batch. Another index ranks by its own, approximate similarities.

        Args:
            vectors: Unit queries ``[queries, dim]``.
            k: From 1 to the number of vectors.

        Returns:
            Cosines, float32 in [-1, 1], and numbers, int64, both ``[queries, k]``.

        Raises:
            RarrgError: An approximate index finds fewer than ``k``.
        """
        similarities = np.empty((len(vectors), k), dtype=np.float32)
        ids = np.empty((len(vectors), k), dtype=np.int64)
        pending = np.arange(len(vectors))
        fetch = min(k + 1, len(self))
        while len(pending):
            figures, found = self._fetch(vectors[pending], fetch, k)
            settled = (figures[:, k - 1] - figures[:, -1] > ROUNDING) | (fetch == len(self))
            for row in np.flatnonzero(settled):
                place = pending[row]
                exact = self._exact(vectors[place], figures[row], found[row])
                order = np.lexsort((found[row], -exact))[:k]
                similarities[place], ids[place] = exact[order].clip(-1, 1), found[row][order]
            pending = pending[~settled]
            fetch = min(2 * fetch, len(self))
        return similarities, ids

    def _fetch(self, vectors: np.ndarray, fetch: int, k: int) -> tuple[np.ndarray, np.ndarray]:
        """FAISS' own answer, with at least ``k`` found for each query."""
        if self._searcher is None:
            self._searcher = _on_gpus(self._index)
        searcher = self._searcher if fetch <= GPU_MAX_K else self._index
        figures, ids = searcher.search(vectors, fetch)
        short = ids[:, k - 1] < 0
        if short.any():
            figures[short], ids[short] = self._search_every_cell(vectors[short], fetch)
        if (ids[:, k - 1] < 0).any():
            raise RarrgError(
                f"phrase store: its index finds fewer than the {k} phrases asked for; a Flat one finds all"
            )
        return figures, ids

    def _search_every_cell(self, vectors: np.ndarray, fetch: int) -> tuple[np.ndarray, np.ndarray]:
        """The answer of an IVF index whose probed cells hold too few; another index has just one answer."""
        cells = import_faiss().try_extract_index_ivf(self._index)
        if cells is None:
            return self._index.search(vectors, fetch)
        probes, cells.nprobe = cells.nprobe, cells.nlist
        try:
            return self._index.search(vectors, fetch)
        finally:
            cells.nprobe = probes

    def _exact(self, query: np.ndarray, figures: np.ndarray, ids: np.ndarray) -> np.ndarray:
        if not isinstance(self._index, import_faiss().IndexFlat):
            return figures.astype(np.float64)
        return np.multiply(self._index.reconstruct_batch(ids), query, dtype=np.float64).sum(axis=1)


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


def _tail(error: RuntimeError) -> str:
    """The part of a FAISS message after the C++ signature and place, on one line."""
    return " ".join(str(error).rsplit(".cpp:", 1)[-1].split(": ", 1)[-1].split())
