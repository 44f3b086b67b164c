"""Which checkpoint a run resumes from, and whether it may."""

from __future__ import annotations

import dataclasses
import logging
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from rarrg.artifacts import atomic_write
from rarrg.config import TrainConfig
from rarrg.errors import RarrgError
from rarrg.later_keys import without_later
from rarrg.training import BEST, DATA, ENCODER, LAST, SETTINGS, Checkpoints

log = logging.getLogger(__name__)

CHECKPOINTS = "checkpoints"
"""Folder of them in a run folder."""

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
    path = out / CHECKPOINTS / LAST if ckpt_path == "last" else Path(ckpt_path).expanduser()
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


def check_inputs(path: Path, encoder: str, data: str) -> None:
    """Refuse to go on with other encoders, as where they were adapted once more on another machine, or other data.

    Args:
        path: Of :func:`find_checkpoint`.
        encoder: Fingerprint of the fused encoders as they are now.
        data: Fingerprint of images and phrases as they are now.

    Raises:
        RarrgError: The run was begun with others.
    """
    checkpoint = load_checkpoint(path)
    if checkpoint.get(DATA) != data:
        raise RarrgError(
            f"{path}: its run read other images or key phrases than there are now; resume with those, or start anew in "
            "another --out folder"
        )
    if checkpoint.get(ENCODER) != encoder:
        raise RarrgError(
            f"{path}: its run read other image encoders than those there are now; resume with the data.cache in which "
            "they were adapted, or start anew in another --out folder"
        )


def bring_best(path: Path, folder: Path) -> None:
    """Copy the best weights so far from beside a checkpoint to where its run goes on.

    Args:
        path: Of :func:`find_checkpoint`.
        folder: The checkpoints of the run to be.

    Raises:
        RarrgError: The checkpoint knows of weights that are not there, or they cannot be copied.
    """
    if load_checkpoint(path)["callbacks"][Checkpoints.__qualname__]["lowest"] is None:
        return
    beside, here = path.with_name(BEST), folder / BEST
    if not beside.is_file():
        raise RarrgError(f"{beside}: is missing; {path} goes with the best weights of its run, put them beside it")
    if not (here.is_file() and here.samefile(beside)):
        with atomic_write(here) as temporary:
            shutil.copyfile(beside, temporary)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint onto the CPU.

    Raises:
        RarrgError: The file is missing or broken.
    """
    try:
        checkpoint: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise RarrgError(f"no checkpoint {path}; leave --ckpt_path out to start anew") from error
    except (OSError, RuntimeError, EOFError, IndexError, pickle.UnpicklingError) as error:
        raise RarrgError(f"{path}: is not a readable checkpoint") from error
    if not isinstance(checkpoint, dict):
        raise RarrgError(f"{path}: is not a checkpoint of rarrg")
    return checkpoint


def _differences(before: dict[str, Any], now: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    for key in before.keys() | now.keys():
        old, new = before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differences(old, new, f"{prefix}{key}.")
        elif old != new:
            yield f"{prefix}{key}", old, new
