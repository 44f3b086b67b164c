"""CheXbert and RadGraph as scorers, with stand-ins for the models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch

from rarrg.devices import device_of
from rarrg.errors import RarrgError
from rarrg.extract.radgraph import Annotated, NotAnnotated, Outcome
from rarrg.extract_config import RadGraphConfig
from rarrg.scorers import RadGraphScorer, ScorerConfig, Scorers

REFERENCES = ["Heart is BIG.", "", "same"]
REPORTS = ["fails", "same", "Heart is BIG."]


class Annotator:
    """Takes a text for its one entity, and fails where the text says so."""

    version = "stand-in 1"
    configs: ClassVar[list[RadGraphConfig]] = []
    asked: ClassVar[list[str]] = []

    def __init__(self, config: RadGraphConfig) -> None:
        Annotator.configs.append(config)

    def annotate(self, texts: Iterable[str]) -> Iterator[Outcome]:
        for text in texts:
            Annotator.asked.append(text)
            entities = {"1": {"tokens": text, "label": "OBS-DP", "relations": []}}
            yield NotAnnotated("it fails", 0) if text == "fails" else Annotated({"entities": entities}, 0)


class CheXbert:
    version = "stand-in 2"

    def label(self, texts: list[str]) -> np.ndarray:
        assert len(set(texts)) == len(texts)
        return np.array([[len(text)] * 14 for text in texts])


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    loaded: list[tuple] = []

    def load(*given: object) -> CheXbert:
        loaded.append(given)
        return CheXbert()

    monkeypatch.setattr("rarrg.extract.radgraph.RadGraphAnnotator", Annotator)
    monkeypatch.setattr("rarrg.models.chexbert.load_chexbert", load)
    monkeypatch.setattr(Annotator, "configs", [])
    monkeypatch.setattr(Annotator, "asked", [])
    return loaded


def test_nothing_runs_that_was_not_asked_for(stand_ins: list[tuple]) -> None:
    scorers = Scorers(ScorerConfig())
    assert (scorers.run(REFERENCES, REPORTS), scorers.versions, stand_ins, Annotator.configs) == ({}, {}, [], [])


def test_radgraph_sees_each_text_once_as_it_is_and_lower_cased(stand_ins: list[tuple]) -> None:
    scorers = Scorers(ScorerConfig(radgraph=RadGraphScorer("w", 2)))
    given = scorers.run(REFERENCES, REPORTS)
    assert Annotator.configs == [RadGraphConfig(weights="w", processes=2)]
    assert Annotator.asked == ["Heart is BIG.", "same", "fails", "heart is big."]
    references, reports = given["radgraph"]
    assert references[1] == {"entities": {}}  # an empty text has no entities; it does not fail
    assert reports[0] is None
    assert references[0] == reports[2]
    assert given["radgraph_lower"][0][0]["entities"]["1"]["tokens"] == "heart is big."
    assert scorers.versions == {"radgraph": "stand-in 1"}
    scorers.run(REFERENCES, ["another", "same", "fails"])
    assert Annotator.asked[4:] == ["another"]
    Scorers(ScorerConfig(radgraph=RadGraphScorer("hub")))
    assert Annotator.configs[-1].weights is None


def test_chexbert_labels_both_sides(stand_ins: list[tuple], tmp_path: Path) -> None:
    scorers = Scorers(ScorerConfig(chexbert="hub"), "cpu")
    references, reports = scorers.run(REFERENCES, REPORTS[:2])["chexbert"]
    assert references[:, 0].tolist() == [13, 0, 4]
    assert reports[:, 13].tolist() == [5, 4]
    assert scorers.versions == {"chexbert": "stand-in 2"}
    Scorers(ScorerConfig(chexbert=str(tmp_path / "chexbert.pth")))
    (tmp_path / "vocab.txt").write_text("x")
    Scorers(ScorerConfig(chexbert=str(tmp_path / "chexbert.pth")), "auto")
    Scorers(ScorerConfig(chexbert=str(tmp_path)))
    assert stand_ins == [
        (None, "bert-base-uncased", torch.device("cpu")),
        (tmp_path / "chexbert.pth", "bert-base-uncased", torch.device("cpu")),
        (tmp_path / "chexbert.pth", tmp_path, device_of("auto")),  # the tokenizer that lies beside the weights
        (tmp_path, tmp_path, torch.device("cpu")),
    ]
    with pytest.raises(RarrgError, match="device gpu: is none of auto, cpu, cuda"):
        Scorers(ScorerConfig(chexbert="hub"), "gpu")


def test_a_process_is_the_least() -> None:
    with pytest.raises(RarrgError, match=r"radgraph\.processes: must be at least 1, got 0"):
        RadGraphScorer(processes=0)
