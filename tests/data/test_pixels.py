from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from rarrg.config import EncoderConfig
from rarrg.data import pixels
from rarrg.data.images import read_image
from rarrg.data.pixels import PixelCache
from rarrg.errors import RarrgError
from rarrg.models.vision import FusedEncoder, load_fused
from rarrg.types import View


@pytest.fixture(scope="module")
def encoder(tiny_vision: Path) -> FusedEncoder:
    """Two encoders of one size and one of another."""
    return load_fused([EncoderConfig(str(tiny_vision), size=size) for size in (32, 48, 32)])


@pytest.fixture
def views(tmp_path: Path) -> list[View]:
    found = []
    for index in range(7):
        path = tmp_path / f"{index}.png"
        Image.fromarray(np.random.default_rng(index).integers(0, 256, (40, 50), dtype=np.uint8)).save(path)
        found.append(View(str(path), "frontal", str(index)))
    return found


def test_features_of_kept_pixels_are_those_of_the_file(
    encoder: FusedEncoder, views: list[View], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pixels, "SHARD_BYTES", 3 * 48**2)  # three shards
    cache = PixelCache(tmp_path / "cache", encoder)
    cache.build(views)
    assert sorted(path.name for path in (tmp_path / "cache" / "pixels").iterdir()) == ["32-bicubic", "48-bicubic"]
    assert len(list((tmp_path / "cache" / "pixels" / "48-bicubic").glob("*.npy"))) == 3
    for view in views:
        kept = cache.read(view.path)
        assert [(tensor.dtype, *tensor.shape) for tensor in kept] == [(torch.uint8, 1, s, s) for s in (32, 48, 32)]
        expected = encoder([tensor[None] for tensor in encoder.preprocess(read_image(view.path))])
        assert torch.equal(encoder([tensor[None] for tensor in kept]), expected)


def test_a_cache_is_completed_not_made_again(
    encoder: FusedEncoder, tiny_vision: Path, views: list[View], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_size = load_fused([EncoderConfig(str(tiny_vision), size=32)])
    PixelCache(tmp_path / "cache", one_size).build(views[:5])
    before = {path: path.read_bytes() for path in (tmp_path / "cache" / "pixels" / "32-bicubic").iterdir()}
    cache = PixelCache(tmp_path / "cache", encoder)
    cache.build(views)
    assert before.items() <= {path: path.read_bytes() for path in before}.items()
    again = PixelCache(tmp_path / "cache", encoder)
    monkeypatch.setattr(pixels, "read_image", lambda path: pytest.fail(f"{path} was decoded again"))
    again.build(views)
    for view in views:
        assert all(torch.equal(a, b) for a, b in zip(again.read(view.path), cache.read(view.path), strict=True))


def test_a_changed_image_is_not_taken_for_the_old_one(encoder: FusedEncoder, views: list[View], tmp_path: Path) -> None:
    cache = PixelCache(tmp_path / "cache", encoder)
    cache.build(views[:1])
    Image.linear_gradient("L").save(views[0].path)
    with pytest.raises(RarrgError, match=r"0\.png: changed or vanished"):
        cache.read(views[0].path)
