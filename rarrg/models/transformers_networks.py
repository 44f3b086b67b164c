"""Loader of image networks of the transformers library: Dinov2, and the vision tower of CLIP."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import _CACHED_NO_EXIST, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError
from torch import Tensor, nn
from torchvision.transforms import InterpolationMode
from transformers import AutoConfig, AutoImageProcessor, CLIPVisionModel, Dinov2Model
from transformers.utils import IMAGE_PROCESSOR_NAME, PROCESSOR_NAME
from transformers.utils import logging as transformers_logging

from rarrg.errors import RarrgError
from rarrg.hub import LOAD_ERRORS, first_line, unavailable
from rarrg.models.backbones import Backbone, patch_grid, three, to_map
from rarrg.models.preprocessing import Preprocessing
from rarrg.models.reference import settings_of

_log = logging.getLogger(__name__)

_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))

# PIL's codes of a processor's `resample`. Tensors have no Lanczos; transformers takes bicubic in its place too.
_INTERPOLATION = {0: "nearest", 1: "bicubic", 2: "bilinear", 3: "bicubic"}


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
    grid = patch_grid(spec, size, vision.patch_size)
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


def _dinov2_map(network: nn.Module, pixels: Tensor, grid: tuple[int, int]) -> Tensor:
    return to_map(network(pixel_values=pixels).last_hidden_state[:, 1:], grid)


def _clip_map(network: nn.Module, pixels: Tensor, grid: tuple[int, int]) -> Tensor:
    tokens = network(pixel_values=pixels, interpolate_pos_encoding=True).last_hidden_state
    return to_map(tokens[:, 1:], grid)


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
        mean, std = three(processor.image_mean), three(processor.image_std)
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


def _unavailable(spec: str, name: str, error: Exception) -> RarrgError:
    if Path(name).is_dir():
        return RarrgError(f"{spec}: the folder holds no usable transformers model ({first_line(error)})")
    return unavailable(spec, error, "a local folder")
