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


@pytest.mark.parametrize(
    ("kind", "parameter"),
    [
        ("IVF16,Flat", 8),
        ("IVF4,Flat", 4),
        ("IVF16,Flat; nprobe=3", 3),
        ("HNSW8", 64),
        ("HNSW8; efConstruction=20,efSearch=7", 7),
    ],
)
def test_search_parameters_are_kept_with_the_index_and_hold_once_loaded(kind, parameter, tmp_path):
    def parameter_of(index):
        cells = faiss.try_extract_index_ivf(index._index)
        return index._index.hnsw.efSearch if cells is None else cells.nprobe

    vectors, queries = draw(1000), draw(50, seed=3)
    built = VectorIndex.build(vectors, kind)
    built.write(tmp_path / "index")
    loaded = VectorIndex.read(tmp_path / "index")
    assert parameter_of(built) == parameter_of(loaded) == parameter
    assert np.array_equal(loaded.search(queries, 2)[1], built.search(queries, 2)[1])


def test_more_cells_find_more(tmp_path):
    vectors, queries = draw(2000), draw(200, seed=3)
    index = VectorIndex.build(vectors, "IVF32,Flat; nprobe=1")
    right = brute_force(vectors, queries, 1)[1]
    few = (index.search(queries, 1)[1] == right).mean()
    index.set_parameters("nprobe=32")
    assert few < 0.7
    assert (index.search(queries, 1)[1] == right).all()


def test_a_graph_of_clusters_and_equal_vectors_finds_nearly_all():
    # Ids would tell twins apart that are equally near; a right answer is one as similar as the best.
    generator = np.random.default_rng(0)
    centres = generator.standard_normal((60, 64))
    vectors = unit(centres[generator.integers(0, 60, 3000)] + 0.3 * generator.standard_normal((3000, 64)), 64)
    vectors[2000:] = vectors[:1000]
    queries = unit(vectors[:300] + 0.05 * generator.standard_normal((300, 64)), 64)
    similarities, ids = VectorIndex.build(vectors, "HNSW16").search(queries, 1)
    best, lowest = brute_force(vectors, queries, 1)
    assert (similarities >= best - 1e-5).mean() >= 0.99
    assert (ids == lowest).mean() >= 0.98


@pytest.mark.parametrize("kind", ["Flat", "IVF16,Flat", "HNSW8"])
def test_vectors_come_back_in_the_order_they_were_added(kind, tmp_path):
    vectors = draw(1000)
    VectorIndex.build(7 * vectors, kind).write(tmp_path / "index")
    assert VectorIndex.read(tmp_path / "index").vectors() == pytest.approx(vectors, abs=1e-6)


@pytest.mark.parametrize("kind", ["Flat", "IVF16,Flat", "SQ8", "HNSW8"])
def test_adding_to_a_mapped_index_leaves_its_file_alone(kind, tmp_path):
    VectorIndex.build(draw(1000), kind).write(tmp_path / "index")
    before = (tmp_path / "index").read_bytes()
    index = VectorIndex.read(tmp_path / "index")
    index.add(draw(3, seed=8))
    assert index.search(draw(3, seed=8), 1)[1][:, 0].tolist() == [1000, 1001, 1002]
    assert (tmp_path / "index").read_bytes() == before


def test_chunks_and_the_sample_to_train_on_change_nothing(monkeypatch):
    vectors, queries = draw(1000), draw(50, seed=3)
    whole = VectorIndex.build(vectors, "SQ8")
    monkeypatch.setattr("rarrg.store.vector_index.CHUNK", 64)
    assert np.array_equal(VectorIndex.build(vectors, "SQ8").search(queries, 5)[1], whole.search(queries, 5)[1])
    monkeypatch.setattr("rarrg.store.vector_index.TRAINING", 500)
    similarities, _ = VectorIndex.build(vectors, "SQ8").search(queries, 1)
    assert similarities == pytest.approx(brute_force(vectors, queries, 1)[0], abs=0.02)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("IVF4,Flat; nprobes=3", "FAISS knows no parameter 'nprobes' of such an index"),
        ("Flat; nprobe=3", "FAISS knows no parameter 'nprobe' of such an index"),
        ("IVF4,Flat; nprobe=0", "with numbers from 1, got 'nprobe=0'"),
        ("IVF4,Flat; nprobe=2.5", "with numbers from 1, got 'nprobe=2.5'"),
        ("IVF4,Flat; nprobe", "parameters are as nprobe=16"),
    ],
)
def test_parameters_that_are_refused(kind, message):
    with pytest.raises(RarrgError, match=message):
        VectorIndex.build(draw(200), kind)


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
