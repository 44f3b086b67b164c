"""The phrase store: merging, what the folder refuses, and what an index type must not change."""

from __future__ import annotations

import json
import shutil
import sys

import numpy as np
import pytest

from rarrg.artifacts import MANIFEST, sha256_of
from rarrg.errors import RarrgError
from rarrg.store.phrase_store import INDEX, PHRASES, PhraseStore, StoredPhrase
from rarrg.store.vector_index import VectorIndex

DIM = 16
ENCODER = {"encoder": "packaged:tiny", "revision": None, "dim": DIM, "fingerprint": "f" * 64}


def draw(count: int, seed: int = 0, dim: int = DIM) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, dim), dtype=np.float32)


def phrases_of(count: int, start: int = 0) -> list[StoredPhrase]:
    return [StoredPhrase(f"small nodule {i}", i % 3 + 1, (f"study{i}",)) for i in range(start, start + count)]


@pytest.fixture
def store() -> PhraseStore:
    return PhraseStore.build(phrases_of(20), draw(20), ENCODER)


@pytest.fixture
def folder(store, tmp_path):
    store.save(tmp_path / "store")
    return tmp_path / "store"


def edit_manifest(folder, **changes):
    """Change details or checksums of a manifest as nothing in the package would."""
    path = folder / MANIFEST
    value = json.loads(path.read_text())
    for key, change in changes.items():
        value[key] = change(value[key])
    path.write_text(json.dumps(value))


def test_a_stored_phrase_finds_itself(store):
    similarities, ids = store.search(draw(20) * 7)  # lengths do not matter
    assert similarities.shape == ids.shape == (20, 1)
    assert (similarities.dtype, ids.dtype) == (np.float32, np.int64)
    assert ids[:, 0].tolist() == list(range(20))
    assert similarities == pytest.approx(1, abs=1e-6)
    assert similarities.max() <= 1
    assert store.phrases[ids[4, 0]] == StoredPhrase("small nodule 4", 2, ("study4",))


def test_save_and_load_give_the_same_store(store, folder):
    again = PhraseStore.load(folder, ENCODER)
    assert (list(again.phrases), again.dim, again.encoder, again.factory) == (store.phrases, DIM, ENCODER, "Flat")
    for ours, theirs in zip(store.search(draw(9, 1), 5), again.search(draw(9, 1), 5), strict=True):
        assert np.array_equal(ours, theirs)
    assert sorted(path.name for path in folder.iterdir()) == [INDEX, MANIFEST, PHRASES]
    assert [path.name for path in folder.parent.iterdir()] == ["store"]
    manifest = json.loads((folder / MANIFEST).read_text())
    assert (manifest["name"], manifest["version"]) == ("phrase-store", 1)
    assert manifest["sha256"] == {name: sha256_of(folder / name) for name in (INDEX, PHRASES)}
    assert manifest["details"] == {
        "encoder": ENCODER,
        "dim": DIM,
        "index": "Flat",
        "count": 20,
        "credentialed": True,
    }


def test_a_store_remembers_whether_its_phrases_may_leave(tmp_path):
    for credentialed in (True, False):
        built = PhraseStore.build([StoredPhrase("a", 1)], np.eye(DIM)[:1], ENCODER, credentialed=credentialed)
        built.save(tmp_path / "store")
        assert PhraseStore.load(tmp_path / "store").credentialed is credentialed


def test_the_checksum_follows_the_content(store, folder):
    fresh = PhraseStore.build(phrases_of(20), draw(20), ENCODER)
    loaded = PhraseStore.load(folder)
    assert fresh.checksum == store.checksum == loaded.checksum
    assert len(fresh.checksum) == 64
    loaded.add([StoredPhrase("small nodule 3", 1)], draw(1))
    assert loaded.checksum != fresh.checksum  # the count alone
    fresh.add(phrases_of(1, 20), draw(1, 2))
    assert fresh.checksum not in (store.checksum, loaded.checksum)
    moved = PhraseStore.build(phrases_of(20), draw(20, 1), ENCODER)
    assert moved.checksum != store.checksum  # the embeddings alone


@pytest.mark.parametrize("index", ["Flat", "IVF4,Flat", "SQ8", "HNSW8"])
def test_adding_appends_new_texts_and_merges_known_ones(index, tmp_path):
    built = PhraseStore.build(phrases_of(200), draw(200), ENCODER, index)
    built.save(tmp_path / "store")
    store = PhraseStore.load(tmp_path / "store", ENCODER)
    more = [
        StoredPhrase("clear lungs", 4, ("a",)),
        StoredPhrase("small nodule 1", 10, ("study1", "b", "c", "d", "e")),
        StoredPhrase("clear lungs", 2, ("f",)),
        StoredPhrase("left effusion", 1, ("g",)),
    ]
    vectors = draw(4, 5)
    store.add(more, vectors)
    assert len(store) == len(store.phrases) == 202
    assert store.phrases[200:] == [StoredPhrase("clear lungs", 6, ("a", "f")), StoredPhrase("left effusion", 1, ("g",))]
    assert store.phrases[1] == StoredPhrase("small nodule 1", 12, ("study1", "b", "c", "d", "e"))
    assert store.search(vectors[[0, 3]])[1].tolist() == [[200], [201]]
    assert store.search(draw(200)[[1]])[1].tolist() == [[1]]  # a known text keeps its embedding
    store.save(tmp_path / "store")
    assert list(PhraseStore.load(tmp_path / "store").phrases) == store.phrases


def test_a_loaded_store_outlives_the_files_it_was_mapped_from(folder):
    loaded = PhraseStore.load(folder)
    PhraseStore.build(phrases_of(5), draw(5), ENCODER).save(folder)
    assert loaded.search(draw(20))[1][:, 0].tolist() == list(range(20))
    shutil.rmtree(folder)
    assert loaded.search(draw(20))[1][:, 0].tolist() == list(range(20))
    assert loaded.phrases[19].text == "small nodule 19"


def test_another_kind_of_index_keeps_phrases_and_vectors(store, tmp_path):
    other = store.with_index("IVF4,Flat; nprobe=2")
    other.save(tmp_path / "other")
    again = PhraseStore.load(tmp_path / "other", ENCODER)
    assert list(again.phrases) == store.phrases
    assert (again.factory, again.credentialed) == ("IVF4,Flat; nprobe=2", store.credentialed)
    assert again.vectors() == pytest.approx(store.vectors(), abs=1e-6)
    with pytest.raises(RarrgError, match="keeps only roundings of the embeddings"):
        store.with_index("SQ8").vectors()


def test_merging_keeps_the_first_five_examples(store):
    store.add([StoredPhrase("small nodule 0", 1, tuple("abcde"))], draw(1))
    assert store.phrases[0] == StoredPhrase("small nodule 0", 2, ("study0", "a", "b", "c", "d"))


def test_a_failed_addition_leaves_the_store_as_it_was(store):
    before = store.checksum
    with pytest.raises(RarrgError, match="the embedding of 'new' is zero or not finite"):
        store.add([StoredPhrase("small nodule 0", 1), StoredPhrase("new", 1)], np.stack([draw(1)[0], np.zeros(DIM)]))
    assert (len(store), store.checksum) == (20, before)


def test_no_more_results_than_phrases(store):
    similarities, ids = store.search(draw(2, 3), 100)
    assert similarities.shape == ids.shape == (2, 20)
    assert sorted(ids[0].tolist()) == list(range(20))
    assert (np.diff(similarities) <= 0).all()


def test_no_queries_give_no_results(store):
    similarities, ids = store.search(np.empty((0, DIM), dtype=np.float32), 3)
    assert similarities.shape == ids.shape == (0, 3)


@pytest.mark.parametrize(
    ("queries", "k", "message"),
    [
        (np.zeros((1, DIM)), 1, "query 0 is zero or not finite"),
        (np.vstack([draw(1), np.full((1, DIM), np.nan)]), 1, "query 1 is zero or not finite"),
        (np.full((1, DIM), np.inf), 1, "query 0 is zero or not finite"),
        (draw(2, dim=8), 1, r"queries must be \[n, 16\], got \[2, 8\]"),
        (draw(2)[0], 1, r"queries must be \[n, 16\], got \[16\]"),
        (draw(2), 0, "k must be at least 1, got 0"),
    ],
)
def test_searches_that_are_refused(store, queries, k, message):
    with pytest.raises(RarrgError, match=message):
        store.search(queries, k)


@pytest.mark.parametrize(
    ("phrases", "embeddings", "message"),
    [
        ([], np.empty((0, DIM)), "there are no phrases to build it from"),
        ([StoredPhrase("clear", 1)] * 2, draw(2), "'clear' is given twice"),
        (phrases_of(3), draw(2), "3 phrases, but 2 embeddings"),
        (phrases_of(2), draw(2, dim=8), r"embeddings must be \[n, 16\], got \[2, 8\]"),
        (
            phrases_of(2),
            np.vstack([draw(1), np.zeros((1, DIM))]),
            "embedding of 'small nodule 1' is zero or not finite",
        ),
        (phrases_of(2), np.vstack([np.full((1, DIM), np.nan), draw(1)]), "embedding of 'small nodule 0' is zero or"),
    ],
)
def test_builds_that_are_refused(phrases, embeddings, message):
    with pytest.raises(RarrgError, match=message):
        PhraseStore.build(phrases, embeddings, ENCODER)


@pytest.mark.parametrize(
    ("text", "count", "studies", "message"),
    [(" ", 1, (), "a phrase is empty"), ("x", 0, (), "at least 1, got 0"), ("x", 9, tuple("abcdef"), "at most 5")],
)
def test_phrases_that_are_refused(text, count, studies, message):
    with pytest.raises(RarrgError, match=message):
        StoredPhrase(text, count, studies)


@pytest.mark.parametrize("name", [INDEX, PHRASES])
def test_a_changed_or_missing_file_is_named(folder, name):
    path = folder / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(RarrgError, match=rf"{name}: changed since it was written"):
        PhraseStore.load(folder)
    path.unlink()
    with pytest.raises(RarrgError, match=rf"{name}: is missing"):
        PhraseStore.load(folder)


def test_no_store_at_all(tmp_path):
    with pytest.raises(RarrgError, match=r"nowhere/manifest.json: cannot be read"):
        PhraseStore.load(tmp_path / "nowhere")


def test_another_encoder_is_refused_naming_both(folder):
    other = {"encoder": "org/other", "revision": "main", "dim": 8, "fingerprint": "0" * 64}
    with pytest.raises(RarrgError) as caught:
        PhraseStore.load(folder, other)
    assert f"packaged:tiny (dim 16, fingerprint {'f' * 12})" in str(caught.value)
    assert f"org/other (dim 8, fingerprint {'0' * 12})" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_same_encoder_under_another_name_is_taken(folder):
    assert len(PhraseStore.load(folder, ENCODER | {"encoder": "/models/tiny"})) == 20


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"details": lambda d: d | {"count": 19}},
            r"numbers of phrases disagree \(index.faiss 20, .*manifest.json 19\)",
        ),
        (
            {"details": lambda d: d | {"dim": 8}},
            r"dimensions disagree \(index.faiss 16, manifest.json 8, text encoder 16\)",
        ),
        ({"details": lambda d: d | {"encoder": ENCODER | {"dim": 8}}}, r"dimensions disagree .*text encoder 8"),
        ({"details": lambda d: {"dim": 16, "count": 20}}, "details lack credentialed, encoder, index"),
        ({"sha256": lambda s: {}}, r"must list index.faiss and phrases.jsonl, lists \[\]"),
        ({"version": lambda v: 2}, "version 2, expected phrase-store version 1"),
    ],
)
def test_a_folder_that_contradicts_itself_is_refused(folder, changes, message):
    edit_manifest(folder, **changes)
    with pytest.raises(RarrgError, match=message):
        PhraseStore.load(folder)


def test_files_of_two_stores_are_not_mixed(folder, tmp_path):
    other = tmp_path / "other"
    PhraseStore.build(phrases_of(7), draw(7), ENCODER).save(other)
    shutil.copy(other / INDEX, folder / INDEX)
    edit_manifest(folder, sha256=lambda s: s | {INDEX: sha256_of(folder / INDEX)})
    with pytest.raises(RarrgError, match=r"index.faiss 7, phrases.jsonl 20"):
        PhraseStore.load(folder)


def test_an_index_file_that_faiss_cannot_read(folder):
    (folder / INDEX).write_bytes(b"no index at all")
    edit_manifest(folder, sha256=lambda s: s | {INDEX: sha256_of(folder / INDEX)})
    with pytest.raises(RarrgError, match=r"index.faiss: is no FAISS index"):
        PhraseStore.load(folder)


def test_a_phrase_that_lacks_a_field(folder):
    rows = [json.loads(line) for line in (folder / PHRASES).read_text().splitlines()]
    del rows[3]["count"]
    (folder / PHRASES).write_text("".join(json.dumps(row) + "\n" for row in rows))
    edit_manifest(folder, sha256=lambda s: s | {PHRASES: sha256_of(folder / PHRASES)})
    store = PhraseStore.load(folder)
    with pytest.raises(RarrgError, match=r"phrases.jsonl, line 4: lacks 'count'"):
        _ = store.phrases[3]
    assert store.phrases[4].text == "small nodule 4"


def test_phrases_of_any_script_survive(tmp_path):
    texts = ["≥ 2 cm Rundherd", "小结节", 'said "clear"\twith tab', "line separator"]
    PhraseStore.build([StoredPhrase(text, 1) for text in texts], draw(4), ENCODER).save(tmp_path / "store")
    assert [phrase.text for phrase in PhraseStore.load(tmp_path / "store").phrases] == texts


def test_saving_replaces_an_earlier_store_whole(folder, tmp_path):
    PhraseStore.build(phrases_of(5), draw(5), ENCODER).save(folder)
    assert len(PhraseStore.load(folder)) == 5
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize("moment", ["write", "swap"])
def test_a_save_that_fails_leaves_the_earlier_store(folder, tmp_path, monkeypatch, moment):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    smaller = PhraseStore.build(phrases_of(5), draw(5), ENCODER)

    def fail(*_args, **_kwargs):
        raise OSError("disk full")

    if moment == "write":
        monkeypatch.setattr("rarrg.store.phrase_store.write_jsonl", fail)
    else:
        rename = type(folder).rename
        monkeypatch.setattr(
            type(folder), "rename", lambda path, to: fail() if path.name.endswith(".tmp") else rename(path, to)
        )
    with pytest.raises(OSError, match="disk full"):
        smaller.save(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_saving_over_what_is_no_store_is_refused(store, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.txt").write_text("years of work")
    with pytest.raises(RarrgError, match=r"thesis: holds chapter1.txt, no part of a phrase store"):
        store.save(tmp_path / "thesis")
    with pytest.raises(RarrgError, match="is a file; name a folder"):
        store.save(tmp_path / "thesis" / "chapter1.txt")
    assert (tmp_path / "thesis" / "chapter1.txt").read_text() == "years of work"


def test_what_macos_leaves_is_in_nobodys_way(store, folder):
    (folder / ".DS_Store").touch()
    store.save(folder)
    assert len(PhraseStore.load(folder)) == len(store)


def test_a_store_that_is_replaced_while_it_is_read_is_read_again(store, folder, monkeypatch):
    """Between its index and its phrases, where the number of both is the same."""
    other = PhraseStore.build(
        [StoredPhrase(f"other {each.text}", each.count) for each in store.phrases], draw(len(store), 9), store.encoder
    )
    read = VectorIndex.read

    def replaced(path):
        found = read(path)
        monkeypatch.setattr(VectorIndex, "read", read)
        other.save(folder)
        return found

    monkeypatch.setattr(VectorIndex, "read", replaced)
    loaded = PhraseStore.load(folder)
    assert loaded.phrases[0].text.startswith("other ")
    assert loaded.search(draw(3, 1))[1].tolist() == other.search(draw(3, 1))[1].tolist()


@pytest.mark.parametrize("kind", ["IDMap,Flat", "NSG8"])
def test_a_kind_that_takes_no_vectors_is_one_line(kind, store):
    with pytest.raises(RarrgError, match=rf"store\.index: '{kind}' cannot be"):
        PhraseStore.build(phrases_of(40), draw(40), store.encoder, kind)


def test_an_empty_folder_and_a_link_to_a_folder_are_filled(store, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert len(PhraseStore.load(tmp_path / "real")) == 20


def test_without_faiss_one_line_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    line = r"install exactly one of the extras cpu or gpu \(`pip install -e '\.\[cpu\]'`\)"
    with pytest.raises(RarrgError, match=line):
        PhraseStore.load(folder)
    with pytest.raises(RarrgError, match=line):
        PhraseStore.build(phrases_of(2), draw(2), ENCODER)


def test_a_folder_may_be_named_by_text(store, tmp_path):
    store.save(str(tmp_path / "store"))
    assert PhraseStore.load(str(tmp_path / "store")).checksum == store.checksum


@pytest.mark.parametrize("error", ["ImportError", "ModuleNotFoundError"])
def test_a_faiss_that_does_not_load_is_one_line_with_the_reason(folder, monkeypatch, tmp_path, error):
    package = tmp_path / "faiss"
    package.mkdir()
    (package / "__init__.py").write_text(f"raise {error}('libgomp.so.1:\\n cannot open', name='faiss._swigfaiss')\n")
    monkeypatch.delitem(sys.modules, "faiss")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RarrgError, match=r"installed but does not load \(libgomp\.so\.1: cannot open\)"):
        PhraseStore.load(folder)
