from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from rarrg.artifacts import (
    Manifest,
    atomic_write,
    read_json,
    read_jsonl,
    sha256_of,
    weights_digest,
    write_json,
    write_jsonl,
)
from rarrg.errors import RarrgError


def test_sha256_is_that_of_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"key phrase" * 300_000)
    assert sha256_of(path) == hashlib.sha256(b"key phrase" * 300_000).hexdigest()


def test_a_failed_write_leaves_the_old_file_and_no_temporary(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"a": 1})
    with pytest.raises(FileNotFoundError), atomic_write(path) as temporary:
        temporary.write_text((tmp_path / "nowhere").read_text())
    assert read_json(path) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_jsonl_reads_back_what_was_written(tmp_path: Path) -> None:
    rows = [{"text": "no pneumothorax"}, {"text": "épanchement\u2028pleural"}]
    write_jsonl(tmp_path / "x.jsonl", rows)
    assert read_jsonl(tmp_path / "x.jsonl") == rows


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1}\n\n{"a": ', "line 3: is not valid JSON"),
        (b'{"a": 1}\n[1]\n', "line 2: is not a JSON object"),
        (b"\xff\xfe", "is not UTF-8 text"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(RarrgError, match=message):
        read_jsonl(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RarrgError, match=r"nowhere\.json: cannot be read"):
        read_json(tmp_path / "nowhere.json")


def test_manifest_refuses_other_kinds_and_changed_files(tmp_path: Path) -> None:
    (tmp_path / "index.faiss").write_bytes(b"vectors")
    Manifest.of(tmp_path, "phrase-store", 1, ["index.faiss"], {"dim": 3}).save(tmp_path)
    manifest = Manifest.load(tmp_path, "phrase-store", 1)
    assert manifest.details == {"dim": 3}
    manifest.verify(tmp_path)

    with pytest.raises(RarrgError, match="describes phrase-store version 1, expected feature-cache version 1"):
        Manifest.load(tmp_path, "feature-cache", 1)
    (tmp_path / "index.faiss").write_bytes(b"vektors")
    with pytest.raises(RarrgError, match="changed since it was written"):
        manifest.verify(tmp_path)
    (tmp_path / "index.faiss").unlink()
    with pytest.raises(RarrgError, match="is missing"):
        manifest.verify(tmp_path)
    write_json(tmp_path / "manifest.json", {"name": "phrase-store"})
    with pytest.raises(RarrgError, match="is not a manifest"):
        Manifest.load(tmp_path, "phrase-store", 1)


def test_a_digest_of_weights_sees_names_sizes_and_both_ends(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(b"a" * 3_000_000)
    before = weights_digest(folder)
    assert len(before) == 12
    (folder / ".lock").write_text("")
    (folder / ".cache").mkdir()
    (folder / ".cache" / "weights.metadata").write_text("today")
    assert weights_digest(folder) == before
    folder.rename(tmp_path / "moved")
    folder = tmp_path / "moved"
    assert weights_digest(folder) == before
    for place in (0, 2_999_999):
        content = bytearray(b"a" * 3_000_000)
        content[place] = 98
        (folder / "weights.bin").write_bytes(content)
        assert weights_digest(folder) != before
    (folder / "weights.bin").write_bytes(b"a" * 3_000_001)
    assert weights_digest(folder) != before
    assert weights_digest(folder / "weights.bin") != weights_digest(folder)
