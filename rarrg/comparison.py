"""The systems that a model is compared with, on the same images and training studies.

``frequent``: the most frequent phrases, for everyone. ``nearest``: the phrases of the nearest training image.
``sentences``: the same model, trained on whole sentences of the findings. ``parity``: the paper's losses as printed.
``probe``: a linear probe of the findings on the pooled features.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tqdm.auto import tqdm

from rarrg.artifacts import write_jsonl
from rarrg.baselines import LinearProbe, average_by_study, choose_thresholds, frequent_phrases, nearest_phrases
from rarrg.config import TrainConfig
from rarrg.data.evaluation_set import SCOPES, EvaluationSet, Scope, evaluation_set
from rarrg.data.features import FeatureCache
from rarrg.data.studies import read_studies
from rarrg.extract.rules import extract_phrases
from rarrg.extract.sentences import sentences
from rarrg.extract.spelling import MARK
from rarrg.metrics.findings import positive_findings
from rarrg.metrics.systems import SystemOutput
from rarrg.pipeline import ReportGenerator
from rarrg.preparation import Prepared, prepare
from rarrg.report.study import Retrieval
from rarrg.training_once import train_once

log = logging.getLogger(__name__)

BASELINES = ("frequent", "nearest", "sentences", "parity", "probe")
STUDIES = 32
"""Studies of a forward pass."""

Outputs = dict[Scope, SystemOutput]


@dataclass(frozen=True)
class Retrieved:
    """What a model retrieves for each image.

    Attributes:
        alone: For the image alone.
        in_study: For the image beside the other view of its study, as a report does.
    """

    alone: list[Retrieval]
    in_study: list[Retrieval]

    def above(self, threshold: float) -> Retrieved:
        """What each image retrieves at a threshold as high as this one's, or higher; no network runs.

        Args:
            threshold: Selection probability, in (0, 1).
        """
        return Retrieved(*([_above(image, threshold) for image in images] for images in (self.alone, self.in_study)))

    def texts(self) -> dict[Scope, list[list[str]]]:
        """Phrases of each image, for each scope."""
        alone, in_study = (
            [[phrase.text for phrase in image.phrases] for image in images] for images in (self.alone, self.in_study)
        )
        return {"study": in_study, "frontal": alone, "lateral": alone}


def _above(image: Retrieval, threshold: float) -> Retrieval:
    # In float32, as select_queries compares: 0.1 of a query is not above 0.1.
    passed = tuple(each for each in image.phrases if np.float32(each.probability) > np.float32(threshold))
    return Retrieval(passed or image.phrases[:1], not passed)


def retrieve(
    generator: ReportGenerator, evaluated: EvaluationSet, cache: Path, threshold: float | None = None
) -> Retrieved:
    """Run a model on cached features; those that the cache lacks are computed.

    Args:
        generator: The model.
        evaluated: The studies.
        cache: Folder of caches.
        threshold: Selection probability in (0, 1); None takes the model's.
    """
    features = FeatureCache(cache, generator.encoder)
    features.build(evaluated.views, generator.device)
    found = Retrieved([], [])
    members = evaluated.members["study"]
    for start in tqdm(range(0, len(members), STUDIES), desc="retrieving phrases", unit="batch"):
        part = members[start : start + STUDIES]
        images = [image for _, of_study in part for image in of_study]
        batch = torch.stack([features.read(evaluated.views[image].path).float() for image in images])
        studies = [study for study, of_study in part for _ in of_study]
        found.alone.extend(generator.retrieve_features(batch, threshold=threshold))
        found.in_study.extend(generator.retrieve_features(batch, studies=studies, threshold=threshold))
    return found


def spoken(
    evaluated: EvaluationSet,
    said_of: dict[Scope, list[list[str]]],
    phrases_of: Callable[[Sequence[str]], Sequence[str]] = tuple,
) -> Outputs:
    """What a system says of each study and view, from what it says of each image.

    Args:
        evaluated: The studies.
        said_of: Phrases or sentences of each image, for each scope.
        phrases_of: Turns what is said into key phrases.
    """
    return {scope: spoken_in(evaluated, scope, said_of[scope], phrases_of) for scope in SCOPES}


def spoken_in(
    evaluated: EvaluationSet,
    scope: Scope,
    images: Sequence[Sequence[str]],
    phrases_of: Callable[[Sequence[str]], Sequence[str]] = tuple,
) -> SystemOutput:
    """What a system says of the studies of one scope, each text once; as :func:`spoken`.

    Args:
        evaluated: The studies.
        scope: Which of them, and by which images.
        images: Phrases or sentences of each image.
        phrases_of: Turns what is said into key phrases.
    """
    said = [
        tuple(dict.fromkeys(text for image in members for text in images[image]))
        for _, members in evaluated.members[scope]
    ]
    findings = positive_findings([". ".join(texts) for texts in said])
    return SystemOutput(findings, [tuple(phrases_of(texts)) for texts in said])


def baseline_outputs(
    evaluated: EvaluationSet, config: TrainConfig, parity: TrainConfig, device: torch.device
) -> dict[str, Outputs]:
    """Fit the baselines, or take up those fitted before, and run them.

    The two that are trained become model folders ``sentences`` and ``parity`` in ``config.out``, which later calls with
    the same configuration take up again.

    Args:
        evaluated: The studies to run them on.
        config: What the model was trained with; ``out`` is the folder of the baselines.
        parity: The configuration with the paper's losses, for the same studies.
        device: Where networks run.

    Returns:
        The outputs of each of ``BASELINES``.

    Raises:
        RarrgError: Data or encoders are missing.
    """
    folder, cache = Path(config.out), Path(config.data.cache)
    prepared = prepare(config, device)
    assert prepared.cache is not None
    prepared.cache.build(evaluated.views, device)
    by_study = {example.study_id: example.phrases for example in prepared.splits["train"]}
    frequent = frequent_phrases(list(by_study.values()))
    train_features = prepared.cache.pooled([example.view for example in prepared.splits["train"]])
    features = prepared.cache.pooled(evaluated.views)
    nearest = nearest_phrases(train_features, [example.phrases for example in prepared.splits["train"]], features)

    whole = dataclasses.replace(
        config,
        out=str(folder / "sentences"),
        data=dataclasses.replace(config.data, phrases=str(write_sentences(config, folder / "sentences.jsonl"))),
    )
    paper = dataclasses.replace(parity, out=str(folder / "parity"))
    said = {
        name: retrieve(_trained(run, device), evaluated, cache).texts()
        for name, run in (("sentences", whole), ("parity", paper))
    }
    return {
        "frequent": spoken(evaluated, _in_every_scope([frequent] * len(evaluated.views))),
        "nearest": spoken(evaluated, _in_every_scope(nearest)),
        "sentences": spoken(evaluated, said["sentences"], lambda texts: extract_phrases(". ".join(texts))),
        "parity": spoken(evaluated, said["parity"]),
        "probe": _probe(evaluated, features, train_features, prepared, config),
    }


def probe_outputs(evaluated: EvaluationSet, config: TrainConfig, device: torch.device) -> Outputs:
    """The linear probe of a configuration's encoders, adapted ones where it has them.

    Args:
        evaluated: The studies to run it on.
        config: Its studies and encoders; ``out`` is the folder of the baselines.
        device: Where networks run.

    Raises:
        RarrgError: Data or encoders are missing.
    """
    prepared = prepare(config, device)
    assert prepared.cache is not None
    prepared.cache.build(evaluated.views, device)
    train_features = prepared.cache.pooled([example.view for example in prepared.splits["train"]])
    return _probe(evaluated, prepared.cache.pooled(evaluated.views), train_features, prepared, config)


def _in_every_scope(images: Sequence[Sequence[str]]) -> dict[Scope, list[list[str]]]:
    return {scope: [list(said) for said in images] for scope in SCOPES}


def write_sentences(config: TrainConfig, path: Path) -> Path:
    """Whole sentences of the findings as key phrases; those with a de-identification mark are left out."""
    studies = [study for study in read_studies(config.data, config.seed) if study.findings]
    rows = (
        {
            "study_id": study.id,
            "key_phrases": [text for text in dict.fromkeys(sentences(study.findings)) if MARK not in text],
        }
        for study in studies
    )
    write_jsonl(path, rows)
    return path


def _trained(config: TrainConfig, device: torch.device) -> ReportGenerator:
    return ReportGenerator.from_pretrained(train_once(config), device=str(device))


def _probe(
    evaluated: EvaluationSet,
    features: np.ndarray,
    train_features: np.ndarray,
    prepared: Prepared,
    config: TrainConfig,
) -> Outputs:
    """The probe trains on images; its thresholds are chosen for each scope on validation studies seen the same way."""
    assert prepared.cache is not None
    studies = {study.id: study for study in read_studies(config.data, config.seed)}
    readable = {example.view.image_id for example in prepared.splits["val"]}
    val = evaluation_set(
        [study for study in studies.values() if study.split == "val" and study.findings],
        {view.image_id for study in studies.values() for view in study.views} - readable,
    )
    ids = [example.study_id for example in prepared.splits["train"]]
    of_study = dict(zip(studies, positive_findings([study.findings for study in studies.values()]), strict=True))
    train_labels = np.stack([of_study[study] for study in ids])
    val_features = prepared.cache.pooled(val.views)
    of_image = np.zeros(len(val.views), dtype=np.int64)
    for study, members in val.members["study"]:
        of_image[list(members)] = study
    val_labels = np.stack([of_study[study.id] for study in val.studies])
    probe = LinearProbe.fit(train_features, train_labels, val_features, val_labels[of_image])

    outputs: Outputs = {}
    for scope in SCOPES:
        # without such images in validation: as for all of a study's
        known: Scope = scope if val.members[scope] else "study"
        chosen = choose_thresholds(
            _scoped(val, known, probe.predict_proba(val_features)),
            val_labels[[study for study, _ in val.members[known]]],
        )
        outputs[scope] = SystemOutput(_scoped(evaluated, scope, probe.predict_proba(features)) >= chosen, None)
    return outputs


def _scoped(evaluated: EvaluationSet, scope: Scope, values: np.ndarray) -> np.ndarray:
    """Average of what the images of each study of a scope got, ``[studies, k]``; ``[0, k]`` where there is none."""
    members = [images for _, images in evaluated.members[scope]]
    if not members:
        return values[:0]
    rows = np.concatenate([np.asarray(images) for images in members])
    index = np.repeat(np.arange(len(members)), [len(images) for images in members])
    return average_by_study(values[rows], index)
