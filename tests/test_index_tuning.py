"""rarrg index tune: its queries, what counts as found, what it recommends, and the command on a store."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rarrg.artifacts import write_jsonl
from rarrg.cli import main
from rarrg.index_tuning import (
    BATCH,
    COSINES,
    IMAGE,
    KindFigures,
    Latency,
    kinds_for,
    like_queries,
    measure,
    recall,
    recommended,
    similarities_of,
)
from rarrg.store.phrase_store import PhraseStore, StoredPhrase
from rarrg.store.vector_index import VectorIndex, unit

DIM = 24
ENCODER = {"encoder": "packaged:tiny", "revision": None, "dim": DIM, "fingerprint": "f" * 64}


def draw(count, seed=0):
    return unit(np.random.default_rng(seed).standard_normal((count, DIM)), DIM)


def figures(kind, seconds, recall_1=1.0):
    latency = {size: Latency(seconds, 0.0) for size in (1, IMAGE, BATCH)}
    return KindFigures(kind, 1.0, 1.0, latency, recall_1, 1.0)


@pytest.fixture
def store(tmp_path):
    phrases = [StoredPhrase(f"small nodule {place}", 1 + 300 // (place + 1)) for place in range(300)]
    PhraseStore.build(phrases, draw(300), ENCODER).save(tmp_path / "store")
    return tmp_path / "store"


def test_queries_stand_at_the_cosine_from_frequent_phrases_and_towards_another():
    vectors = draw(50)
    weights = np.zeros(50)
    weights[[3, 7]] = 1.0
    queries = like_queries(vectors, weights, [0.8] * 7, 200)
    cosines = queries @ vectors[[3, 7]].T
    same = np.isclose(cosines.max(axis=1), 1, atol=1e-5)  # a phrase drawn with itself has nowhere to go
    assert 0.3 < same.mean() < 0.7
    assert np.isclose(cosines[~same], 0.8, atol=1e-5).any(axis=1).all()
    plane = np.linalg.lstsq(vectors[[3, 7]].T, queries.T, rcond=None)[0]
    assert np.allclose(queries.T, vectors[[3, 7]].T @ plane, atol=1e-5)


def test_cosines_follow_the_quantiles():
    vectors = np.eye(DIM, dtype=np.float32)
    queries = like_queries(vectors, np.ones(DIM), COSINES, 4000)
    best = queries.max(axis=1)
    spread = best[best < 0.999]  # but for a phrase drawn with itself
    assert np.quantile(spread, [0.25, 0.5, 0.75]) == pytest.approx(COSINES[2:5], abs=0.02)


def test_queries_of_a_seed_are_the_same():
    one, other = (like_queries(draw(50), np.ones(50), [0.8] * 7, 20, seed) for seed in (1, 2))
    assert np.array_equal(one, like_queries(draw(50), np.ones(50), [0.8] * 7, 20, 1))
    assert not np.array_equal(one, other)


def test_a_phrase_that_is_as_near_counts_as_found():
    vectors = draw(40)
    vectors[20:] = vectors[:20]
    queries = unit(vectors[:20] + 0.05 * draw(20, 1), DIM)
    exact = similarities_of(vectors, queries, VectorIndex.build(vectors, "Flat").search(queries, 4)[1])
    twins = np.arange(20)[:, None] + 20
    assert recall(exact[:, :1], similarities_of(vectors, queries, twins)) == 1
    twins[5] = 0
    assert recall(exact[:, :1], similarities_of(vectors, queries, twins)) == 0.95
    assert recall(exact, exact[:, [3, 0, 1, 2]]) == 1


def test_measuring_finds_what_a_kind_misses(tmp_path):
    vectors = draw(2000)
    queries = like_queries(vectors, np.ones(2000), [0.6] * 7, 300)
    found = {
        each.kind: each
        for each in measure(vectors, queries, {"Flat": [""], "IVF32,Flat": ["nprobe=1", "nprobe=32"]}, tmp_path)
    }
    flat, few, all_cells = found["Flat"], found["IVF32,Flat; nprobe=1"], found["IVF32,Flat; nprobe=32"]
    assert (flat.recall_1, flat.recall_10, all_cells.recall_1, all_cells.recall_10) == (1, 1, 1, 1)
    assert few.recall_10 < few.recall_1 < 0.9
    assert flat.megabytes == pytest.approx(2000 * DIM * 4 / 1e6, rel=0.01)
    assert flat.latency.keys() == {1, IMAGE, BATCH}
    assert all(each.latency[IMAGE].median > 0 for each in found.values())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([figures("a", 0.004), figures("b", 0.002)], "b"),
        ([figures("a", 0.004), figures("b", 0.002, 0.998)], "a"),
        ([figures("a", 0.2), figures("b", 0.3)], "Flat"),
    ],
)
def test_the_fastest_that_misses_at_most_one_of_a_thousand_is_recommended(others, expected):
    assert recommended([figures("Flat", 0.1), *others]).kind == expected


def test_exact_search_that_is_quick_enough_is_not_left():
    assert recommended([figures("Flat", 0.004), figures("a", 0.0001)]).kind == "Flat"


@pytest.mark.parametrize(("count", "cells"), [(2, 1), (300, 4), (2181, 32), (243_064, 1024), (1_000_000, 2048)])
def test_cells_grow_with_the_phrases(count, cells):
    assert f"IVF{cells},Flat" in kinds_for(count)
    assert all(int(search.split("=")[1]) <= cells for search in kinds_for(count)[f"IVF{cells},Flat"])


def test_the_command_on_a_store_prints_the_line_to_set_and_writes_figures(store, tmp_path, capsys):
    assert main(["index", "tune", "--store", str(store), "--json", str(tmp_path / "f.json")]) == 0
    printed = capsys.readouterr().out
    assert "300 phrases of 24 dimensions\n4096 queries at cosines around 0.95 (a model of IU X-Ray" in printed
    written = json.loads((tmp_path / "f.json").read_text())
    assert f"store.index: {written['recommended']}\n" in printed
    kinds = [each["kind"] for each in written["kinds"]]
    assert kinds[:3] == ["Flat", "SQfp16", "SQ8"]
    assert all(kind in printed for kind in kinds)
    assert written["kinds"][0]["recall_1"] == 1
    for kind in kinds:
        PhraseStore.load(store).with_index(kind)  # each line may be set


def test_a_model_folder_gives_its_store_and_the_cosines_of_its_evaluation(store, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("rarrg.index_tuning.kinds_for", lambda _count: {"Flat": [""]})
    assert main(["index", "tune", "--store", str(tmp_path)]) == 0
    assert f"around 0.95 (a model of IU X-Ray; rarrg evaluate --model {tmp_path} gives" in capsys.readouterr().out
    found = [{"frontal": [{"similarity": 0.5}, {"similarity": 0.6}], "lateral": [{"similarity": 0.7}]}, {"frontal": []}]
    write_jsonl(tmp_path / "evaluation" / "predictions.jsonl", ({"retrieved": views} for views in found))
    assert main(["index", "tune", "--store", str(tmp_path)]) == 0
    assert "around 0.60 (the model in evaluation/predictions.jsonl)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["index", "tun"], "rarrg index tun: no such command; there is tune"),
        (["index", "tune", "--store", "{}/nowhere"], "nowhere: holds neither a phrase store nor a model with one"),
        (["index", "tune", "--store", "{}/rounded"], "its index keeps only roundings of the embeddings"),
    ],
)
def test_what_cannot_be_tuned_is_one_clear_line(argv, message, store, tmp_path, capsys):
    PhraseStore.load(store).with_index("SQ8").save(tmp_path / "rounded")
    assert main([word.format(tmp_path) for word in argv]) == 2
    assert message in capsys.readouterr().err
