"""VectorIndex: a FAISS index of unit vectors, searched by cosine, with ties settled."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from rarrg.errors import RarrgError
from rarrg.store.faiss_index import (
    empty_index,
    fill,
    import_faiss,
    in_memory,
    keeps_vectors,
    map_index,
    reason,
    set_parameters,
)

logger = logging.getLogger(__name__)

ROUNDING = 1e-6  # more than FAISS' float32 similarities of one vector differ by place and batch size
GPU_MAX_K = 2048
CHUNK = 1 << 12
TRAINING = 1 << 14  # vectors that an index is trained on at most, unless that were fewer than the next for each cell
PER_CELL = 64


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
    check_shape(embeddings, dim, names)
    vectors = np.ascontiguousarray(embeddings, dtype=np.float32)
    lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64))
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0))
    if len(bad):
        name = f"query {bad[0]}" if names is None else f"the embedding of {names[bad[0]]!r}"
        raise RarrgError(f"phrase store: {name} is zero or not finite")
    return np.divide(vectors, lengths[:, None], out=np.empty_like(vectors), casting="same_kind")


def check_shape(embeddings: np.ndarray, dim: int, names: Sequence[str] | None = None) -> None:
    """Check that embeddings are ``[n, dim]``, one for each name.

    Raises:
        RarrgError: They are not.
    """
    noun = "queries" if names is None else "embeddings"
    if embeddings.ndim != 2 or embeddings.shape[1] != dim:
        raise RarrgError(f"phrase store: {noun} must be [n, {dim}], got {list(embeddings.shape)}")
    if names is not None and len(names) != len(embeddings):
        raise RarrgError(f"phrase store: {len(names)} phrases, but {len(embeddings)} embeddings")


class VectorIndex:
    """Unit vectors in a FAISS index, numbered from 0 in the order they were added.

    Made by :meth:`build` or :meth:`read`. Searches run on the GPUs where FAISS sees any and they can hold the index's
    type, else on the CPU; files always hold the CPU index.
    """

    def __init__(self, index: Any) -> None:
        self._index = index
        self._searcher: Any = None
        self._mapped = False

    def __len__(self) -> int:
        return int(self._index.ntotal)

    @property
    def dim(self) -> int:
        """Dimension of the vectors."""
        return int(self._index.d)

    @classmethod
    def build(cls, embeddings: np.ndarray, kind: str, names: Sequence[str] | None = None) -> VectorIndex:
        """Index embeddings ``[n, dim]``, training the index on a sample of them where its type needs it.

        A chunk at a time, so that beside the index little is in memory; the embeddings may be a file's.

        Args:
            embeddings: Of any length but 0; brought to unit length here.
            kind: See :func:`~rarrg.store.faiss_index.empty_index`; ``Flat`` is exact.
            names: What each of them is called in a message.

        Raises:
            RarrgError: A kind that FAISS refuses, too few vectors to train on, or an embedding of length 0 or not
                finite.
        """
        count, dim = embeddings.shape
        index = empty_index(dim, kind)
        if not index.is_trained:
            places = _sample(count, _training_size(index))
            try:
                index.train(
                    unit(embeddings[places], dim, None if names is None else [names[place] for place in places])
                )
            except RuntimeError as error:
                raise RarrgError(
                    f"store.index: {kind!r} cannot be trained on {count} phrases; take Flat or a smaller "
                    f"index ({reason(error)})"
                ) from error
        parts = [slice(start, start + CHUNK) for start in range(0, count, CHUNK)]

        def chunks() -> Iterator[np.ndarray]:
            for part in tqdm(parts, desc="Index phrases", disable=len(parts) <= 4):
                yield unit(embeddings[part], dim, None if names is None else names[part])

        try:
            fill(index, chunks)
        except RuntimeError as error:
            raise RarrgError(f"store.index: {kind!r} cannot be filled; take another kind ({reason(error)})") from error
        return cls(index)

    @classmethod
    def read(cls, path: Path) -> VectorIndex:
        """Map an index file, which must not be written to while the index is in use; it may be replaced or removed.

        Raises:
            RarrgError: The file is no FAISS index.
        """
        index = cls(map_index(path))
        index._mapped = True
        return index

    def write(self, path: Path) -> None:
        """Write the index file, with its search parameters; the same vectors give the same bytes (not of a graph)."""
        faiss = import_faiss()
        # Not by FAISS itself, which says nothing where the last kilobytes find the disk full.
        with path.open("wb") as file:
            faiss.write_index(self._index, faiss.PyCallbackIOWriter(file.write))

    def add(self, vectors: np.ndarray) -> None:
        """Append unit vectors ``[n, dim]``, without training. A mapped index is copied into memory first."""
        if self._mapped:
            self._index, self._mapped = in_memory(self._index), False
        self._index.add(vectors)
        self._searcher = None

    def set_parameters(self, parameters: str) -> None:
        """Search in another way from now on, as ``nprobe=16`` or ``efSearch=64``.

        Raises:
            RarrgError: The index has no such parameter.
        """
        set_parameters(self._index, parameters)
        self._searcher = None

    def vectors(self) -> np.ndarray:
        """The unit vectors, float32 ``[n, dim]``.

        Raises:
            RarrgError: The index keeps only roundings of them.
        """
        if not keeps_vectors(self._index):
            raise RarrgError(
                "phrase store: its index keeps only roundings of the embeddings; build the store with Flat, "
                "an IVF...,Flat or an HNSW index"
            )
        found: np.ndarray = self._index.reconstruct_n(0, len(self))
        return found

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
            places, found = pending[settled], found[settled]
            exact = self._exact(vectors[places], figures[settled], found)
            order = np.lexsort((found, -exact))[:, :k]
            similarities[places] = np.take_along_axis(exact, order, axis=1).clip(-1, 1)
            ids[places] = np.take_along_axis(found, order, axis=1)
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

    def _exact(self, queries: np.ndarray, figures: np.ndarray, ids: np.ndarray) -> np.ndarray:
        exact = figures.astype(np.float64)
        if isinstance(self._index, import_faiss().IndexFlat):
            for row, query in enumerate(queries):  # one by one: all vectors at once could be larger than the index
                exact[row] = np.multiply(self._index.reconstruct_batch(ids[row]), query, dtype=np.float64).sum(axis=1)
        return exact


def _training_size(index: Any) -> int:
    cells = import_faiss().try_extract_index_ivf(index)
    return TRAINING if cells is None else max(TRAINING, PER_CELL * int(cells.nlist))


def _sample(count: int, size: int) -> np.ndarray:
    """Places of at most so many of ``count`` vectors, in order; the same ones each time."""
    if count <= size:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, size, replace=False))


def _on_gpus(index: Any) -> Any:
    """A copy of the index on every GPU, or the index itself where there is none or none can hold its type."""
    faiss = import_faiss()
    if faiss.get_num_gpus() == 0:
        return index
    try:
        return faiss.index_cpu_to_all_gpus(index)
    except RuntimeError as error:
        logger.warning("phrase store: searching on the CPU, as FAISS cannot copy the index to GPU (%s)", reason(error))
        return index
