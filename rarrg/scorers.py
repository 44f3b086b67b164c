"""CheXbert and RadGraph on references and reports, where their weights are given. Heavy imports wait until then."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rarrg.errors import require

if TYPE_CHECKING:
    from rarrg.extract.radgraph import RadGraphAnnotator
    from rarrg.models.chexbert import CheXbert

HUB = "hub"
"""In the place of a path: take the weights from the Hugging Face hub."""

HOW_TO_GET = {
    "chexbert": "--chexbert=PATH of chexbert.pth (huggingface.co/StanfordAIMI/RRG_scorers), or --chexbert=hub",
    "radgraph": "--radgraph.weights=DIR of the unpacked radgraph.tar.gz (the same place), or --radgraph.weights=hub; "
    "needs the package radgraph (pip install 'rarrg[extract]')",
}
"""What to say where a scorer was not asked for."""


@dataclass(frozen=True)
class RadGraphScorer:
    """RadGraph as a measure; the model of Jain et al. 2021, as the paper.

    Args:
        weights: Folder with the unpacked weights, or ``hub``; null leaves RadGraph out.
        processes: Worker processes.
    """

    weights: str | None = None
    processes: int = 1

    def __post_init__(self) -> None:
        require(self.processes >= 1, "radgraph.processes", "at least 1", self.processes)


@dataclass(frozen=True)
class ScorerConfig:
    """What reports are measured with beside their texts.

    Args:
        chexbert: ``chexbert.pth``, its folder (which may hold ``vocab.txt`` of bert-base-uncased as well), or ``hub``;
            null leaves CheXbert out.
        radgraph: RadGraph.
    """

    chexbert: str | None = None
    radgraph: RadGraphScorer = field(default_factory=RadGraphScorer)


class Scorers:
    """The scorers that are wanted, ready to run. What they say of a text is kept, so that equal texts cost once.

    Args:
        config: Which ones.
        device: Where CheXbert runs.

    Attributes:
        versions: Version of each scorer, with a digest of its weights.

    Raises:
        RarrgError: A package or weights cannot be had.
    """

    def __init__(self, config: ScorerConfig, device: str = "cpu") -> None:
        self.versions: dict[str, str] = {}
        self._labeler = None if config.chexbert is None else _chexbert(config.chexbert, device)
        self._annotator = None if config.radgraph.weights is None else _radgraph(config.radgraph)
        if self._labeler is not None:
            self.versions["chexbert"] = self._labeler.version
        if self._annotator is not None:
            self.versions["radgraph"] = self._annotator.version
        self._classes: dict[str, np.ndarray] = {}
        # RadGraph fails on an empty text, which would take a report that says nothing out of the mean.
        self._annotations: dict[str, dict[str, Any] | None] = {"": {"entities": {}}}

    def run(self, references: Sequence[str], reports: Sequence[str]) -> dict[str, Any]:
        """Label and annotate references and reports.

        Args:
            references: The references.
            reports: The reports, as many.

        Returns:
            ``chexbert``, ``radgraph`` and ``radgraph_lower`` as :func:`rarrg.metrics.report_scores.score_reports` takes
            them; those of scorers left out are missing.

        Raises:
            RarrgError: RadGraph cannot be loaded.
        """
        given: dict[str, Any] = {}
        texts, first = [text.strip() for text in (*references, *reports)], len(references)
        if self._labeler is not None:
            pending = _new(texts, self._classes)
            self._classes.update(zip(pending, self._labeler.label(pending), strict=True))
            classes = np.array([self._classes[text] for text in texts])
            given["chexbert"] = (classes[:first], classes[first:])
        if self._annotator is not None:
            for kind, variant in (("radgraph", texts), ("radgraph_lower", [text.lower() for text in texts])):
                self._annotate(_new(variant, self._annotations))
                found = [self._annotations[text] for text in variant]
                given[kind] = (found[:first], found[first:])
        return given

    def _annotate(self, texts: Sequence[str]) -> None:
        from tqdm import tqdm

        assert self._annotator is not None
        outcomes = tqdm(
            self._annotator.annotate(texts), total=len(texts), desc="annotating reports", unit="report", delay=2
        )
        for text, outcome in zip(texts, outcomes, strict=True):
            self._annotations[text] = getattr(outcome, "annotation", None)  # NotAnnotated has none


def _new(texts: Sequence[str], known: Container[str]) -> list[str]:
    return [text for text in dict.fromkeys(texts) if text not in known]


def _chexbert(weights: str, device: str) -> CheXbert:
    from rarrg.devices import device_of
    from rarrg.models.chexbert import TOKENIZER, load_chexbert

    place = device_of(device)
    if weights == HUB:
        return load_chexbert(None, TOKENIZER, place)
    path = Path(weights).expanduser()
    folder = path if path.is_dir() else path.parent
    return load_chexbert(path, folder if (folder / "vocab.txt").is_file() else TOKENIZER, place)


def _radgraph(config: RadGraphScorer) -> RadGraphAnnotator:
    from rarrg.extract.radgraph import RadGraphAnnotator
    from rarrg.extract_config import RadGraphConfig

    weights = None if config.weights == HUB else config.weights
    return RadGraphAnnotator(RadGraphConfig(weights=weights, processes=config.processes))
