"""The main job from end to end: train a retriever, then report a held-out study from its two images."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from rarrg.config import TrainConfig
from rarrg.data.studies import read_studies
from rarrg.errors import RarrgError
from rarrg.experiment import train
from rarrg.extract.stage import read_key_phrases, with_key_phrases
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
    out = train(config)
    phrases = read_key_phrases(out / "key_phrases.jsonl")
    study = held_out(with_key_phrases(read_studies(config.data, config.seed), phrases))
    log.info("\nHeld-out study %s, as its radiologist reported it:\n%s\n\nRetrieved report:", study.id, study.findings)
    infer(
        InferOptions(
            frontal=_path(study, "frontal"),
            lateral=_path(study, "lateral"),
            model=str(out),
            out=out / "report.json",
            html=out / "report.html",
        )
    )
    log.info("Open %s in a browser and point at a phrase.", out / "report.html")


def held_out(studies: Sequence[Study]) -> Study:
    """The test study with a frontal and a lateral image whose report affirms most findings.

    Args:
        studies: Studies with key phrases attached.

    Raises:
        RarrgError: No test study has both views.
    """
    pairs = [
        study
        for study in studies
        if study.split == "test" and {"frontal", "lateral"} <= {view.position for view in study.views}
    ]
    if not pairs:
        raise RarrgError("no test study has both a frontal and a lateral image to report")
    return max(pairs, key=lambda study: sum(not phrase.startswith("no ") for phrase in study.key_phrases))


def _path(study: Study, position: Position) -> Path:
    return next(view.path for view in study.views if view.position == position)
