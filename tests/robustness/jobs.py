"""What the package writes, each in two versions, as functions that a process of its own can run.

``make(folder, version)`` writes an artefact or replaces an earlier one; ``read(folder)`` reads it through the package
and gives what it holds in a form that can be compared bit for bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F

from rarrg.artifacts import read_jsonl, write_jsonl
from rarrg.data import features
from rarrg.data.features import FeatureCache
from rarrg.data.screening import _recorded, image_key, screen_images
from rarrg.extract.reports import ReportText
from rarrg.extract.stage import Item, Row, key_of, run_step
from rarrg.models.backbones import Backbone
from rarrg.models.model_folder import ModelInfo, keep_encoders, read_model, write_model
from rarrg.models.preprocessing import Preprocessing
from rarrg.models.vision import FusedEncoder, VisionEncoder
from rarrg.store.faiss_index import import_faiss
from rarrg.store.phrase_store import PhraseStore, StoredPhrase
from rarrg.types import View

import_faiss()  # before a job gives up the right to read where it is installed

IMAGES = 12  # of the second version of a feature cache; the first has a third of them
SHARD = 3  # images of a shard


class Artefact(NamedTuple):
    """Something that the package keeps on disk.

    Attributes:
        make: Writes a version of it, 1 or 2, into a folder.
        read: What the folder holds.
        grows: The second version adds to the first, and every state between them is a good one.
    """

    make: Callable[[Path, int], None]
    read: Callable[[Path], Any]
    grows: bool = False


# Features


def _features(network: nn.Module, pixels: Tensor) -> Tensor:
    return F.avg_pool2d(network(pixels), 4)


def encoder() -> FusedEncoder:
    """A frozen encoder of random weights that needs no file."""
    torch.manual_seed(0)
    preprocessing = Preprocessing(32, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), "bilinear")
    network = nn.Conv2d(3, 8, 3, padding=1)
    return FusedEncoder([VisionEncoder("random", Backbone(network, _features, 8, (8, 8), preprocessing, None, {}))])


def draw_images(folder: Path) -> None:
    """The images of the caches; drawn once, as their time of change is part of what names them. And an encoder."""
    (folder / "adapted").mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        (folder / "adapted" / name).write_text(name)
    (folder / "images").mkdir()
    for number in range(IMAGES):
        pixels = np.random.default_rng(number).integers(0, 256, (40, 50), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "images" / f"{number:02}.png")


def _views(folder: Path, version: int = 2) -> list[View]:
    paths = sorted((folder / "images").iterdir())[: IMAGES if version == 2 else IMAGES // 3]
    return [View(str(path), "frontal", path.stem) for path in paths]


def _make_features(folder: Path, version: int) -> None:
    fused = encoder()
    features.SHARD_BYTES = SHARD * 2 * fused.channels * fused.grid[0] * fused.grid[1]
    FeatureCache(folder / "cache", fused).build(_views(folder, version), torch.device("cpu"), batch_size=2)


def _read_features(folder: Path) -> dict[str, str]:
    cache = FeatureCache(folder / "cache", encoder())
    views = _views(folder)
    missing = cache._shards.missing(views)
    held = [view for view in views if image_key(view.path) not in missing]
    return {view.image_id: digest(tensor.numpy() for tensor in cache.read(view.path)) for view in held}


def digest(arrays: Iterable[np.ndarray]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


# The store and the model

REFERENCE = {"encoder": "tiny", "revision": None, "dim": 16, "fingerprint": "f" * 16}


def _make_store(folder: Path, version: int) -> None:
    count = 300 * version
    vectors = np.random.default_rng(version).standard_normal((count, 16)).astype(np.float32)
    phrases = [StoredPhrase(f"nodule {number} of store {version}", version) for number in range(count)]
    PhraseStore.build(phrases, vectors, REFERENCE).save(folder / "store")


def _read_store(folder: Path) -> tuple[str, list[str], str]:
    store = PhraseStore.load(folder / "store", REFERENCE)
    found = store.search(np.random.default_rng(9).standard_normal((20, 16)), 3)
    return store.checksum, [phrase.text for phrase in store.phrases], digest(found)


def tensors(version: int) -> dict[str, Tensor]:
    torch.manual_seed(version)
    return {f"layer{number}.weight": torch.randn(40, 30 * version) for number in range(3)}


def _make_model(folder: Path, version: int) -> None:
    adapted = {"spec": str(folder / "adapted"), "size": 32, "revision": None, "stages": None}
    vision = keep_encoders(folder / "model", [adapted], ["timm:a"])
    text = {"encoder": "tiny", "revision": None, "dim": 16, "fingerprint": "f"}
    info = ModelInfo({"queries": version}, [8], 16, vision, text, 0.1 * version)
    write_model(folder / "model", tensors(version), info)


def _read_model(folder: Path) -> tuple[dict[str, str], ModelInfo]:
    weights, info = read_model(folder / "model")
    return {name: digest([value.numpy()]) for name, value in weights.items()}, info


# Rows

_ROWS = 200


def _make_rows(folder: Path, version: int) -> None:
    rows = ({"text": "no pneumothorax", "number": number} for number in range(_ROWS * version))
    write_jsonl(folder / "rows.jsonl", rows)


def _read_rows(folder: Path) -> list[dict[str, Any]]:
    return read_jsonl(folder / "rows.jsonl")


def _items(version: int) -> list[Item]:
    reports = [ReportText(str(number), "train", f"No nodule {number}.") for number in range(_ROWS * version // 4)]
    return [Item(key_of(report.findings), report) for report in reports]


def _do(items: Iterator[Item]) -> Iterator[tuple[Item, Row]]:
    for item in items:
        yield item, {"key": item.key, "text": item.report.findings * 5}


def _key(row: Row) -> str:
    return str(row["key"])


def _make_step(folder: Path, version: int) -> None:
    run_step("a step", partial(_items, version), folder / "step.jsonl", _key, _do)


def _read_step(folder: Path) -> list[dict[str, Any]]:
    return read_jsonl(folder / "step.jsonl")


def _make_verdicts(folder: Path, version: int) -> None:
    screen_images(_views(folder, version), folder / "screened.jsonl")


def _read_verdicts(folder: Path) -> dict[str, str | None]:
    return {Path(key.split("|")[0]).stem: fault for key, fault in _recorded(folder / "screened.jsonl").items()}


ARTEFACTS = {
    "features": Artefact(_make_features, _read_features, grows=True),
    "store": Artefact(_make_store, _read_store),
    "model": Artefact(_make_model, _read_model),
    "rows": Artefact(_make_rows, _read_rows),
    "step of an extraction": Artefact(_make_step, _read_step),
    "verdicts on images": Artefact(_make_verdicts, _read_verdicts, grows=True),
}


def make(name: str, folder: Path, version: int) -> None:
    """Write a version of an artefact."""
    ARTEFACTS[name].make(folder, version)


def read(name: str, folder: Path) -> Any:
    """What is read of an artefact; a ``RarrgError`` is raised."""
    return ARTEFACTS[name].read(folder)


def count_operations(name: str, folder: Path, version: int) -> int:
    """Number of file operations that writing a version takes."""
    from tests.robustness.processes import on_file_operation

    numbers: list[int] = []
    on_file_operation(str(folder), numbers.append)
    make(name, folder, version)
    return len(numbers)
