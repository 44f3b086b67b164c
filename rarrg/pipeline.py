"""From image files to a report: encoders, retriever and phrase store in one object (RA-RRG, section 3.3)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rarrg import __version__
from rarrg.artifacts import sha256_of
from rarrg.config import EncoderConfig
from rarrg.data.images import read_image
from rarrg.errors import RarrgError
from rarrg.models.reference import check_reference
from rarrg.models.retriever import PhraseRetriever, model_folder, select_queries, shared_logits
from rarrg.models.vision import FusedEncoder, load_fused
from rarrg.report.join import join_phrases
from rarrg.store.phrase_store import PhraseStore
from rarrg.types import Position, Report, RetrievedPhrase


@dataclass(frozen=True, eq=False)
class Retrieval:
    """What an image retrieved.

    Attributes:
        phrases: Different phrases, most probable first.
        below_threshold: No query passed the threshold, and the most probable one was taken.
        attention: Cross-attention of each phrase's query in the decoder's last layer, averaged over heads, float32
            ``[phrases, height, width]``; each map covers the whole image and sums to 1. None unless asked for.
    """

    phrases: tuple[RetrievedPhrase, ...]
    below_threshold: bool
    attention: np.ndarray | None = None


class Explanation(NamedTuple):
    """A report with what a reader needs to look at it: the arguments of :func:`rarrg.report.html.render`.

    Attributes:
        report: The report.
        images: Image of each view, uint8 ``[height, width]``.
        attention: Attention maps of each view's phrases, ``[phrases, height, width]``.
    """

    report: Report
    images: dict[Position, np.ndarray]
    attention: dict[Position, np.ndarray]


class ReportGenerator:
    """Writes the report of a study from its images. The text encoder is not needed: the store holds its embeddings.

    Args:
        encoder: The frozen encoders that the retriever was trained on.
        retriever: The trained retriever.
        store: Phrases to retrieve from.
        threshold: Selection probability above which a query retrieves its phrase, in (0, 1).
        together: The views of a study select phrases by the mean of their selection probabilities.
        device: Where the networks run; on a GPU they run in bfloat16.
        model_reference: Name and sha256 of the retriever, for the report.
        store_reference: Name and sha256 of the store, for the report.

    Raises:
        RarrgError: The threshold is out of range, or the parts do not fit each other.
    """

    def __init__(
        self,
        encoder: FusedEncoder,
        retriever: PhraseRetriever,
        store: PhraseStore,
        threshold: float,
        together: bool,
        device: torch.device,
        model_reference: dict[str, Any],
        store_reference: dict[str, Any],
    ) -> None:
        if not 0 < threshold < 1:
            raise RarrgError(f"threshold: must be in (0, 1), got {threshold:g}")
        self.encoder = encoder.to(device).eval()
        self.retriever = retriever.to(device).eval()
        self.store = store
        self.threshold = threshold
        self.together = together
        self.device = device
        self.model_reference = model_reference
        self.store_reference = store_reference

    @classmethod
    def from_pretrained(
        cls,
        model: str | Path,
        store: str | Path | None = None,
        threshold: float | None = None,
        device: str = "auto",
    ) -> ReportGenerator:
        """Load a model folder; its encoders, and the text encoder of its store, must be those it was trained with.

        Args:
            model: Folder of ``model.safetensors``, ``config.yaml`` and ``store/``, as ``train.py`` writes it, or the
                name ``ORG/NAME`` of such a model on the Hugging Face hub.
            store: Folder of another phrase store, made with the same text encoder.
            threshold: Selection probability; None takes the model's.
            device: ``auto`` (a GPU if there is one), ``cpu``, ``cuda`` or ``cuda:INDEX``.

        Raises:
            RarrgError: A part is missing, changed, or not the one that the model was trained with.
        """
        place = _device(device)
        folder = model_folder(model)
        retriever, info = PhraseRetriever.from_pretrained(folder)
        store_folder = Path(store).expanduser() if store is not None else folder / "store"
        if not store_folder.is_dir():
            raise RarrgError(f"{store_folder}: no phrase store here; name the folder of one with --store")
        phrases = PhraseStore.load(store_folder, info.text)
        encoder = load_fused(
            [EncoderConfig(ref["spec"], ref["size"], ref["revision"], ref["stages"]) for ref in info.vision]
        )
        for expected, found in zip(info.vision, encoder.references(), strict=True):
            check_reference(expected, found)
        is_local = Path(model).expanduser().is_dir()
        return cls(
            encoder,
            retriever,
            phrases,
            info.threshold if threshold is None else threshold,
            info.views == "together",
            place,
            {
                "name": folder.resolve().name if is_local else str(model),
                "sha256": sha256_of(folder / "model.safetensors"),
            },
            {"name": store_folder.resolve().name, "sha256": phrases.checksum},
        )

    def __call__(self, frontal: str | Path | None = None, lateral: str | Path | None = None) -> Report:
        """Write the report of one study.

        Args:
            frontal: Frontal image (JPEG, PNG or DICOM).
            lateral: Lateral image; either may be missing.

        Raises:
            RarrgError: Neither view is given.
            ImageError: An image cannot be read.
        """
        return self._generate(frontal, lateral, need_attention=False).report

    def explain(self, frontal: str | Path | None = None, lateral: str | Path | None = None) -> Explanation:
        """Write the report of one study and keep its images and the attention map of each phrase.

        Args:
            frontal: Frontal image (JPEG, PNG or DICOM).
            lateral: Lateral image; either may be missing.

        Raises:
            RarrgError: Neither view is given.
            ImageError: An image cannot be read.
        """
        return self._generate(frontal, lateral, need_attention=True)

    def retrieve(self, image: np.ndarray, need_attention: bool = False) -> Retrieval:
        """Retrieve the phrases of one image.

        Args:
            image: uint8 ``[height, width]``.
            need_attention: Keep the attention map of each phrase.
        """
        return self.retrieve_batch([image], need_attention)[0]

    @torch.inference_mode()
    def retrieve_batch(
        self, images: Sequence[np.ndarray], need_attention: bool = False, studies: Sequence[int] | None = None
    ) -> list[Retrieval]:
        """Retrieve the phrases of several images in one forward pass.

        Args:
            images: uint8 ``[height, width]`` each, of any sizes.
            need_attention: Keep the attention map of each phrase.
            studies: Study of each image; see :meth:`retrieve_features`.

        Returns:
            One retrieval an image.
        """
        pixels = [
            torch.stack(batch).to(self.device) for batch in zip(*map(self.encoder.preprocess, images), strict=True)
        ]
        with self._autocast():
            features = self.encoder(pixels)
        return self.retrieve_features(features, need_attention, studies)

    @torch.inference_mode()
    def retrieve_features(
        self, features: Tensor, need_attention: bool = False, studies: Sequence[int] | None = None
    ) -> list[Retrieval]:
        """Retrieve the phrases of images whose features are at hand.

        Args:
            features: What the encoders give, ``[images, channels, height, width]``.
            need_attention: Keep the attention map of each phrase.
            studies: Study of each image, as a number of one's own. Where the model takes views together, the images of
                a study share the mean of their selection probabilities. None: every image stands alone.

        Returns:
            One retrieval an image.
        """
        with self._autocast():
            output = self.retriever(features.to(self.device), need_attention)
        logits = output.logits.float()
        if self.together and studies is not None:
            logits = shared_logits(logits, studies)
        selected = select_queries(logits, self.threshold)
        similarities, ids = self.store.search(output.embeddings[selected].float().cpu().numpy())
        passed = (logits.sigmoid() > self.threshold).any(dim=1).tolist()
        probabilities = logits.sigmoid().cpu().numpy()
        attention = None if output.attention is None else output.attention.float().cpu().numpy()

        retrievals = []
        start = 0
        for row, mask in enumerate(selected.cpu().numpy()):
            queries = np.flatnonzero(mask)
            found = slice(start, start + len(queries))
            start += len(queries)
            phrases = self._phrases(queries, probabilities[row], similarities[found, 0], ids[found, 0])
            maps = None
            if attention is not None:
                maps = attention[row, [phrase.query for phrase in phrases]]
                maps = maps / maps.sum(axis=(1, 2), keepdims=True)
            retrievals.append(Retrieval(phrases, not passed[row], maps))
        return retrievals

    def _phrases(
        self, queries: np.ndarray, probabilities: np.ndarray, similarities: np.ndarray, ids: np.ndarray
    ) -> tuple[RetrievedPhrase, ...]:
        """Phrases by falling probability; of queries with the same phrase the most probable one stands for it."""
        best: dict[int, RetrievedPhrase] = {}
        for place in np.argsort(-probabilities[queries], kind="stable"):
            query, phrase = int(queries[place]), int(ids[place])
            if phrase not in best:
                best[phrase] = RetrievedPhrase(
                    self.store.phrases[phrase].text, float(probabilities[query]), float(similarities[place]), query
                )
        return tuple(best.values())

    def _generate(self, frontal: str | Path | None, lateral: str | Path | None, need_attention: bool) -> Explanation:
        given: dict[Position, str | Path | None] = {"frontal": frontal, "lateral": lateral}
        paths = {position: str(path) for position, path in given.items() if path is not None}
        if not paths:
            raise RarrgError("no image: give a frontal view, a lateral view or both")
        images = {position: read_image(Path(path)) for position, path in paths.items()}
        retrievals = dict(
            zip(images, self.retrieve_batch(list(images.values()), need_attention, [0] * len(images)), strict=True)
        )
        phrases = {position: retrieval.phrases for position, retrieval in retrievals.items()}
        report = Report(
            text=join_phrases(phrases),
            phrases=phrases,
            images=paths,
            below_threshold=tuple(position for position, found in retrievals.items() if found.below_threshold),
            threshold=self.threshold,
            version=__version__,
            model=self.model_reference,
            store=self.store_reference,
        )
        maps = {position: found.attention for position, found in retrievals.items() if found.attention is not None}
        return Explanation(report, images, maps)

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.device.type != "cuda":
            return nullcontext()
        return torch.autocast("cuda", dtype=torch.bfloat16)


def report_to_json(report: Report) -> dict[str, Any]:
    """A report as JSON values.

    Returns:
        ``text``, ``phrases`` (of each view: ``text``, ``probability``, ``similarity``, ``query``), ``images``,
        ``below_threshold``, ``version``, ``model``, ``store`` and ``thresholds``.
    """
    return {
        "text": report.text,
        "phrases": {position: [asdict(phrase) for phrase in phrases] for position, phrases in report.phrases.items()},
        "images": dict(report.images),
        "below_threshold": list(report.below_threshold),
        "version": report.version,
        "model": report.model,
        "store": report.store,
        "thresholds": {"selection": report.threshold},
    }


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    # torch has more devices, on which these networks do not run (meta, which holds no data, is one).
    if not re.fullmatch(r"cpu|cuda(:(0|[1-9][0-9]*))?", name):
        raise RarrgError(f"device {name}: is none of auto, cpu, cuda, cuda:INDEX")
    if name == "cpu":
        return torch.device(name)
    if not torch.cuda.is_available():
        raise RarrgError(f"device {name}: no GPU is available here; take cpu or auto")
    count = torch.cuda.device_count()
    if int(name.partition(":")[2] or 0) >= count:
        raise RarrgError(f"device {name}: the GPUs here are cuda:0 to cuda:{count - 1}")
    return torch.device(name)
