"""A training that stands already is taken up, and one that broke off goes on."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any

import yaml

from rarrg.artifacts import MANIFEST
from rarrg.config import TrainConfig
from rarrg.errors import RarrgError
from rarrg.experiment import train
from rarrg.later_keys import without_later

log = logging.getLogger(__name__)


def train_once(config: TrainConfig) -> Path:
    """Train, unless the run folder holds a model of the same configuration; resume from its last checkpoint.

    Where the folder lies does not matter: it may be moved or copied.

    Args:
        config: The configuration.

    Returns:
        The run folder.

    Raises:
        RarrgError: Data, encoders or the checkpoint are missing or do not fit the configuration, or the folder's own
            cannot be read.
    """
    folder = Path(config.out)
    before = folder / "train.yaml"
    wanted = {**without_later(dataclasses.asdict(config)), "out": None}
    found = without_later(_settings(before)) if before.is_file() else {}
    same = {**found, "out": None} == wanted
    if same and (folder / MANIFEST).is_file() and not _newer(config.data.phrases, folder / MANIFEST):
        log.info("%s: taken up as trained before", folder)
        return folder
    log.info("%s: training", folder)
    return train(config, "last" if same and (folder / "checkpoints" / "last.ckpt").is_file() else None)


def _newer(phrases: str | None, manifest: Path) -> bool:
    """Whether key phrases were written after the model: training then looks whether they are others."""
    try:
        return phrases is not None and Path(phrases).stat().st_mtime_ns > manifest.stat().st_mtime_ns
    except OSError:  # gone; what was trained on them has not
        return False


def _settings(path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise RarrgError(f"{path}: is not YAML; remove it to train in its folder anew") from error
    if not isinstance(found, dict):
        raise RarrgError(f"{path}: holds no configuration; remove it to train in its folder anew")
    return found
