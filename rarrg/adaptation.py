"""Image encoders adapted to the training images, before they are frozen.

Networks trained on photographs see a chest X-ray through filters for cats and cars, and what they do not show no
retriever can find. So each network is first trained, alone, to tell which findings an image's key phrases affirm, and
of which groups they are (:mod:`rarrg.finding_classifier`).

Adapted networks lie in the cache, a folder each that timm can read too; runs that agree on images, findings and
settings share them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from rarrg.adapt_config import AdaptConfig
from rarrg.artifacts import MANIFEST, Manifest, writing
from rarrg.config import EncoderConfig
from rarrg.data.studies import Example
from rarrg.errors import RarrgError
from rarrg.finding_classifier import Labelled, train_classifier
from rarrg.grouping import group_phrases, telling_groups
from rarrg.metrics.findings import positive_findings
from rarrg.models.backbones import Backbone
from rarrg.models.linear_reading import LinearReading
from rarrg.models.timm_networks import save_timm
from rarrg.models.vision import FusedEncoder, VisionEncoder, load_backbone

log = logging.getLogger(__name__)

NAME = "adapted-encoder"
VERSION = 2
_TRACE = 4096  # bytes


def check_adaptable(encoder: FusedEncoder, classifier: bool) -> None:
    """Refuse encoders that cannot be adapted here.

    Args:
        encoder: The encoders.
        classifier: What they are adapted with is to read the joined map afterwards.

    Raises:
        RarrgError: One is no timm or packaged network, or the joined map is not theirs as it is.
    """
    for each in encoder.encoders:
        assert isinstance(each, VisionEncoder)
        if "timm" not in each.architecture:
            raise RarrgError(
                f"vision.adapt: {each.spec} is no timm or packaged network, and only those are adapted; set "
                "vision.adapt.epochs to 0"
            )
        if classifier and each.grid != encoder.grid:
            raise RarrgError(
                f"retriever.classifier: reads the map of {each.spec} as it is, {_sides(each.grid)}, but it is joined "
                f"at {_sides(encoder.grid)}; give the encoders one grid and leave retriever.pool null, or set "
                "retriever.classifier to false"
            )


def _sides(grid: tuple[int, int]) -> str:
    return f"{grid[0]} x {grid[1]}"


def adapt_encoders(
    encoders: Sequence[EncoderConfig],
    config: AdaptConfig,
    train: Sequence[Example],
    val: Sequence[Example],
    embeddings: Mapping[str, np.ndarray],
    folder: Path,
    device: torch.device,
    num_workers: int = 0,
) -> list[tuple[EncoderConfig, LinearReading]]:
    """Adapt encoders, or take up those that were adapted before.

    Args:
        encoders: Encoders that :func:`check_adaptable` takes.
        config: How.
        train: Training images with key phrases.
        val: Validation images; their average precision is logged and decides nothing.
        embeddings: Unit embedding of each key phrase, float32 ``[dim]``, of which groups are made.
        folder: Where adapted encoders lie.
        device: Where they are trained.
        num_workers: Processes that read images.

    Returns:
        The configuration of each adapted encoder, and what the classifier that it was trained with reads in its map:
        a class for each finding.

    Raises:
        RarrgError: The training phrases affirm no finding, or an adapted encoder was changed.
        ImageError: An image cannot be read.
    """
    groups = _groups(train, embeddings, config) if config.groups else {}
    sets = Labelled.of(train, groups), Labelled.of(val, groups)
    if not sets[0].findings.any():
        raise RarrgError("vision.adapt: no key phrase of the training images affirms a finding; set its epochs to 0")
    adapted = []
    for encoder in encoders:
        backbone = load_backbone(encoder.spec, encoder.size, encoder.revision, encoder.stages)
        place = (folder / _name(encoder, backbone, config, sets[0])).resolve()
        if (place / MANIFEST).is_file():
            log.info("%s: taken up as adapted before, from %s", encoder.spec, place)
        else:
            log.info("%s: adapting to %d training images", encoder.spec, len(train))
            _adapt(encoder, backbone, config, sets, place, device, num_workers)
        Manifest.load(place, NAME, VERSION).verify(place)
        config_of = EncoderConfig(str(place), backbone.preprocessing.size, None, encoder.stages)
        adapted.append((config_of, LinearReading.load(place)))
    return adapted


def _groups(train: Sequence[Example], embeddings: Mapping[str, np.ndarray], config: AdaptConfig) -> dict[str, int]:
    phrases = sorted(embeddings)
    said = Counter(phrase for _, phrase in {(each.study_id, phrase) for each in train for phrase in each.phrases})
    counts = [said[phrase] for phrase in phrases]
    vectors = np.stack([embeddings[phrase] for phrase in phrases])
    groups = group_phrases(phrases, counts, vectors, positive_findings(phrases), config.groups, config.seed)
    return telling_groups(groups, phrases, counts)


def _adapt(
    encoder: EncoderConfig,
    backbone: Backbone,
    config: AdaptConfig,
    sets: tuple[Labelled, Labelled],
    place: Path,
    device: torch.device,
    num_workers: int,
) -> None:
    """Adapt a network and put it in its place; of two processes that do so at once the first to end counts.

    Raises:
        RarrgError: It cannot be written, or something else is in its place.
    """
    with writing(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{place.name}-", dir=place.parent) as parent:
            made = Path(parent) / place.name
            reading = train_classifier(backbone, encoder.stages, config, sets, made, device, num_workers)
            files = [*save_timm(backbone.network, made), reading.save(made)]
            Manifest.of(made, NAME, VERSION, files, {"adapted_from": encoder.spec}).save(made)
            # Rename refuses a folder that is not empty.
            with suppress(OSError):
                made.rename(place)
    if not (place / MANIFEST).is_file():
        raise RarrgError(f"{place}: is in the way of an adapted encoder; remove it")


def _trace(path: Path) -> str:
    """What tells a file that was exported anew under its old name, and not one that was moved: size and some pixels."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(size // 2)
        return f"{size} {hashlib.sha256(file.read(_TRACE)).hexdigest()[:16]}"


def _name(encoder: EncoderConfig, backbone: Backbone, config: AdaptConfig, train: Labelled) -> str:
    """Name of an adapted encoder's folder: the network, and a digest of all that its weights depend on."""
    fingerprint = VisionEncoder(encoder.spec, backbone).fingerprint
    rows = [
        [example.view.image_id, _trace(example.view.path), np.flatnonzero(row).tolist()]
        for example, row in zip(train.examples, train.targets, strict=True)
    ]
    made_of = json.dumps([VERSION, fingerprint, asdict(config), rows])
    name = encoder.spec.partition(":")[2] or Path(encoder.spec).name
    return f"{name.replace('/', '-')}-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}"
