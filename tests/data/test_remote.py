"""Images on object storage, on fsspec's storage in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fsspec
import numpy as np
import pytest

from rarrg.cli import main
from rarrg.data.images import read_image
from rarrg.data.remote import as_file, read_located
from rarrg.errors import ImageError
from tests.test_pipeline import build_model, draw_image


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[Path]:
    """``memory://bucket/`` with two images and half of one; gives the folder with the same files."""
    storage = fsspec.filesystem("memory")
    for seed in range(2):
        draw_image(tmp_path / f"{seed}.png", seed)
    (tmp_path / "torn.png").write_bytes((tmp_path / "0.png").read_bytes()[:90])
    for name in ("0.png", "1.png", "torn.png"):
        storage.pipe(f"/bucket/{name}", (tmp_path / name).read_bytes())
    yield tmp_path
    storage.rm("/bucket", recursive=True)


def test_an_address_gives_the_same_image_and_leaves_no_copy(bucket):
    assert np.array_equal(read_located("memory://bucket/0.png"), read_image(bucket / "0.png"))
    with as_file("memory://bucket/1.png") as file:
        assert file.suffix == ".png", "DICOM without a preamble is told by its ending"
    assert not file.exists()


def test_a_signed_address_may_be_longer_than_a_name(bucket):
    """As presigned ones of S3; only the suffix of what it names is kept."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=bucket))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_port}/0.png?X-Amz-Signature={'a' * 400}.b"
        assert np.array_equal(read_located(address), read_image(bucket / "0.png"))
        with as_file(address) as file:
            assert file.suffix == ".png"
    finally:
        server.shutdown()


def test_a_path_is_not_copied(bucket):
    with as_file(bucket / "0.png") as file:
        assert file == bucket / "0.png"
    assert file.exists()


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("memory://bucket/none.png", "cannot be read"),
        ("memory://bucket/torn.png", "truncated|broken|cannot be read"),
        ("nosuch://bucket/0.png", "[Pp]rotocol not known"),
    ],
)
def test_what_cannot_be_read_is_named_by_its_address(bucket, address, reason):
    with pytest.raises(ImageError, match=reason) as caught:
        read_located(address)
    assert str(caught.value).startswith(f"{address}: ")
    assert "/tmp" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_list_may_name_addresses(bucket, tmp_path):
    model = build_model(tmp_path / "model")
    table = tmp_path / "studies.csv"
    table.write_text(
        "id,frontal,lateral\n"
        "stored,memory://bucket/0.png,memory://bucket/1.png\n"
        "here,0.png,1.png\n"
        "gone,memory://bucket/none.png,\n"
    )
    out = tmp_path / "reports.jsonl"
    words = ["infer", f"--input={table}", f"--model={model}", "--device=cpu", "--threshold=0.1", f"--out={out}"]
    assert main(words) == 0
    stored, here = (json.loads(line) for line in out.read_text().splitlines())
    assert stored["text"] == here["text"]
    assert stored["images"]["frontal"] == ["memory://bucket/0.png"]
    failed = json.loads(Path(f"{out}.failed.jsonl").read_text())
    assert failed["id"] == "gone"
    assert failed["error"].startswith("memory://bucket/none.png: cannot be read")


def test_one_study_may_be_an_address(bucket, tmp_path, capsys):
    model = build_model(tmp_path / "model")
    words = ["infer", "--frontal", "memory://bucket/0.png", f"--model={model}", "--device=cpu", "--threshold=0.1"]
    assert main(words) == 0
    stored = capsys.readouterr().out
    assert main([*words[:2], str(bucket / "0.png"), *words[3:]]) == 0
    assert capsys.readouterr().out.split("\n")[0] == stored.split("\n")[0]
