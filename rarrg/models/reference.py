"""What a frozen model is: a fingerprint of weights and settings, and the refusal of another one in its place."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from rarrg.errors import RarrgError

# What a transformers network computes beyond what the shapes of its weights say.
_SETTINGS = ("model_type", "num_hidden_layers", "num_attention_heads", "hidden_act", "layer_norm_eps", "patch_size")


def fingerprint_of(tensors: Iterable[Tensor], extra: Any) -> str:
    """Fingerprint of a model: its tensors (shape, dtype, bytes) and what else its output depends on.

    Tensors are taken without their names, which differ between releases of transformers for the same checkpoint, and
    in the order of their digests.

    Args:
        tensors: Parameters and buffers, on any device.
        extra: Anything JSON can hold, as the architecture and the preprocessing.

    Returns:
        16 hex digits.
    """
    with ThreadPoolExecutor() as pool:  # hashing lets go of the interpreter
        digests = sorted(pool.map(_digest, tensors))
    text = json.dumps([digests, extra], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def settings_of(config: Any) -> dict[str, Any]:
    """Settings of a transformers configuration that its network's output depends on and its weights do not show.

    Only those that read the same on every supported release of transformers; None where the model has no such setting.
    """
    return {name: getattr(config, name, None) for name in _SETTINGS}


def _digest(tensor: Tensor) -> str:
    digest = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)} ".encode())
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def check_reference(expected: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Check that a loaded encoder is the one that a reference names.

    Args:
        expected: Reference kept with a trained model, as an encoder's ``references()`` or ``reference()`` gives it.
        found: Reference of the encoder that was loaded.

    Raises:
        RarrgError: The fingerprints differ. The name may differ: a local copy of the same weights is the same encoder.
    """
    if expected["fingerprint"] != found["fingerprint"]:
        raise RarrgError(
            f"the model was trained with encoder {_describe(expected)}, but {_describe(found)} was loaded: "
            "its weights, settings or preprocessing differ; load the encoder it was trained with, or train again"
        )


def _describe(reference: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in reference.items() if value is not None)
