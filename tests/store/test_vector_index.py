"""Search against brute force, ties, index types, and the choice between CPU and GPU."""

from __future__ import annotations

import faiss
import numpy as np
import pytest

from rarrg.errors import RarrgError
from rarrg.store.vector_index import VectorIndex, unit


def draw(count: int, dim: int = 64, seed: int = 0) -> np.ndarray:
    return unit(np.random.default_rng(seed).standard_normal((count, dim), dtype=np.float32), dim, ["x"] * count)


def brute_force(vectors, queries, k):
    similarities = queries.astype(np.float64) @ vectors.astype(np.float64).T
    ids = np.argsort(-similarities, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(similarities, ids, axis=1), ids


@pytest.mark.parametrize("k", [1, 10])
@pytest.mark.parametrize("count", [1, 25, 300])
def test_a_flat_index_equals_brute_force_on_ten_thousand_vectors(count, k):
    vectors, queries = draw(10_000), draw(count, seed=1)
    similarities, ids = VectorIndex.build(vectors, "Flat").search(queries, k)
    expected, places = brute_force(vectors, queries, k)
    assert np.array_equal(ids, places)
    assert similarities == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("k", [1, 2, 4, 7, 1003])
@pytest.mark.parametrize("count", [1, 30, 257])
def test_equal_vectors_come_lowest_number_first_in_any_batch(count, k):
    vectors = draw(1003, dim=768)
    twins = [3, 40, 501, 998, 1002]
    vectors[twins] = vectors[3]
    noise = np.random.default_rng(1).standard_normal((count, 768), dtype=np.float32)
    queries = unit(vectors[3] + 0.02 * noise, 768)
    similarities, ids = VectorIndex.build(vectors, "Flat").search(queries, k)
    assert (ids[:, :5] == twins[:k]).all()
    assert (similarities[:, : min(k, 5)] == similarities[:, :1]).all()
    assert all(len(set(row)) == k for row in ids.tolist())


def test_many_equal_vectors():
    vectors = np.repeat(draw(2, dim=8), 600, axis=0)
    _, ids = VectorIndex.build(vectors, "Flat").search(vectors[[0, 600]], 3)
    assert ids.tolist() == [[0, 1, 2], [600, 601, 602]]


def test_a_query_finds_the_same_alone_and_in_a_batch():
    vectors, queries = draw(2000), draw(100, seed=2)
    index = VectorIndex.build(vectors, "Flat")
    together = index.search(queries, 5)
    for row in range(100):
        alone = index.search(queries[[row]], 5)
        assert all(np.array_equal(one[0], many[row]) for one, many in zip(alone, together, strict=True))


@pytest.mark.parametrize(
    ("factory", "recall"), [("SQ8", 0.95), ("IVF16,Flat", 0.6), ("IVF8,SQ8", 0.9), ("OPQ8,IVF8,Flat", 0.9)]
)
def test_other_index_types_come_close_to_brute_force(factory, recall, tmp_path):
    vectors, queries = draw(2000), draw(100, seed=3)
    index = VectorIndex.build(vectors, factory)
    similarities, ids = index.search(queries, 1)
    expected, places = brute_force(vectors, queries, 1)
    assert (ids == places).mean() >= recall
    right = ids == places
    assert similarities[right] == pytest.approx(expected[right], abs=0.02)
    index.write(tmp_path / "index")
    again = VectorIndex.read(tmp_path / "index")
    assert np.array_equal(again.search(queries, 3)[1], index.search(queries, 3)[1])  # cells to probe are kept


def test_an_ivf_index_looks_into_all_cells_where_its_own_hold_too_few():
    vectors = np.repeat(np.eye(16, dtype=np.float32), 20, axis=0) + 0.01 * draw(320, dim=16)
    vectors = unit(vectors, 16)
    index = VectorIndex.build(vectors, "IVF16,Flat")
    similarities, ids = index.search(vectors[:2], 320)
    assert all(sorted(row) == list(range(320)) for row in ids.tolist())
    assert similarities == pytest.approx(brute_force(vectors, vectors[:2], 320)[0], abs=1e-6)
    assert faiss.extract_index_ivf(index._index).nprobe == 8


def test_an_index_that_cannot_be_trained_says_so():
    with pytest.raises(
        RarrgError, match=r"store.index: 'IVF64,Flat' cannot be trained on 5 phrases; take Flat"
    ) as caught:
        VectorIndex.build(draw(5), "IVF64,Flat")
    assert "\n" not in str(caught.value)


def test_an_unknown_index_is_named():
    with pytest.raises(RarrgError, match=r"store.index: FAISS refuses 'Flatt' \(could not parse index string Flatt\)"):
        VectorIndex.build(draw(5), "Flatt")


def test_numbers_of_any_size_are_brought_to_unit_length():
    rows = np.stack([draw(1)[0] * scale for scale in (1e-30, 1.0, 1e30)])
    assert unit(rows, 64) == pytest.approx(np.repeat(draw(1), 3, axis=0), abs=1e-6)
    assert unit(draw(2).astype(np.float16), 64).dtype == np.float32


class OnGpu:
    """Stands for a GPU copy: answers as the CPU index does, and counts."""

    def __init__(self, index):
        self.copy = faiss.clone_index(index)
        self.searches = 0

    def search(self, vectors, k):
        assert k <= 2048
        self.searches += 1
        return self.copy.search(vectors, k)


@pytest.fixture
def gpu(monkeypatch):
    made = []

    def to_gpus(index):
        made.append(OnGpu(index))
        return made[-1]

    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1)
    monkeypatch.setattr(faiss, "index_cpu_to_all_gpus", to_gpus, raising=False)
    return made


def test_a_gpu_is_searched_where_there_is_one_and_files_stay_cpu(gpu, tmp_path):
    index = VectorIndex.build(draw(100), "Flat")
    index.search(draw(5), 3)
    index.search(draw(5), 3)
    assert [copy.searches for copy in gpu] == [2]
    index.add(draw(5, seed=4))
    assert index.search(draw(5, seed=4), 1)[1][:, 0].tolist() == [100, 101, 102, 103, 104]  # copied anew
    assert len(gpu) == 2
    index.write(tmp_path / "index")
    assert isinstance(faiss.read_index(str(tmp_path / "index")), faiss.IndexFlat)


def test_more_results_than_a_gpu_gives_come_from_the_cpu(gpu):
    vectors = draw(3000, dim=4)
    assert VectorIndex.build(vectors, "Flat").search(vectors[:1], 2500)[1].shape == (1, 2500)
    assert [copy.searches for copy in gpu] == [0]


def test_an_index_type_that_no_gpu_holds_is_searched_on_the_cpu_with_a_warning(monkeypatch, caplog):
    def refuse(_index):
        raise RuntimeError("Error in clone at x.cpp:1: This index type is not implemented on GPU.")

    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1)
    monkeypatch.setattr(faiss, "index_cpu_to_all_gpus", refuse, raising=False)
    index = VectorIndex.build(draw(100), "HNSW8")
    assert index.search(draw(3), 1)[1][:, 0].tolist() == [0, 1, 2]
    index.search(draw(3), 1)
    assert [record.getMessage() for record in caplog.records] == [
        "phrase store: searching on the CPU, as FAISS cannot copy the index to GPU "
        "(This index type is not implemented on GPU.)"
    ]
