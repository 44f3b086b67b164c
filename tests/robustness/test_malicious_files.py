"""A pickle in place of any file that the package keeps is refused, and never unpickled."""

from __future__ import annotations

import ast
import io
import json
import os
import pickle
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image

import rarrg
from rarrg.artifacts import MANIFEST, Manifest, read_json, sha256_of, write_json
from rarrg.config import EncoderConfig, TrainConfig
from rarrg.data.features import FeatureCache
from rarrg.data.screening import screen_images
from rarrg.errors import RarrgError
from rarrg.extract.key_phrases import read_key_phrases
from rarrg.llm.cache import ReplyCache
from rarrg.metrics.saved_terms import SavedTerms, read_terms, write_terms
from rarrg.models.chexbert import load_chexbert
from rarrg.models.model_folder import read_model, write_model
from rarrg.models.text import TextEncoder, embed_phrases, load_text_encoder
from rarrg.models.vision import FusedEncoder, load_encoder, load_fused
from rarrg.resuming import find_checkpoint
from rarrg.store import phrase_store
from rarrg.store.phrase_store import PhraseStore, StoredPhrase
from rarrg.types import View
from tests.llm.test_cache import COMPLETION, request
from tests.models.test_retriever import info_of, make

CPU = torch.device("cpu")


class Trap:
    """Writes a file as soon as somebody unpickles it."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


def traps(marker: Path) -> dict[str, bytes]:
    """The same pickle as every kind of file that may hold one."""
    trap = Trap(marker)
    files = {f"pickle of protocol {protocol}": pickle.dumps(trap, protocol) for protocol in (0, 2, 4)}
    for name, options in (("torch's archive", {}), ("torch's old format", {"_use_new_zipfile_serialization": False})):
        file = io.BytesIO()
        torch.save({"state_dict": trap, "model_state_dict": trap}, file, **options)
        files[name] = file.getvalue()
    held = np.array([trap], dtype=object)
    file = io.BytesIO()
    np.save(file, held, allow_pickle=True)
    files["array of objects"] = file.getvalue()
    file = io.BytesIO()
    np.savez(file, ids=held, seen=held, features=held, allow_pickle=True)
    files["archive of arrays of objects"] = file.getvalue()
    return files


class Artefact(NamedTuple):
    """A file that the package reads.

    Attributes:
        file: The file to replace.
        load: Reads it, and what it belongs to.
    """

    file: Path
    load: Callable[[], Any]


class Encoders(NamedTuple):
    vision: FusedEncoder
    text: TextEncoder
    vision_folder: Path
    timm_folder: Path
    text_folder: Path


@pytest.fixture(scope="module")
def encoders(tiny_vision: Path, tiny_timm: Path, tiny_text: Path) -> Encoders:
    vision = load_fused([EncoderConfig(str(tiny_vision))])
    return Encoders(vision, load_text_encoder(str(tiny_text)), tiny_vision, tiny_timm, tiny_text)


def stored(name: str) -> Callable[[Path, Encoders], Artefact]:
    def build(folder: Path, _: Encoders) -> Artefact:
        reference = {"encoder": "tiny", "revision": None, "dim": 4, "fingerprint": "f" * 16}
        phrases = [StoredPhrase(f"nodule {number}", 1) for number in range(5)]
        PhraseStore.build(phrases, np.eye(5, 4) + 0.1, reference).save(folder / "store")
        # Phrases are parsed when they are asked for.
        return Artefact(folder / "store" / name, lambda: list(PhraseStore.load(folder / "store").phrases))

    return build


def cached(pattern: str) -> Callable[[Path, Encoders], Artefact]:
    def build(folder: Path, encoders: Encoders) -> Artefact:
        path = folder / "image.png"
        Image.linear_gradient("L").save(path)
        view = View(str(path), "frontal", "1")
        FeatureCache(folder, encoders.vision).build([view], CPU)
        place = folder / "features" / encoders.vision.fingerprint
        (file,) = (file for file in place.glob(pattern) if pattern == MANIFEST or file.name != MANIFEST)
        return Artefact(file, lambda: FeatureCache(folder, encoders.vision).read(path))

    return build


def embedded(folder: Path, encoders: Encoders) -> Artefact:
    embed_phrases(encoders.text, ["clear lungs"], folder)
    (file,) = folder.rglob("*.safetensors")
    return Artefact(file, lambda: embed_phrases(encoders.text, ["clear lungs"], folder))


def retriever(name: str) -> Callable[[Path, Encoders], Artefact]:
    def build(folder: Path, _: Encoders) -> Artefact:
        model = make()
        write_model(folder, model.state_dict(), info_of(model))
        return Artefact(folder / name, lambda: read_model(folder))

    return build


def encoder(kind: str, name: str) -> Callable[[Path, Encoders], Artefact]:
    def build(folder: Path, encoders: Encoders) -> Artefact:
        source = {"transformers": encoders.vision_folder, "timm": encoders.timm_folder, "text": encoders.text_folder}
        place = folder / "encoder"
        shutil.copytree(source[kind], place)
        load = load_text_encoder if kind == "text" else load_encoder
        if name.endswith(".bin"):  # beside no better file
            (place / "model.safetensors").unlink()
        return Artefact(place / name, lambda: load(str(place)))

    return build


def checkpoint(folder: Path, _: Encoders) -> Artefact:
    return Artefact(folder / "last.ckpt", lambda: find_checkpoint(folder, TrainConfig(), str(folder / "last.ckpt")))


def chexbert(folder: Path, _: Encoders) -> Artefact:
    return Artefact(folder / "chexbert.pth", lambda: load_chexbert(folder, folder))


def replies(folder: Path, _: Encoders) -> Artefact:
    return Artefact(folder / "replies.sqlite", lambda: ReplyCache(folder / "replies.sqlite"))


def key_phrases(folder: Path, _: Encoders) -> Artefact:
    return Artefact(folder / "key_phrases.jsonl", lambda: read_key_phrases(folder / "key_phrases.jsonl"))


def terms(folder: Path, _: Encoders) -> Artefact:
    write_terms(folder / "terms.npz", SavedTerms(["1"], ["1"], np.array([True]), {}))
    return Artefact(folder / "terms.npz", lambda: read_terms(folder / "terms.npz"))


ARTEFACTS: dict[str, Callable[[Path, Encoders], Artefact]] = {
    "store: index": stored(phrase_store.INDEX),
    "store: phrases": stored(phrase_store.PHRASES),
    "store: manifest": stored(MANIFEST),
    "features: array": cached("*.npy"),
    "features: keys": cached("*.json"),
    "features: manifest": cached(MANIFEST),
    "phrase embeddings": embedded,
    "retriever: weights": retriever("model.safetensors"),
    "retriever: configuration": retriever("config.yaml"),
    "retriever: manifest": retriever(MANIFEST),
    "transformers encoder: safetensors": encoder("transformers", "model.safetensors"),
    "transformers encoder: pytorch": encoder("transformers", "pytorch_model.bin"),
    "transformers encoder: configuration": encoder("transformers", "config.json"),
    "timm encoder: safetensors": encoder("timm", "model.safetensors"),
    "timm encoder: pytorch": encoder("timm", "pytorch_model.bin"),
    "timm encoder: configuration": encoder("timm", "config.json"),
    "text encoder: safetensors": encoder("text", "model.safetensors"),
    "text encoder: pytorch": encoder("text", "pytorch_model.bin"),
    "checkpoint": checkpoint,
    "CheXbert": chexbert,
    "replies": replies,
    "key phrases": key_phrases,
    "terms": terms,
}


def sign(file: Path) -> None:
    """Have the manifest beside a file agree with it, as whoever replaced the file can."""
    if file.name != MANIFEST and (file.parent / MANIFEST).is_file():
        manifest = read_json(file.parent / MANIFEST)
        if file.name in manifest["sha256"]:
            manifest["sha256"][file.name] = sha256_of(file)
            write_json(file.parent / MANIFEST, manifest)


def test_the_traps_work(tmp_path):
    loads = [pickle.loads] * 3 + [lambda b: torch.load(io.BytesIO(b), weights_only=False)] * 2
    loads += [lambda b: np.load(io.BytesIO(b), allow_pickle=True)]
    loads += [lambda b: np.load(io.BytesIO(b), allow_pickle=True)["ids"]]
    marker = tmp_path / "marker"
    for content, load in zip(traps(marker).values(), loads, strict=True):
        load(content)
        marker.rmdir()


@pytest.mark.parametrize("name", ARTEFACTS)
def test_a_pickle_in_place_of_an_artefact_is_refused_and_not_unpickled(name, encoders, tmp_path):
    marker = tmp_path / "marker"
    (tmp_path / "made").mkdir()
    artefact = ARTEFACTS[name](tmp_path / "made", encoders)
    for kind, content in traps(marker).items():
        artefact.file.write_bytes(content)
        for signed in (False, True):
            if signed:
                sign(artefact.file)
            with pytest.raises(RarrgError) as caught:
                artefact.load()
            assert len(str(caught.value).splitlines()) == 1, (kind, signed)
            assert not marker.exists(), (kind, signed)


def test_a_pickle_in_place_of_the_verdicts_on_images_is_no_verdict(tmp_path):
    path = tmp_path / "image.png"
    Image.linear_gradient("L").save(path)
    for content in traps(tmp_path / "marker").values():
        (tmp_path / "screened.jsonl").write_bytes(content)
        assert screen_images([View(str(path), "frontal", "1")], tmp_path / "screened.jsonl") == {}
    assert not (tmp_path / "marker").exists()


def test_a_pickle_among_the_replies_is_refused(tmp_path):
    with ReplyCache(tmp_path / "x.sqlite") as cache:
        cache.put(request(), "m", COMPLETION)
        assert cache.get(request(), "m") == COMPLETION
        for content in (*traps(tmp_path / "marker").values(), b"7", b"{}"):
            with sqlite3.connect(tmp_path / "x.sqlite") as database:
                database.execute("UPDATE replies SET completion = ?", (content,))
            with pytest.raises(RarrgError, match=r"x\.sqlite: holds a reply that is none"):
                cache.get(request(), "m")
    assert not (tmp_path / "marker").exists()


def test_yaml_that_would_call_a_function_is_refused(tmp_path):
    model = make()
    write_model(tmp_path, model.state_dict(), info_of(model))
    (tmp_path / "config.yaml").write_text(f"!!python/object/apply:os.mkdir [{tmp_path / 'marker'}]\n")
    sign(tmp_path / "config.yaml")
    with pytest.raises(RarrgError, match=r"config\.yaml: is not a model's configuration"):
        read_model(tmp_path)
    assert not (tmp_path / "marker").exists()


def test_the_index_goes_to_faiss_only_with_the_checksum_of_its_manifest(tmp_path, encoders, monkeypatch):
    artefact = stored(phrase_store.INDEX)(tmp_path, encoders)
    read: list[Path] = []
    original = phrase_store.VectorIndex.read
    monkeypatch.setattr(phrase_store.VectorIndex, "read", lambda path: (read.append(path), original(path))[1])
    artefact.load()
    assert read == [artefact.file]
    content = bytearray(artefact.file.read_bytes())
    for place in range(0, len(content), 7):
        content[place] ^= 1
        artefact.file.write_bytes(content)
        content[place] ^= 1
        with pytest.raises(RarrgError, match="changed since it was written"):
            artefact.load()
    manifest = Manifest.load(artefact.file.parent, phrase_store.NAME, phrase_store.VERSION)
    write_json(artefact.file.parent / MANIFEST, asdict(manifest) | {"sha256": {}})
    with pytest.raises(RarrgError, match="must list"):
        artefact.load()
    assert read == [artefact.file]


@pytest.mark.parametrize("changes", [{"sha256": []}, {"details": None}, {"sha256": "abc"}])
def test_a_manifest_of_other_types_is_none(changes, tmp_path):
    (tmp_path / "a").touch()
    Manifest.of(tmp_path, "x", 1, ["a"], {}).save(tmp_path)
    write_json(tmp_path / MANIFEST, json.loads((tmp_path / MANIFEST).read_text()) | changes)
    with pytest.raises(RarrgError, match="is not a manifest"):
        Manifest.load(tmp_path, "x", 1)


# What no module may call

PICKLES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"}
UNPICKLERS = {"load", "loads", "Unpickler", "open"}


def unsafe_calls(source: str) -> list[str]:
    """Calls in a module that could unpickle or run what a file holds, as ``line: call``."""
    found = []
    tree = ast.parse(source)
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        written = ast.unparse(node.func)
        head, _, rest = written.partition(".")
        called = names.get(head, head) + (f".{rest}" if rest else "")
        options = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        package, _, last = called.rpartition(".")
        unsafe = (
            (package.split(".")[0] in PICKLES and last in UNPICKLERS)
            or (called == "torch.load" and options.get("weights_only") != "True")
            or (called in ("torch.jit.load", "torch.package.PackageImporter", "torch.hub.load"))
            or (package == "joblib" and last == "load")
            or (last == "read_pickle")
            or (called in ("yaml.load", "yaml.unsafe_load", "yaml.full_load"))
            or (called in ("eval", "exec"))
            or (options.get("allow_pickle", "False") != "False")
            or (options.get("trust_remote_code", "False") != "False")
            or (last == "fit" and "ckpt_path" in options and options.get("weights_only") != "True")
        )
        if unsafe:
            found.append(f"{node.lineno}: {written}")
    return found


@pytest.mark.parametrize(
    "source",
    [
        "import pickle\npickle.load(file)",
        "import pickle as p\np.loads(b'')",
        "from pickle import Unpickler as U\nU(file).load()",
        "import torch\ntorch.load(path)",
        "import torch\ntorch.load(path, weights_only=False)",
        "from torch import load\nload(path, weights_only=trusted)",
        "import numpy as np\nnp.load(path, allow_pickle=True)",
        "import joblib\njoblib.load(path)",
        "from joblib import load as unpack\nunpack(path)",
        "import pandas as pd\npd.read_pickle(path)",
        "import yaml\nyaml.load(text, Loader=yaml.Loader)",
        "import shelve\nshelve.open(path)",
        "AutoModel.from_pretrained(name, trust_remote_code=True)",
        "trainer.fit(module, data, ckpt_path=path)",
    ],
)
def test_the_search_for_unsafe_calls_finds_them(source):
    assert len(unsafe_calls(source)) == 1


def test_no_module_unpickles_what_a_file_holds():
    modules = sorted(Path(rarrg.__file__).parent.rglob("*.py"))
    assert len(modules) > 100
    assert {str(path): found for path in modules if (found := unsafe_calls(path.read_text(encoding="utf-8")))} == {}
