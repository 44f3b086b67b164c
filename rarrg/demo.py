"""The main job from end to end: train a retriever, then report a held-out study from its two images."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from rarrg.config import TrainConfig
from rarrg.data.studies import read_studies
from rarrg.errors import RarrgError
from rarrg.experiment import train
from rarrg.extract.key_phrases import KEY_PHRASES, read_key_phrases, with_key_phrases
from rarrg.inference import InferOptions, infer
from rarrg.types import Position, Study

log = logging.getLogger(__name__)


def demo(config: TrainConfig) -> None:
    """Train, and report one test study; writes ``report.json`` and ``report.html`` into the run folder.

    Args:
        config: The training configuration.

    Raises:
        RarrgError: The data cannot be used, or no test study has both views.
    """
    studies = pairs(read_studies(config.data, config.seed))
    out = train(config)
    study = most_findings(with_key_phrases(studies, read_key_phrases(out / KEY_PHRASES)))
    log.info("\nHeld-out study %s. Its report says:\n%s\n\nRetrieved report:", study.id, study.findings)
    infer(
        InferOptions(
            frontal=[_path(study, "frontal")],
            lateral=[_path(study, "lateral")],
            model=str(out),
            out=out / "report.json",
            html=out / "report.html",
        )
    )
    log.info("Open %s in a browser and point at a phrase.", out / "report.html")


def pairs(studies: Sequence[Study]) -> list[Study]:
    """The test studies that have a frontal and a lateral image.

    Raises:
        RarrgError: There is none.
    """
    found = [
        study
        for study in studies
        if study.split == "test" and {"frontal", "lateral"} <= {view.position for view in study.views}
    ]
    if not found:
        raise RarrgError("no test study has both a frontal and a lateral image to report")
    return found


def most_findings(studies: Sequence[Study]) -> Study:
    """The study whose key phrases affirm most: a normal one would show little."""
    return max(studies, key=lambda study: sum(not phrase.startswith("no ") for phrase in study.key_phrases))


def _path(study: Study, position: Position) -> Path:
    return next(view.path for view in study.views if view.position == position)
