"""What a model retrieves for an evaluation, at its threshold and at others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from rarrg import comparison
from rarrg.comparison import Retrieved, _scoped, retrieve
from rarrg.config import TrainConfig
from rarrg.data.evaluation_set import POSITIONS, EvaluationSet, evaluation_set
from rarrg.metrics.findings import positive_findings
from rarrg.models.vision import FusedEncoder
from rarrg.pipeline import ReportGenerator
from rarrg.report.study import Retrieval
from rarrg.types import RetrievedPhrase, Split, Study, View
from tests.test_pipeline import build_model, draw_image, unit_rows


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_model(tmp_path_factory.mktemp("tiny"))


def generator_of(model: Path, together: bool) -> ReportGenerator:
    """Nine queries with anchors, near different phrases, and an offset that spreads their probabilities."""
    generator = ReportGenerator.from_pretrained(model, device="cpu")
    generator.retriever.anchors.copy_(torch.from_numpy(unit_rows(9, 5)))
    generator.retriever.set_offset(torch.linspace(-3, 3, 9))
    generator.together = together
    return generator


def studies_in(folder: Path) -> EvaluationSet:
    """Three studies of two views and one of a lateral view."""
    drawn = []
    for number in range(4):
        positions = POSITIONS if number < 3 else POSITIONS[1:]
        views = tuple(
            View(
                str(draw_image(folder / f"{number}-{position}.png", 2 * number + place)),
                position,
                f"{number}-{position}",
            )
            for place, position in enumerate(positions)
        )
        drawn.append(Study(str(number), "test", views, "The lungs are clear."))
    return evaluation_set(drawn)


@pytest.mark.parametrize("together", [False, True])
def test_what_is_above_a_threshold_is_what_would_be_retrieved_at_it(
    model: Path, tmp_path: Path, together: bool
) -> None:
    generator, evaluated = generator_of(model, together), studies_in(tmp_path)
    low = retrieve(generator, evaluated, tmp_path / "cache", 0.05)
    counts = []
    for threshold in (0.05, 0.2, 0.4, 0.6, 0.99):
        expected = retrieve(generator, evaluated, tmp_path / "cache", threshold)
        for found, own in (
            *zip(low.above(threshold).alone, expected.alone, strict=True),
            *zip(low.above(threshold).in_study, expected.in_study, strict=True),
        ):
            assert [(p.text, p.query) for p in found.phrases] == [(p.text, p.query) for p in own.phrases]
            assert found.below_threshold == own.below_threshold
        counts.append(sum(len(image.phrases) for image in expected.in_study))
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[2] > counts[-1] == len(evaluated.views)  # the best one alone at the end
    frontal, lateral = ({p.query: p.probability for p in low.in_study[image].phrases} for image in (0, 1))
    both = frontal.keys() & lateral.keys()
    assert both
    assert ([frontal[query] for query in both] == [lateral[query] for query in both]) == together


def test_no_image_is_encoded_twice(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator, evaluated = generator_of(model, True), studies_in(tmp_path)
    encoded = []
    forward = FusedEncoder.forward

    def counting(self: FusedEncoder, pixels: list[torch.Tensor]) -> torch.Tensor:
        encoded.append(len(pixels[0]))
        return forward(self, pixels)

    monkeypatch.setattr(FusedEncoder, "forward", counting)
    low = retrieve(generator, evaluated, tmp_path / "cache", 0.05)
    for threshold in (0.1, 0.5, 0.9):
        low.above(threshold)
    assert sum(encoded) == len(evaluated.views)


def test_a_probability_that_is_the_threshold_does_not_pass_it() -> None:
    phrases = tuple(RetrievedPhrase(text, float(np.float32(p)), 1.0, 0) for text, p in (("a", 0.7), ("b", 0.1)))
    found = Retrieved([Retrieval(phrases, False)], [Retrieval(phrases, False)])
    assert [p.text for p in found.above(0.1).alone[0].phrases] == ["a"]  # in float32 0.1 is more than 0.1
    assert [p.text for p in found.above(0.0999).alone[0].phrases] == ["a", "b"]
    (best,) = found.above(0.7).in_study
    assert ([p.text for p in best.phrases], best.below_threshold) == (["a"], True)


def test_a_scope_without_studies_has_none(tmp_path: Path) -> None:
    view = View(str(draw_image(tmp_path / "a.png", 1)), "frontal", "a")
    frontal = evaluation_set([Study("1", "test", (view,), "Clear lungs.")])
    values = np.array([[0.2, 0.8]])
    assert _scoped(frontal, "frontal", values).tolist() == values.tolist()
    assert _scoped(frontal, "lateral", values).shape == (0, 2)


class PooledFeatures:
    """Features in place of a cache: findings are the sign of the first channel."""

    def pooled(self, views: Sequence[View]) -> np.ndarray:
        return np.array([[1.0 if view.image_id.endswith("sick") else -1.0, 0.5] for view in views])


def frontal_studies(split: Split) -> list[Study]:
    said = {"sick": "Left pleural effusion.", "well": "Lungs are clear."}
    return [
        Study(f"{split}{number}{state}", split, (View("", "frontal", f"{split}{number}{state}"),), findings)
        for number in range(4)
        for state, findings in said.items()
    ]


def test_a_probe_needs_no_lateral_images(monkeypatch: pytest.MonkeyPatch) -> None:
    of_split = {split: frontal_studies(split) for split in ("train", "val", "test")}
    monkeypatch.setattr(comparison, "read_studies", lambda *_: [each for found in of_split.values() for each in found])
    examples = {
        split: [SimpleNamespace(view=study.views[0], study_id=study.id) for study in of_split[split]]
        for split in ("train", "val")
    }
    cache = PooledFeatures()
    prepared: Any = SimpleNamespace(cache=cache, splits=examples)
    evaluated = evaluation_set(of_split["test"])
    train_features = cache.pooled([example.view for example in examples["train"]])
    found = comparison._probe(evaluated, cache.pooled(evaluated.views), train_features, prepared, TrainConfig())
    expected = positive_findings([study.findings for study in evaluated.studies])
    assert expected.any()
    for scope in ("study", "frontal"):
        assert (found[scope].findings == expected).all()
    assert found["lateral"].findings.shape == (0, expected.shape[1])
