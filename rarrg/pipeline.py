"""From image files to a report: encoders, retriever and phrase store in one object (RA-RRG, section 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rarrg import __version__
from rarrg.data.remote import read_located
from rarrg.devices import device_of
from rarrg.errors import RarrgError
from rarrg.metrics.findings import label_findings
from rarrg.models.model_folder import encoders_of, weights_checksum
from rarrg.models.reference import check_reference
from rarrg.models.retriever import PhraseRetriever, model_folder, select_queries, shared_logits
from rarrg.models.vision import FusedEncoder, load_fused
from rarrg.report.resolve import resolve
from rarrg.report.study import Retrieval, StudyRetrieval, by_view
from rarrg.report.writing import JoinWriter, Writer
from rarrg.store.phrase_store import PhraseStore
from rarrg.types import Position, Precedence, Report, RetrievedPhrase
from rarrg.writer_config import WriterConfig
from rarrg.writers import open_writer

Images = str | Path | Sequence[str | Path] | None
"""Image files of one view, or addresses on object storage (:mod:`rarrg.data.remote`)."""

Resized = tuple[Tensor, ...]
"""An image at each encoder's size, uint8 ``[1, size, size]``."""


class Explanation(NamedTuple):
    """A report with what a reader needs to look at it: the arguments of :func:`rarrg.report.html.render`.

    Attributes:
        report: The report.
        images: Images of each view, uint8 ``[height, width]``.
        attention: Attention maps of each view's phrases, ``[phrases, height, width]``.
    """

    report: Report
    images: dict[Position, list[np.ndarray]]
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
        writer: Makes a report of phrases; None joins them.
        precedence: Which of two phrases that contradict each other stays.

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
        writer: Writer | None = None,
        precedence: Precedence = "findings",
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
        self.writer = writer or JoinWriter(label_findings)
        self.precedence: Precedence = precedence

    @classmethod
    def from_pretrained(
        cls,
        model: str | Path,
        store: str | Path | None = None,
        threshold: float | None = None,
        device: str = "auto",
        writer: WriterConfig | None = None,
        hear: Callable[[str], None] | None = None,
    ) -> ReportGenerator:
        """Load a model folder; its encoders, and the text encoder of its store, must be those it was trained with.

        Args:
            model: Folder of ``model.safetensors``, ``config.yaml`` and ``store/``, as ``train.py`` writes it, or the
                name ``ORG/NAME`` of such a model on the Hugging Face hub.
            store: Folder of another phrase store, made with the same text encoder.
            threshold: Selection probability; None takes the model's.
            device: ``auto`` (a GPU if there is one), ``cpu``, ``cuda`` or ``cuda:INDEX``.
            writer: How phrases become a report; None joins them.
            hear: Gets each piece of a draft as a language model writes it; for one study at a time.

        Raises:
            RarrgError: A part is missing, changed, or not the one that the model was trained with; the language model
                cannot be had, or phrases may not go to it.
        """
        place = device_of(device)
        writing = writer or WriterConfig()
        folder = model_folder(model)
        retriever, info = PhraseRetriever.from_pretrained(folder)
        store_folder = Path(store).expanduser() if store is not None else folder / "store"
        if not store_folder.is_dir():
            raise RarrgError(f"{store_folder}: no phrase store here; name the folder of one with --store")
        phrases = PhraseStore.load(store_folder, info.text)
        encoder = load_fused(encoders_of(folder, info), retriever.config.pool)
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
                "sha256": weights_checksum(folder),
            },
            {"name": store_folder.resolve().name, "sha256": phrases.checksum},
            open_writer(writing, phrases.credentialed, hear),
            writing.resolve,
        )

    def __call__(self, frontal: Images = None, lateral: Images = None) -> Report:
        """Write the report of one study.

        Args:
            frontal: Frontal image or images (JPEG, PNG or DICOM).
            lateral: Lateral image or images; either view may be missing.

        Raises:
            RarrgError: Neither view is given, or the language model cannot be had.
            ImageError: An image cannot be read.
        """
        return self._write_one(self.look(frontal, lateral))

    def explain(self, frontal: Images = None, lateral: Images = None) -> Explanation:
        """Write the report of one study and keep its images and the attention map of each phrase.

        Args:
            frontal: Frontal image or images (JPEG, PNG or DICOM).
            lateral: Lateral image or images; either view may be missing.

        Raises:
            RarrgError: Neither view is given, or the language model cannot be had.
            ImageError: An image cannot be read.
        """
        study, images = self._look(frontal, lateral, need_attention=True)
        return Explanation(self._write_one(study), images, study.attention)

    def look(self, frontal: Images = None, lateral: Images = None) -> StudyRetrieval:
        """Retrieve the phrases of one study, without writing a report.

        Args:
            frontal: Frontal image or images (JPEG, PNG or DICOM).
            lateral: Lateral image or images; either view may be missing.

        Raises:
            RarrgError: Neither view is given.
            ImageError: An image cannot be read.
        """
        return self._look(frontal, lateral, need_attention=False)[0]

    def resolved(self, study: StudyRetrieval) -> StudyRetrieval:
        """Drop phrases that contradict others.

        Args:
            study: What a study retrieved.
        """
        return study.keep(*resolve(study.phrases, label_findings, self.precedence))

    def write(self, studies: Iterable[tuple[str, StudyRetrieval]]) -> Iterator[tuple[str, Report]]:
        """Write the reports of many studies; a language model writes several at a time.

        Args:
            studies: A name and what :meth:`look` gave, drawn as there is room for them.

        Yields:
            Each name with its report, as they are ready.

        Raises:
            RarrgError: The language model cannot be had.
        """
        looked: dict[str, StudyRetrieval] = {}

        def drafts() -> Iterator[tuple[str, StudyRetrieval]]:
            for name, study in studies:
                looked[name] = study
                yield name, study

        for name, written in self.writer.write(drafts()):
            study = looked.pop(name)
            yield (
                name,
                Report(
                    text=written.text,
                    phrases=study.phrases,
                    images=study.images,
                    below_threshold=study.below_threshold,
                    threshold=self.threshold,
                    resolve=self.precedence,
                    dropped=study.dropped,
                    grounding=written.grounding,
                    writer=written.writer,
                    version=__version__,
                    model=self.model_reference,
                    store=self.store_reference,
                ),
            )

    def retrieve(self, image: np.ndarray, need_attention: bool = False) -> Retrieval:
        """Retrieve the phrases of one image.

        Args:
            image: uint8 ``[height, width]``.
            need_attention: Keep the attention map of each phrase.
        """
        return self.retrieve_batch([image], need_attention)[0]

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
        return self.retrieve_features(
            self.encode([self.encoder.resize(image) for image in images]), need_attention, studies
        )

    @torch.inference_mode()
    def encode(self, images: Sequence[Resized]) -> Tensor:
        """Features of several images in one forward pass.

        Args:
            images: Each as the encoder's ``resize`` gives it.

        Returns:
            ``[images, channels, height, width]``, on the generator's device.
        """
        pixels = [torch.stack(batch).to(self.device) for batch in zip(*images, strict=True)]
        with self._autocast():
            features: Tensor = self.encoder(pixels)
        return features

    @torch.inference_mode()
    def retrieve_features(
        self,
        features: Tensor,
        need_attention: bool = False,
        studies: Sequence[int] | None = None,
        threshold: float | None = None,
    ) -> list[Retrieval]:
        """Retrieve the phrases of images whose features are at hand.

        Args:
            features: What the encoders give, ``[images, channels, height, width]``.
            need_attention: Keep the attention map of each phrase.
            studies: Study of each image, as a number of one's own. Where the model takes views together, the images of
                a study share the mean of their selection probabilities. None: every image stands alone.
            threshold: Selection probability in (0, 1); None takes the model's.

        Returns:
            One retrieval an image.
        """
        threshold = self.threshold if threshold is None else threshold
        with self._autocast():
            output = self.retriever(features.to(self.device), need_attention)
        logits = output.logits.float()
        if self.together and studies is not None:
            logits = shared_logits(logits, studies)
        selected = select_queries(logits, threshold)
        similarities, ids = self.store.search(output.embeddings[selected].float().cpu().numpy())
        passed = (logits.sigmoid() > threshold).any(dim=1).tolist()
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

    def _look(
        self, frontal: Images, lateral: Images, need_attention: bool
    ) -> tuple[StudyRetrieval, dict[Position, list[np.ndarray]]]:
        files = image_files(frontal, lateral)
        pixels = [read_located(path) for _, path in files]
        found = self.retrieve_batch(pixels, need_attention, [0] * len(pixels))
        study = self.resolved(by_view([(view, path, each) for (view, path), each in zip(files, found, strict=True)]))
        images: dict[Position, list[np.ndarray]] = {}
        for (view, _), image in zip(files, pixels, strict=True):
            images.setdefault(view, []).append(image)
        return study, images

    def _write_one(self, study: StudyRetrieval) -> Report:
        return next(self.write([("", study)]))[1]

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.device.type != "cuda":
            return nullcontext()
        return torch.autocast("cuda", dtype=torch.bfloat16)


def image_files(frontal: Images, lateral: Images) -> list[tuple[Position, str]]:
    """View and path of each image of a study.

    Args:
        frontal: Frontal image or images.
        lateral: Lateral image or images.

    Raises:
        RarrgError: There is none.
    """
    given: dict[Position, Images] = {"frontal": frontal, "lateral": lateral}
    files = [(view, str(path)) for view, paths in given.items() for path in _listed(paths)]
    if not files:
        raise RarrgError("no image: give a frontal view, a lateral view or both")
    return files


def _listed(paths: Images) -> list[str | Path]:
    if paths is None:
        return []
    return [paths] if isinstance(paths, (str, Path)) else list(paths)
