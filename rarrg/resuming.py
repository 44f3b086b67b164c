"""Which checkpoint a run resumes from, and whether it may."""

from __future__ import annotations

import dataclasses
import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from rarrg.config import TrainConfig
from rarrg.errors import RarrgError
from rarrg.later_keys import without_later
from rarrg.training import ENCODER, SETTINGS

log = logging.getLogger(__name__)

# What a resumed run may change without becoming another run: where it runs and writes, and how long it goes on.
RESUMABLE_CHANGES = {
    "out",
    "data.cache",
    "data.cache_images",
    "data.num_workers",
    "trainer.accelerator",
    "trainer.devices",
    "trainer.checkpoint_every",
    "trainer.epochs",
    "log.wandb",
    "log.project",
    "log.every",
    "log.log_images",
    "log.log_phrases",
}


def find_checkpoint(out: Path, config: TrainConfig, ckpt_path: str | None) -> Path | None:
    """Find the checkpoint that a run resumes from.

    Args:
        out: Run folder.
        config: Configuration of the run to be.
        ckpt_path: ``last``, a checkpoint file, or None.

    Returns:
        The checkpoint; None to start anew, as after a kill before the first checkpoint.

    Raises:
        RarrgError: There is no such checkpoint, it is not rarrg's, or it belongs to another configuration.
    """
    if ckpt_path is None:
        return None
    path = out / "checkpoints" / "last.ckpt" if ckpt_path == "last" else Path(ckpt_path)
    if ckpt_path == "last" and not path.is_file() and (out / "train.yaml").is_file():
        log.info("%s: the run was killed before its first checkpoint; it starts anew", out)
        return None
    saved = load_checkpoint(path).get(SETTINGS)
    if saved is None:
        raise RarrgError(f"--ckpt_path {ckpt_path}: {path} is not a checkpoint of rarrg")
    now = without_later(dataclasses.asdict(config))
    changed = {key: values for key, *values in _differences(without_later(saved), now)}
    refused = sorted(changed.keys() - RESUMABLE_CHANGES)
    if refused:
        raise RarrgError(
            f"--ckpt_path {ckpt_path}: {', '.join(refused)} differ from what {path} was trained with; resume with the "
            "same configuration, or start anew in another --out folder"
        )
    if "trainer.epochs" in changed:
        log.info(
            "trainer.epochs: %d, was %d; the learning rate goes on along the new cosine",
            *changed["trainer.epochs"][::-1],
        )
    return path


def check_encoder(path: Path, fingerprint: str) -> None:
    """Refuse to go on with other encoders, as where they were adapted once more on another machine.

    Args:
        path: Of :func:`find_checkpoint`.
        fingerprint: Of the fused encoders as they are now.

    Raises:
        RarrgError: The run was begun with others.
    """
    if load_checkpoint(path).get(ENCODER) != fingerprint:
        raise RarrgError(
            f"{path}: its run read other image encoders than those there are now; resume with the data.cache in which "
            "they were adapted, or start anew in another --out folder"
        )


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint onto the CPU.

    Raises:
        RarrgError: The file is missing or broken.
    """
    try:
        checkpoint: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise RarrgError(f"no checkpoint {path}; leave --ckpt_path out to start anew") from error
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise RarrgError(f"{path}: is not a readable checkpoint") from error
    return checkpoint


def _differences(before: dict[str, Any], now: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    for key in before.keys() | now.keys():
        old, new = before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differences(old, new, f"{prefix}{key}.")
        elif old != new:
            yield f"{prefix}{key}", old, new
