"""A training that stands already is taken up, and one that broke off goes on."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any

import yaml

from rarrg.artifacts import MANIFEST, sha256_of
from rarrg.config import TrainConfig
from rarrg.errors import RarrgError
from rarrg.experiment import PHRASES_SHA256, train
from rarrg.later_keys import without_later
from rarrg.models.model_folder import CONFIG

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
    if same and (folder / MANIFEST).is_file() and _of_these(config.data.phrases, folder):
        log.info("%s: taken up as trained before", folder)
        return folder
    log.info("%s: training", folder)
    return train(config, "last" if same and (folder / "checkpoints" / "last.ckpt").is_file() else None)


def _of_these(phrases: str | None, folder: Path) -> bool:
    """Whether a model was trained on the key phrases that the file holds now."""
    if phrases is None or not Path(phrases).is_file():  # gone; what was trained on them has not
        return True
    return bool(_settings(folder / CONFIG)["training"].get(PHRASES_SHA256) == sha256_of(Path(phrases)))


def _settings(path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise RarrgError(f"{path}: is not YAML; remove it to train in its folder anew") from error
    if not isinstance(found, dict):
        raise RarrgError(f"{path}: holds no configuration; remove it to train in its folder anew")
    return found
