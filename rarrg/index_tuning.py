"""``rarrg index tune``: which kind of index suits a phrase store, measured on its own phrases.

Each kind is built of the store's embeddings, written, mapped and searched as :class:`PhraseStore` does it. What it
finds is held against exact search by similarity, not by id: of phrases that are equally near, any is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from rarrg.artifacts import iterate_jsonl, write_json
from rarrg.errors import RarrgError
from rarrg.store.phrase_store import INDEX, PhraseStore
from rarrg.store.vector_index import ROUNDING, VectorIndex, unit

IMAGE = 10
"""Queries that an image asks, about; a mean image of MIMIC-CXR selects seven."""

BATCH = 1024
QUERIES = 4096
LEVELS = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
COSINES = (0.615, 0.785, 0.913, 0.955, 0.975, 0.98, 0.984)
"""Quantiles, at LEVELS, of the cosine of a query to the phrase it finds: of a model of IU X-Ray in validation."""

PREDICTIONS = "evaluation/predictions.jsonl"
"""What rarrg evaluate leaves in a model's folder."""

RECALL = 0.999
QUICK = 0.005
"""Seconds for an image within which exact search is not worth leaving: image encoders take a hundred times that."""

_REPEATS = {1: 50, IMAGE: 30, BATCH: 3}


@dataclass(frozen=True)
class TuneOptions:
    """What to tune for.

    Attributes:
        store: Folder of a phrase store, or of a model that has one.
        json: File for the figures; none writes none.
    """

    store: Path
    json: Path | None = None


@dataclass(frozen=True)
class Latency:
    """Seconds of a search: median and interquartile range over repeats, each with other queries."""

    median: float
    iqr: float


@dataclass(frozen=True)
class KindFigures:
    """What one kind of index costs and finds.

    Attributes:
        kind: As ``store.index`` takes it.
        build_seconds: To train it and add all vectors; the same for kinds that differ in their search alone.
        megabytes: Of its file, which is also what it takes of memory once all of it was searched.
        latency: Seconds for so many queries at once, for the nearest phrase of each.
        recall_1: Share of the queries whose phrase is as similar as the nearest.
        recall_10: Share of the ten found that are at least as similar as the tenth nearest.
    """

    kind: str
    build_seconds: float
    megabytes: float
    latency: dict[int, Latency]
    recall_1: float
    recall_10: float


def kinds_for(count: int) -> dict[str, list[str]]:
    """Kinds of index to measure for so many phrases, with the search parameters of each.

    Cells of an IVF index are a power of two near twice the root of the number, with at least 39 phrases a cell, below
    which FAISS warns.
    """
    cells = 2 ** min(round(np.log2(2 * np.sqrt(count))), int(np.log2(max(1, count / 39))))
    probes = [probe for probe in (1, 4, 16, 32, 48, 64) if probe <= cells]
    return {
        "Flat": [""],
        "SQfp16": [""],
        "SQ8": [""],
        f"IVF{cells},Flat": [f"nprobe={probe}" for probe in probes],
        "HNSW32": ["efSearch=64", "efSearch=256"],
    }


def joined(factory: str, parameters: str) -> str:
    """A kind of index as ``store.index`` takes it: a kind with more parameters."""
    if not parameters:
        return factory
    return f"{factory}{',' if ';' in factory else '; '}{parameters}"


def like_queries(
    vectors: np.ndarray, weights: np.ndarray, cosines: Sequence[float], count: int, seed: int = 0
) -> np.ndarray:
    """Unit vectors like those that a retriever asks with.

    Each stands at some cosine from a stored phrase, in the direction of another. A trained model's own queries lie
    between phrases too, as it hedges; noise of all directions would leave the space of the phrases and is found more
    easily.

    Args:
        vectors: Stored unit vectors ``[phrases, dim]``, at least two of them different.
        weights: How often each phrase occurs, ``[phrases]``; phrases are drawn in proportion.
        cosines: Quantiles of the cosine, at LEVELS, in (0, 1].
        count: Queries to make.
        seed: Of the draw.

    Returns:
        ``[count, dim]``, float32.
    """
    generator = np.random.default_rng(seed)
    share = weights / weights.sum()
    near, other = (vectors[generator.choice(len(vectors), count, p=share)] for _ in range(2))
    away = other - np.einsum("nd,nd->n", other, near)[:, None] * near
    length = np.linalg.norm(away, axis=1, keepdims=True)
    away = np.divide(away, length, out=np.zeros_like(away), where=length > 1e-3)  # the same phrase twice: no noise
    cosine = np.interp(generator.random(count), LEVELS, cosines)[:, None]
    return unit(cosine * near + np.sqrt(1 - cosine**2) * away, vectors.shape[1])


def similarities_of(vectors: np.ndarray, queries: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Exact similarities of found vectors, float64 ``[queries, k]``."""
    rows = zip(queries, ids, strict=True)
    return np.stack([(vectors[found].astype(np.float64) * query).sum(axis=1) for query, found in rows])


def recall(exact: np.ndarray, found: np.ndarray) -> float:
    """Share of found vectors that are at least as similar as the last of the exact answer.

    Args:
        exact: Similarities of the nearest, best first, ``[queries, k]``.
        found: Exact similarities of what was found, ``[queries, k]``.
    """
    return float((found >= exact[:, -1:] - ROUNDING).mean())


def latencies(search: Callable[[np.ndarray], object], queries: np.ndarray) -> dict[int, Latency]:
    """Time searches for one query, an image's and a batch, each repeat with other queries.

    Args:
        search: Takes queries ``[n, dim]``.
        queries: At least a batch of them.
    """
    found = {}
    for size, repeats in _REPEATS.items():
        search(queries[-size:])
        seconds = []
        for repeat in range(repeats):
            start = repeat * size % max(1, len(queries) - size + 1)
            asked = queries[start : start + size]
            begin = perf_counter()
            search(asked)
            seconds.append(perf_counter() - begin)
        low, median, high = np.quantile(seconds, [0.25, 0.5, 0.75])
        found[size] = Latency(float(median), float(high - low))
    return found


def measure(
    vectors: np.ndarray, queries: np.ndarray, kinds: Mapping[str, Sequence[str]], folder: Path
) -> Iterator[KindFigures]:
    """Build, map and search each kind of index.

    Args:
        vectors: Unit vectors ``[phrases, dim]``.
        queries: Unit vectors ``[queries, dim]``.
        kinds: Kinds to measure and the search parameters of each; ``Flat``, which is exact, first.
        folder: For the index files, one at a time.

    Yields:
        Figures of each kind with each of its parameters.
    """
    k = min(10, len(vectors))
    exact = np.empty((0, k))
    for factory, searches in kinds.items():
        start = perf_counter()
        built = VectorIndex.build(vectors, factory)
        seconds = perf_counter() - start
        file = folder / "index.faiss"
        built.write(file)
        del built
        index = VectorIndex.read(file)
        for parameters in searches:
            if parameters:
                index.set_parameters(parameters)
            found = similarities_of(vectors, queries, index.search(queries, k)[1])
            if not len(exact):
                exact = found
            yield KindFigures(
                joined(factory, parameters),
                seconds,
                file.stat().st_size / 1e6,
                latencies(lambda asked, index=index: index.search(asked, 1), queries),  # type: ignore[misc]
                recall(exact[:, :1], found[:, :1]),
                recall(exact, found),
            )
        file.unlink()


def recommended(figures: Sequence[KindFigures]) -> KindFigures:
    """The fastest kind for an image among those that find the nearest phrase 999 times of 1,000.

    Exact search where it needs no more than 5 ms.

    Args:
        figures: Those of ``Flat`` first.
    """
    flat = figures[0]
    if flat.latency[IMAGE].median <= QUICK:
        return flat
    good = [each for each in figures if each.recall_1 >= RECALL]
    return min(good, key=lambda each: each.latency[IMAGE].median)


def tune(options: TuneOptions, say: Callable[[str], None]) -> None:
    """Measure kinds of index on a store's phrases and say which to take.

    Args:
        options: The store.
        say: Takes a line of output.

    Raises:
        RarrgError: No store, a changed one, one whose index keeps no embeddings, or one of fewer than two phrases.
    """
    folder, cosines, source = _store_of(options.store)
    store = PhraseStore.load(folder)
    vectors = store.vectors()
    weights = np.array([phrase.count for phrase in store.phrases], dtype=np.float64)
    if len(vectors) < 2:
        raise RarrgError(f"{folder}: holds {len(vectors)} phrase; there is nothing to tune")
    queries = like_queries(vectors, weights, cosines, QUERIES)
    say(f"{len(vectors)} phrases of {store.dim} dimensions")
    say(f"{QUERIES} queries at cosines around {cosines[3]:.2f} ({source})")
    times = "".join(f"{f'{size}, ms':>9}{'':8}" for size in _REPEATS)
    say(f"{'index':28} {'build s':>7} {'MB':>7} {times} {'recall@1':>9} {'@10':>7}")
    figures = []
    with TemporaryDirectory() as place:
        for each in measure(vectors, queries, kinds_for(len(vectors)), Path(place)):
            figures.append(each)
            say(_row(each))
    best, flat = recommended(figures), figures[0]
    gain = flat.latency[IMAGE].median / best.latency[IMAGE].median
    reason = "exact, and quick enough" if best is flat else f"{gain:.0f} times as fast as exact for an image"
    say(f"recommended ({reason}):\nstore.index: {best.kind}")
    if options.json is not None:
        found = {"phrases": len(vectors), "dim": store.dim, "cosines": cosines, "recommended": best.kind}
        write_json(options.json, {**found, "kinds": [asdict(each) for each in figures]})


def _store_of(folder: Path) -> tuple[Path, Sequence[float], str]:
    """Folder of the store, quantiles of the queries' cosines, and where those are from."""
    if (folder / INDEX).is_file():
        return folder, COSINES, "a model of IU X-Ray; name the model's folder for its own"
    if not (folder / "store" / INDEX).is_file():
        raise RarrgError(f"{folder}: holds neither a phrase store nor a model with one")
    said = folder / PREDICTIONS
    if not said.is_file():
        return folder / "store", COSINES, f"a model of IU X-Ray; rarrg evaluate --model {folder} gives its own"
    views = [phrases for row in iterate_jsonl(said) for phrases in row["retrieved"].values()]
    found = [phrase["similarity"] for phrases in views for phrase in phrases]
    if not found:
        raise RarrgError(f"{said}: the model retrieved nothing there")
    return folder / "store", np.quantile(found, LEVELS).tolist(), f"the model in {PREDICTIONS}"


def _row(figures: KindFigures) -> str:
    times = [f"{each.median * 1e3:9.3g} ± {each.iqr / 2 * 1e3:<5.2g}" for each in figures.latency.values()]
    cost = f"{figures.build_seconds:7.1f} {figures.megabytes:7.0f}"
    return f"{figures.kind:28} {cost} {''.join(times)} {figures.recall_1:9.4f} {figures.recall_10:7.4f}"
