from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from rarrg.config import EncoderConfig
from rarrg.data import features
from rarrg.data.features import FeatureCache, compress, expand
from rarrg.data.images import read_image
from rarrg.devices import encoder_threads
from rarrg.errors import RarrgError
from rarrg.models.vision import FusedEncoder, load_fused
from rarrg.types import View

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def encoder(tiny_vision: Path) -> FusedEncoder:
    return load_fused([EncoderConfig(str(tiny_vision))])


@pytest.fixture
def views(tmp_path: Path) -> list[View]:
    found = []
    for index in range(10):
        path = tmp_path / f"{index}.png"
        Image.fromarray(np.random.default_rng(index).integers(0, 256, (40, 50), dtype=np.uint8)).save(path)
        found.append(View(str(path), "frontal", str(index)))
    return found


def test_cached_features_are_those_of_the_encoder(encoder: FusedEncoder, views: list[View], tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path / "cache", encoder)
    cache.build(views, CPU, batch_size=3)
    for view in views:
        pixels = [tensor[None] for tensor in encoder.preprocess(read_image(view.path))]
        found = cache.read(view.path)
        assert found.dtype == torch.float16
        torch.testing.assert_close(found.float(), encoder(pixels)[0], atol=2e-3, rtol=1e-3)


def test_on_a_processor_features_do_not_depend_on_what_stands_beside_an_image(
    encoder: FusedEncoder, views: list[View], tmp_path: Path
) -> None:
    threads = torch.get_num_threads()
    together, turned = (FeatureCache(tmp_path / name, encoder) for name in ("together", "turned"))
    together.build(views, CPU)
    turned.build(views[:4:-1], CPU)
    turned.build(views, CPU, batch_size=3)
    assert torch.get_num_threads() == threads
    with encoder_threads(CPU) as (_, alone):
        alone()  # as the threads of a build
        for view in views:
            pixels = [tensor[None] for tensor in encoder.preprocess(read_image(view.path))]
            assert torch.equal(together.read(view.path), encoder(pixels)[0].half())
            assert torch.equal(together.read(view.path), turned.read(view.path))


def test_a_killed_build_goes_on_from_whole_shards(
    encoder: FusedEncoder, views: list[View], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "SHARD_BYTES", 4 * 2 * encoder.channels * encoder.grid[0] * encoder.grid[1])
    computed: list[int] = []
    forward = FusedEncoder.forward

    def count(self: FusedEncoder, pixels: list[torch.Tensor]) -> torch.Tensor:
        if sum(computed) >= 6:
            raise KeyboardInterrupt
        computed.append(len(pixels[0]))
        return forward(self, pixels)

    with monkeypatch.context() as patch:
        patch.setattr(FusedEncoder, "forward", count)
        with pytest.raises(KeyboardInterrupt):
            FeatureCache(tmp_path / "cache", encoder).build(views, CPU, batch_size=2)
    # Of four images a shard, the first shard is whole and the second is not.
    again = FeatureCache(tmp_path / "cache", encoder)
    assert again.read(views[3].path).shape == (encoder.channels, *encoder.grid)
    with pytest.raises(RarrgError, match=r"4\.png: changed or vanished"):
        again.read(views[4].path)
    again.build(views, CPU, batch_size=2)
    whole = FeatureCache(tmp_path / "whole", encoder)
    whole.build(views, CPU, batch_size=2)
    for view in views:
        assert torch.equal(again.read(view.path), whole.read(view.path))


def test_caches_of_different_encoders_stand_apart(
    encoder: FusedEncoder, tiny_vision: Path, views: list[View], tmp_path: Path
) -> None:
    larger = load_fused([EncoderConfig(str(tiny_vision), size=48)])
    for each in (encoder, larger):
        FeatureCache(tmp_path / "cache", each).build(views[:1], CPU)
    assert FeatureCache(tmp_path / "cache", encoder).read(views[0].path).shape == (16, 4, 4)
    assert FeatureCache(tmp_path / "cache", larger).read(views[0].path).shape == (16, 6, 6)


def test_another_shape_under_the_same_name_is_refused(
    encoder: FusedEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FeatureCache(tmp_path / "cache", encoder)
    monkeypatch.setattr(encoder, "grid", (5, 5))
    with pytest.raises(RarrgError, match="holds features of shape"):
        FeatureCache(tmp_path / "cache", encoder)


def test_features_follow_the_content_of_an_image(encoder: FusedEncoder, views: list[View], tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path / "cache", encoder)
    cache.build(views[:1], CPU)
    first = cache.read(views[0].path)
    Image.linear_gradient("L").save(views[0].path)
    with pytest.raises(RarrgError, match="changed or vanished"):
        cache.read(views[0].path)
    cache.build(views[:1], CPU)
    assert not torch.equal(cache.read(views[0].path), first)


def test_a_byte_keeps_a_channel_to_half_its_step(encoder: FusedEncoder, views: list[View], tmp_path: Path) -> None:
    whole, small = FeatureCache(tmp_path / "cache", encoder), FeatureCache(tmp_path / "cache", encoder, "int8")
    for cache in (whole, small):
        cache.build(views, CPU, batch_size=3)
    assert small.folder.name == f"{whole.folder.name}-int8"
    for view in views:
        exact = encoder([pixels[None] for pixels in encoder.preprocess(read_image(view.path))])[0]
        stored, scale = small.stored(view.path)
        assert (stored.dtype, scale.dtype) == (torch.int8, torch.float32)
        step = exact.abs().amax(dim=(1, 2)) / 127
        torch.testing.assert_close(scale, step, rtol=1e-5, atol=0)
        assert ((expand([stored, scale]) - exact).abs() <= 0.501 * step[:, None, None]).all()
        assert not torch.equal(small.read(view.path), whole.read(view.path))
        torch.testing.assert_close(small.read(view.path).float(), exact, atol=float(step.max()), rtol=1e-3)
    # A build goes on in a cache of the same kind and reads it again.
    again = FeatureCache(tmp_path / "cache", encoder, "int8")
    assert torch.equal(again.read(views[2].path), small.read(views[2].path))


def test_a_channel_of_nothing_but_zeros_stays_so() -> None:
    features = torch.zeros(2, 3, 4, 4)
    features[0, 1, 2, 2] = -3
    stored, scale = compress(features)
    assert torch.equal(expand([stored, scale]), features)
    assert stored.min() == -127


def test_a_batch_is_expanded_as_its_images_are() -> None:
    features = torch.randn(3, 5, 4, 4)
    assert torch.equal(expand(compress(features))[1], expand(compress(features[1])))
    assert torch.equal(expand([features.half()]), features.half().float())


def test_reading_copies_nothing(encoder: FusedEncoder, views: list[View], tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path / "cache", encoder)
    cache.build(views, CPU)
    (first,), (again,) = cache.stored(views[3].path), cache.stored(views[3].path)
    assert first.data_ptr() == again.data_ptr()
    assert first.untyped_storage().nbytes() >= len(views) * first.nbytes  # a row of the file


def test_pooled_features_stand_apart_and_are_averages(
    encoder: FusedEncoder, tiny_vision: Path, views: list[View], tmp_path: Path
) -> None:
    pooling = load_fused([EncoderConfig(str(tiny_vision))], pool=2)
    for each in (encoder, pooling):
        FeatureCache(tmp_path / "cache", each).build(views, CPU)
    whole = FeatureCache(tmp_path / "cache", encoder).read(views[0].path).float()
    pooled = FeatureCache(tmp_path / "cache", pooling).read(views[0].path).float()
    assert pooled.shape == (16, 2, 2)
    torch.testing.assert_close(pooled[:, 0, 1], whole[:, :2, 2:].mean(dim=(1, 2)), atol=2e-3, rtol=1e-3)
    with pytest.raises(RarrgError, match=r"retriever\.pool: must be at most 4, the encoders' grid, got 5"):
        load_fused([EncoderConfig(str(tiny_vision))], pool=5)
