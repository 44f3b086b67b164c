"""Keys of the training configuration that came after others: what was trained before them is still the same run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LATER: dict[str, Any] = {
    "data.cache_dtype": "float16",
    "data.cache_images": False,
    "data.shuffle_window": None,
    "retriever.classifier": False,
    "retriever.logit_adjustment": 0.0,
    "retriever.pool": None,
    "trainer.devices": 1,
    "vision.adapt.groups": 0,
}
"""Each with the value at which all is as it was without the key: its default."""


def without_later(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings that tell one run from another.

    Args:
        settings: A training configuration as plain values, from ``dataclasses.asdict`` or from a file.
        prefix: Key of the section, with its dot.

    Returns:
        All of them but those keys of ``LATER`` that stand at their value there.
    """
    return {
        key: without_later(value, f"{prefix}{key}.") if isinstance(value, Mapping) else value
        for key, value in settings.items()
        if f"{prefix}{key}" not in LATER or LATER[f"{prefix}{key}"] != value
    }
