"""Search in the phrase store beside sentence-transformers and a numpy product: latency, recall, memory, time to load.

    python benchmarks/retrieval.py [--phrases 243064] [--quick] [--json FILE]

The phrases are made up: unit vectors in clusters of clusters, one of five an exact copy of another. Each
kind of index is built, and loaded, in a process of its own; then one process searches with all in turn. What is found
counts as right if it is as similar as the exact answer. The embeddings of real phrases (IU X-Ray, MiniLM) follow where
they are at hand. ``--phrases 1000000`` leaves out the graph, whose build alone takes many minutes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rarrg.index_tuning import (
    BATCH,
    COSINES,
    IMAGE,
    RECALL,
    KindFigures,
    joined,
    kinds_for,
    like_queries,
    measure,
    recall,
    similarities_of,
)
from rarrg.store.phrase_store import INDEX, PhraseStore

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.measuring import Goal, Report, Table, alternate, arguments, finish, measurement, spread
from benchmarks.retrieval_phrases import DIM, make_up, real_phrases

PHRASES = 243_064
"""Key phrases of MIMIC-CXR's training reports, as the paper counts them."""

GRAPH = "HNSW32; efConstruction=40"
"""FAISS's own default, for the time that its build takes; the store's is 128, and finds a little more."""

GRAPH_LIMIT = 300_000
IU_XRAY = Path(__file__).resolve().parents[2] / "shared" / "data" / "iu_xray"
SIZES = (1, IMAGE, BATCH)
TIMED = (BATCH, 1, IMAGE)
"""The order in which they are timed: the batches touch what is mapped, as the first reports of a process do."""
NUMPY = "numpy, unit vectors"


@dataclass(frozen=True)
class Costs:
    """What a kind of index costs, from a process that built it and others that loaded it.

    Attributes:
        build: Seconds to make the store of embeddings and phrases.
        build_memory: Largest private memory of that beside imports, the phrases and the embeddings, which are mapped.
        file: Size of the index file.
        load: Seconds of each load: checksums, mapping, phrases.
        load_memory: Largest resident memory of a load and a batch of searches, mapped pages counted, over imports.

    Sizes are in bytes.
    """

    build: float
    build_memory: int
    file: int
    load: list[float]
    load_memory: int


def alone(task: str, *words: object) -> Any:
    """What benchmarks/retrieval_costs.py prints, in a fresh process that imports no more than a store needs."""
    command = [sys.executable, str(Path(__file__).with_name("retrieval_costs.py")), task, *map(str, words)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def costs(kind: str, embeddings: Path, store: Path, queries: Path, repeats: int) -> Costs:
    """Build a store and load it, each in a process of its own."""
    seconds, memory = alone("build", kind, embeddings, store)
    loads = [alone("load", store, *([queries] if number == 0 else [])) for number in range(repeats)]
    size = (store / INDEX).stat().st_size
    return Costs(seconds, memory, size, [each for each, _ in loads], max(each for _, each in loads))


def in_turn(queries: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """So many queries at a time, others each time."""
    return cycle(queries[start : start + size] for start in range(0, len(queries) - size + 1, size))


def _next(call: Callable[[np.ndarray], np.ndarray], asked: Iterator[np.ndarray], kept: list[np.ndarray]) -> None:
    kept.append(call(next(asked)))


def others(vectors: np.ndarray) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """What one would write instead; each gives ids of the nearest, ``[queries]``."""
    import torch
    from sentence_transformers import util

    corpus = torch.from_numpy(vectors)

    def semantic_search(queries: np.ndarray, score: Callable[..., Any]) -> np.ndarray:
        found = util.semantic_search(torch.from_numpy(queries), corpus, top_k=1, score_function=score)
        return np.array([each[0]["corpus_id"] for each in found])

    return {
        NUMPY: lambda queries: (queries @ vectors.T).argmax(axis=1),
        "semantic_search, unit vectors": lambda queries: semantic_search(queries, util.dot_score),
        "semantic_search, as it comes": lambda queries: semantic_search(queries, util.cos_sim),
    }


def searchers(stores: Mapping[str, Path], kinds: Mapping[str, list[str]]) -> dict[str, Callable[..., np.ndarray]]:
    """Each kind with each of its search parameters: takes queries and k, gives ids ``[queries, k]``."""
    found: dict[str, Callable[..., np.ndarray]] = {}
    for factory, searches in kinds.items():
        store = PhraseStore.load(stores[factory])
        for parameters in searches:
            found[joined(factory, parameters)] = partial(_search, store, parameters)
    return found


def _search(store: PhraseStore, parameters: str, queries: np.ndarray, k: int = 1) -> np.ndarray:
    if parameters:
        store._index.set_parameters(parameters)  # microseconds
    return store.search(queries, k)[1]


def real_table(folder: Path) -> list[Table]:
    """The kinds of index on real phrases; nothing where they are not at hand."""
    if not folder.is_dir():
        sys.stderr.write(f"no IU X-Ray in {folder}: its phrases are left out\n")
        return []
    with TemporaryDirectory() as place:
        vectors, weights = real_phrases(folder, Path(place) / "phrases.jsonl")
        queries = like_queries(vectors, weights, COSINES, 2 * BATCH)
        found = list(measure(vectors, queries, kinds_for(len(vectors)), Path(place)))
    note = "So few phrases are searched exactly in less time than an image takes to be read."
    columns = ("index", *(f"{size} queries, ms" for size in SIZES), "recall@1", "recall@10")
    return [Table(f"{len(vectors):,} phrases of IU X-Ray, MiniLM", columns, [_real_row(each) for each in found], note)]


def _real_row(figures: KindFigures) -> tuple[str, ...]:
    times = (f"{each.median * 1e3:.3g} ± {each.iqr / 2 * 1e3:.2g}" for each in figures.latency.values())
    return (figures.kind, *times, f"{figures.recall_1:.4f}", f"{figures.recall_10:.4f}")


def run(options: argparse.Namespace, place: Path) -> Report:
    """Measure all."""
    count = options.phrases or (20_000 if options.quick else PHRASES)
    rounds = {1: 5, IMAGE: 5, BATCH: 2} if options.quick else {1: 20, IMAGE: 15, BATCH: 2}
    embeddings = place / "embeddings.npy"
    weights = make_up(count, embeddings)
    vectors = np.load(embeddings)
    queries = like_queries(vectors, weights, COSINES, 2 * BATCH)
    np.save(place / "queries.npy", queries[:BATCH])
    kinds = kinds_for(count)
    searches = kinds.pop("HNSW32")
    kinds.pop("SQfp16")  # SQ8's speed at twice its size; rarrg index tune has it
    if count <= GRAPH_LIMIT:
        kinds[GRAPH] = searches
    stores = {kind: place / f"store{number}" for number, kind in enumerate(kinds)}
    cost = {kind: costs(kind, embeddings, stores[kind], place / "queries.npy", 2) for kind in kinds}

    ours = searchers(stores, kinds)
    calls = {**ours, **others(vectors)}
    timed, kept = {}, dict[int, dict[str, list[np.ndarray]]]()
    for size in TIMED:
        # The answers to batches tell the recall too: rarrg is asked for ten.
        asked = calls | {name: partial(call, k=10) for name, call in ours.items()} if size == BATCH else calls
        found = kept[size] = {name: [] for name in asked}
        turns = {name: partial(_next, call, in_turn(queries, size), found[name]) for name, call in asked.items()}
        timed[size] = alternate(turns, rounds[size], warm=0 if size == BATCH else 1)
    similar = {
        name: similarities_of(vectors, queries, np.concatenate(ids).reshape(len(queries), -1))
        for name, ids in kept[BATCH].items()
    }
    exact = similar["Flat"]
    recalls = {
        name: (recall(exact[:, :1], each[:, :1]), recall(exact, each) if name in ours else None)
        for name, each in similar.items()
    }

    search = [
        (
            name,
            *(spread(timed[size][name]) for size in SIZES),
            f"{timed[IMAGE]['Flat'].median / timed[IMAGE][name].median:.2f}",
            *("-" if each is None else f"{each:.4f}" for each in recalls[name]),
        )
        for name in calls
    ]
    keep = [
        (
            kind,
            f"{each.build:.1f}",
            f"{each.file / 1e6:.0f}",
            f"{each.build_memory / 1e6:.0f} ({each.build_memory / each.file:.2f})",
            spread(measurement(kind, each.load), "s"),
            f"{each.load_memory / 1e6:.0f} ({each.load_memory / each.file:.2f})",
        )
        for kind, each in cost.items()
    ]
    good = [name for name in ours if name != "Flat" and recalls[name][0] >= RECALL]
    best = min(good or ["Flat"], key=lambda name: timed[IMAGE][name].median)
    times = timed[IMAGE]["Flat"].median / timed[IMAGE][best].median
    of_best = next(each for kind, each in cost.items() if best.startswith(kind))
    seconds = measurement(best, of_best.load)
    memory = max(of_best.build_memory, of_best.load_memory) / of_best.file
    return Report(
        "Retrieval" if count <= PHRASES else f"Retrieval of {count:,} phrases",
        f"{count:,} unit vectors of {DIM} dimensions made of parts as phrases are, one of five a copy; queries lie "
        "between two phrases, at cosines that a trained model showed. rarrg's phrase store with each kind of index "
        "beside sentence-transformers' semantic_search and a product of unit vectors in numpy.",
        [
            Table(
                f"The nearest of {count:,} phrases",
                ("search", *(f"{size} queries, ms" for size in SIZES), "times exact", "recall@1", "recall@10"),
                search,
                f"{IMAGE} queries are about an image's; times exact are theirs. For each of {BATCH} queries rarrg is "
                f"asked for ten phrases, the others for one; they come first, and bring what is mapped into memory. "
                f"Recall is of {len(queries)} queries.",
            ),
            Table(
                "What an index costs",
                ("index", "build, s", "file, MB", "memory to build, MB (of file)", "load, s", "loaded, MB (of file)"),
                keep,
                "Each in a fresh process, memory over what imports take. To build: private memory beside phrases and "
                "embeddings, which are given. Loaded: resident memory after a batch of searches, "
                "mapped pages included; they are shared by processes and can be dropped. A load reads the whole file "
                "for its checksum.",
            ),
            *([] if options.quick or options.phrases else real_table(options.data)),
        ],
        [
            Goal(
                f"{count:,} phrases: recall@1 at least {RECALL} and at least 20 times as fast as exact for an image",
                f"{best}: recall@1 {recalls[best][0]:.4f}, {times:.1f} times",
                best in good and times >= 20,
            ),
            Goal(f"{count:,} phrases: loaded in under 1 s", f"{best}: {spread(seconds, 's')} s", seconds.median < 1),
            Goal(
                f"{count:,} phrases: peak memory under 1.3 times the index, built and loaded",
                f"{best}: {memory:.2f}",
                memory < 1.3,
            ),
        ],
    )


def main() -> None:
    """Print the tables."""
    parser = arguments(__doc__)
    parser.add_argument("--phrases", type=int, help=f"how many; {PHRASES} by default")
    parser.add_argument("--data", type=Path, default=IU_XRAY, help="folder of IU X-Ray")
    options = parser.parse_args()
    with TemporaryDirectory() as place:
        finish(run(options, Path(place)), options)


if __name__ == "__main__":
    main()
