"""What training needs before its first step: studies, key phrases, readable images, their features, and the store."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rarrg.adaptation import adapt_encoders, check_adaptable
from rarrg.config import TrainConfig
from rarrg.data.card import is_credentialed
from rarrg.data.features import FeatureCache, expand
from rarrg.data.images import read_image
from rarrg.data.pixels import PixelCache
from rarrg.data.screening import screen_images, write_skipped
from rarrg.data.studies import Example, examples_of, read_studies
from rarrg.data.windows import Shards
from rarrg.errors import RarrgError
from rarrg.extract.key_phrases import KEY_PHRASES, read_key_phrases, with_key_phrases
from rarrg.extract.reports import reports_of
from rarrg.extract.rules_step import extract_with_rules
from rarrg.memory import no_collection
from rarrg.models.linear_reading import LinearReading
from rarrg.models.text import TextEncoder, embed_phrases, load_text_encoder
from rarrg.models.vision import FusedEncoder, load_fused
from rarrg.store.phrase_store import PhraseStore, StoredPhrase
from rarrg.types import Split, Study

log = logging.getLogger(__name__)

STATISTICS_IMAGES = 512
SHOWN_STUDIES = 5


@dataclass(frozen=True)
class Prepared:
    """The inputs of a training run.

    Attributes:
        splits: Readable images of train, val and test with their key phrases.
        encoder: The frozen image encoders.
        classifier: What the classifiers of adapted encoders read in their map, a class for each finding; None where
            none was adapted.
        cache: Their features, or None where they run in every step.
        pixels: Resized images for such steps, or None where files are decoded every time.
        text: The frozen sentence encoder.
        phrases: Row of the phrase table by phrase, for every phrase of train and val.
        table: Clean unit embeddings, ``[phrases, dim]``.
        store: Phrase store of the training phrases.
    """

    splits: dict[Split, list[Example]]
    encoder: FusedEncoder
    classifier: LinearReading | None
    cache: FeatureCache | None
    pixels: PixelCache | None
    text: TextEncoder
    phrases: dict[str, int]
    table: Tensor
    store: PhraseStore

    def read(self, path: Path) -> tuple[Tensor, ...]:
        """The tensors of an image: its features as they are cached, or its uint8 pixels at each encoder's size."""
        if self.cache is not None:
            return self.cache.stored(path)
        return self.pixels.read(path) if self.pixels is not None else self.encoder.resize(read_image(path))

    def shards(self, window: int) -> Shards:
        """Where the training images lie in the cache of features or pixels.

        Args:
            window: Shards that are shuffled together.
        """
        kept = self.cache or self.pixels
        assert kept is not None  # checked by DataConfig
        return Shards.holding((kept.files_of(example.view.file) for example in self.splits["train"]), window)

    @property
    def data_fingerprint(self) -> str:
        """16 hex digits over the images of train and val and their phrases, in their order."""
        digest = hashlib.sha256()
        for split in ("train", "val"):
            for example in self.splits[split]:
                digest.update(json.dumps([split, example.view.image_id, example.phrases]).encode())
        return digest.hexdigest()[:16]

    @property
    def phrases_per_image(self) -> float:
        """Mean number of key phrases of a training image."""
        train = self.splits["train"]
        return sum(len(example.phrases) for example in train) / len(train)


def prepare(config: TrainConfig, device: torch.device) -> Prepared:
    """Read studies, extract phrases, embed them, build the store and compute features.

    Writes ``key_phrases.jsonl`` and ``skipped.csv`` into the run folder, and the caches.

    Args:
        config: The configuration.
        device: Where the frozen encoders run.

    Raises:
        RarrgError: Data or encoders are missing or do not fit together, or too many images cannot be read.
    """
    # What fails fast comes first; adaptation and features, which can take hours, come last.
    studies = read_studies(config.data, config.seed)
    encoder = load_fused(config.vision.encoders, config.retriever.pool)
    adapt = config.vision.adapt
    if adapt.epochs:
        check_adaptable(encoder, config.retriever.classifier)
    text = load_text_encoder(config.text.encoder, config.text.revision)
    splits = read_examples(studies, config)

    phrases = sorted({phrase for part in ("train", "val") for example in splits[part] for phrase in example.phrases})
    rows = {phrase: row for row, phrase in enumerate(phrases)}
    table = embed_phrases(text, phrases, Path(config.data.cache) / "phrases")
    stored = stored_phrases(splits["train"])
    root = None if config.data.root is None else Path(config.data.root)
    store = PhraseStore.build(
        stored,
        table[[rows[phrase.text] for phrase in stored]].numpy(),
        text.reference(),
        config.store.index,
        is_credentialed(config.data.source, root),
    )
    classifier = None
    if adapt.epochs:
        place = Path(config.data.cache) / "adapted"
        before, workers = config.vision.encoders, config.data.num_workers
        embeddings = dict(zip(phrases, table.numpy(), strict=True))
        adapted = adapt_encoders(before, adapt, splits["train"], splits["val"], embeddings, place, device, workers)
        kept, unread = (before, encoder.channels) if adapt.keep else ([], 0)
        encoder = load_fused([*kept, *(each for each, _ in adapted)], config.retriever.pool)
        classifier = LinearReading.mean([reading for _, reading in adapted], unread)
    views = [example.view for examples in splits.values() for example in examples]
    cache = pixels = None
    if config.data.cache_features:
        cache = FeatureCache(Path(config.data.cache), encoder, config.data.cache_dtype)
        cache.build(views, device)
    elif config.data.cache_images:
        pixels = PixelCache(Path(config.data.cache), encoder)
        pixels.build(views)
    prepared = Prepared(splits, encoder, classifier, cache, pixels, text, rows, table, store)
    log.info("%d phrases in the store, %.2f a training image", len(stored), prepared.phrases_per_image)
    return prepared


@no_collection()
def read_examples(studies: list[Study], config: TrainConfig) -> dict[Split, list[Example]]:
    """The readable images of train, val and test with their key phrases.

    Writes ``key_phrases.jsonl`` where the configuration names none, ``skipped.csv``, and verdicts on images.

    Args:
        studies: Of the source.
        config: The configuration.

    Raises:
        RarrgError: A split is empty, key phrases do not fit the studies, or too many images cannot be read.
    """
    return _readable(_with_phrases(studies, config), config)


@no_collection()
def stored_phrases(examples: Sequence[Example]) -> list[StoredPhrase]:
    """The phrases of training studies, most frequent first.

    Args:
        examples: Training images; images of one study share its phrases, which count once.

    Returns:
        Each distinct phrase with the number of studies that have it and the first ``SHOWN_STUDIES`` of them.
    """
    studies = {example.study_id: example.phrases for example in examples}
    having: defaultdict[str, list[str]] = defaultdict(list)
    for study, phrases in studies.items():
        for phrase in dict.fromkeys(phrases):
            having[phrase].append(study)
    found = [StoredPhrase(text, len(ids), tuple(ids[:SHOWN_STUDIES])) for text, ids in having.items()]
    # One sort by both would make a pair of keys for each of hundreds of thousands.
    found.sort(key=attrgetter("text"))
    found.sort(key=attrgetter("count"), reverse=True)
    return found


def channel_statistics(prepared: Prepared, device: torch.device, seed: int) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each feature channel over a sample of training images.

    Args:
        prepared: The inputs of the run.
        device: Where the frozen encoders run, where no features are cached.
        seed: Seed of the sample.

    Returns:
        Two tensors ``[channels]``, float32.
    """
    train = prepared.splits["train"]
    chosen = np.random.default_rng(seed).permutation(len(train))[:STATISTICS_IMAGES]
    total = torch.zeros(prepared.encoder.channels, dtype=torch.float64)
    squares = torch.zeros_like(total)
    prepared.encoder.to(device)
    for index in chosen:
        tensors = prepared.read(train[index].view.path)
        if prepared.cache is None:
            features = prepared.encoder([pixels[None].to(device) for pixels in tensors])[0].cpu()
        else:
            features = expand(tensors)
        flat = features.double().flatten(1)
        total += flat.mean(dim=1)
        squares += flat.square().mean(dim=1)
    mean = total / len(chosen)
    deviation = (squares / len(chosen) - mean.square()).clamp(min=1e-12).sqrt()
    return mean.float(), deviation.float()


def _with_phrases(studies: list[Study], config: TrainConfig) -> list[Study]:
    path = Path(config.out) / KEY_PHRASES
    if config.data.phrases is not None:
        path = Path(config.data.phrases)
    else:
        extract_with_rules(lambda: reports_of(studies), path)
    found = read_key_phrases(path)
    studies = with_key_phrases(studies, found)
    for split in (*config.data.train_splits, "val"):
        part = [study for study in studies if study.split == split]
        without = sum(not study.key_phrases for study in part)
        log.info("%s: %d studies, %d of them without key phrases and left out", split, len(part), without)
        if not part:
            raise RarrgError(
                f"data.root: has no {split} study; training needs some of each of "
                f"{', '.join([*config.data.train_splits, 'val'])}"
            )
        if without == len(part):
            raise RarrgError(f"{path}: no {split} study has key phrases; its study ids must be those of data.root")
    return studies


def _readable(studies: Sequence[Study], config: TrainConfig) -> dict[Split, list[Example]]:
    out = Path(config.out)
    splits: dict[Split, list[Example]] = {
        "train": examples_of(studies, config.data.train_splits),
        "val": examples_of(studies, ["val"]),
        "test": examples_of(studies, ["test"], require_phrases=False),
    }
    views = [example.view for examples in splits.values() for example in examples]
    faults = screen_images(views, Path(config.data.cache) / "screened.jsonl")
    write_skipped(out / "skipped.csv", views, faults, config.data.max_bad_images)
    if faults:
        log.warning(
            "left out %d of %d images that cannot be read: see %s", len(faults), len(views), out / "skipped.csv"
        )
    readable = {
        split: [example for example in examples if example.view.image_id not in faults]
        for split, examples in splits.items()
    }
    for split in ("train", "val"):
        if not readable[split]:
            raise RarrgError(f"data.root: no readable {split} image with key phrases")
    log.info("images: %s", ", ".join(f"{len(examples)} {split}" for split, examples in readable.items()))
    return readable
