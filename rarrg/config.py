"""The training configuration: every key that a YAML file of ``configs/`` may set, with its default and check.

Free of heavy imports, so that ``--help`` and a mistyped key cost no torch import. Defaults are the paper's
(RA-RRG, sections 3.2 and 4.3, appendix D).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rarrg.adapt_config import AdaptConfig
from rarrg.errors import RarrgError, require


def _home(path: str) -> str:
    """A path whose leading ``~`` is the home folder; Lightning would take it so for its part alone."""
    try:
        return str(Path(path).expanduser()) if path.startswith("~") else path
    except RuntimeError:  # no such user: the ~ is part of a file's name
        return path


@dataclass
class DataConfig:
    """Studies, their key phrases, and how batches are drawn.

    Args:
        source: Where studies come from: ``iu_xray`` (any of its three layouts), ``mimic_cxr`` or ``phantom`` (drawn).
        root: Folder of the data set. Not used by ``phantom``.
        phrases: JSONL of key phrases made by an extractor; null runs the rule-based extractor on the findings.
        phantom_studies: Number of studies to draw for ``phantom``.
        cache: Folder of cached frozen features; shared by runs, keyed by encoder and preprocessing.
        cache_features: Compute frozen features once and train from disk; false runs the encoders in every step.
        cache_dtype: How features are kept: ``float16``, or ``int8`` with a scale for each channel of an image, half as
            large and a little less exact.
        cache_images: Where the encoders run in every step, keep images at their input sizes, so that each file is
            decoded once; the same pixels, a byte each.
        shuffle_window: Shards of the cache that are read one after another and shuffled together, for caches larger
            than memory on disks that seek; a shard has 256 MB, of resized images as much for each encoder. Null
            shuffles all images.
        max_bad_images: Share of unreadable images above which the run stops; below it they are left out and listed.
        batch_size: Images a step.
        num_workers: Worker processes of the data loader.
        balance: Exponent of the sampling weight by the rarity of an image's findings; 0 draws every image once an
            epoch, as the paper, 1 draws every finding about equally often.
        train_splits: Splits that training draws from.
    """

    source: Literal["iu_xray", "mimic_cxr", "phantom"] = "phantom"
    root: str | None = None
    phrases: str | None = None
    phantom_studies: int = 160
    cache: str = "runs/cache"
    cache_features: bool = True
    cache_dtype: Literal["float16", "int8"] = "float16"
    cache_images: bool = False
    shuffle_window: int | None = None
    max_bad_images: float = 0.01
    batch_size: int = 128
    num_workers: int = 0
    balance: float = 0.0
    train_splits: list[Literal["train", "extra"]] = field(default_factory=lambda: ["train"])

    def __post_init__(self) -> None:
        self.cache = _home(self.cache)
        self.root = None if self.root is None else _home(self.root)
        self.phrases = None if self.phrases is None else _home(self.phrases)
        require(self.phantom_studies >= 10, "data.phantom_studies", "at least 10", self.phantom_studies)
        require(0 <= self.max_bad_images <= 1, "data.max_bad_images", "between 0 and 1", self.max_bad_images)
        require(self.batch_size >= 1, "data.batch_size", "at least 1", self.batch_size)
        require(self.num_workers >= 0, "data.num_workers", "at least 0", self.num_workers)
        require(self.balance >= 0, "data.balance", "at least 0", self.balance)
        if self.shuffle_window is not None:
            require(self.shuffle_window >= 1, "data.shuffle_window", "at least 1, or null", self.shuffle_window)
            if not (self.cache_features or self.cache_images):
                raise RarrgError("data.shuffle_window: there is no cache to read; set data.cache_features to true")
            if self.balance:
                raise RarrgError("data.shuffle_window: draws every image once; set data.balance to 0")
        require(bool(self.train_splits), "data.train_splits", "a non-empty list", self.train_splits)
        if self.source != "phantom" and not self.root:
            raise RarrgError(f"data.root: name the folder of the {self.source} data set (--data.root DIR)")


@dataclass
class EncoderConfig:
    """One frozen image encoder.

    Args:
        spec: ``hf:ORG/NAME``, ``timm:NAME``, ``packaged:efficientnet-lite0``, or a local folder of a transformers or
            timm model.
        size: Input side in pixels; null takes the encoder's own.
        revision: Commit or tag of a hub model; null takes its newest.
        stages: Stages of a timm or packaged network whose maps are joined on channels, as timm numbers them (its
            ``forward_intermediates``); null takes the network's last features.
    """

    spec: str
    size: int | None = None
    revision: str | None = None
    stages: list[int] | None = None

    def __post_init__(self) -> None:
        require(bool(self.spec), "vision.encoders[].spec", "an encoder's name", self.spec)
        require(self.size is None or self.size >= 16, "vision.encoders[].size", "at least 16", self.size)
        rising = self.stages is None or (
            bool(self.stages) and min(self.stages) >= 0 and self.stages == sorted(set(self.stages))
        )
        require(rising, "vision.encoders[].stages", "rising numbers from 0, as [3, 4], or null", self.stages)


def _paper_encoders() -> list[EncoderConfig]:
    return [
        EncoderConfig(spec="hf:StanfordAIMI/dinov2-base-xray-224", size=518),
        EncoderConfig(spec="hf:StanfordAIMI/XrayCLIP__vit-b-16__laion2b-s34b-b88k"),
    ]


@dataclass
class VisionConfig:
    """Frozen encoders, fused by channel concatenation.

    Args:
        encoders: The encoders, in the order of their channels.
        adapt: Whether and how the encoders are adapted to the training images before they are frozen.
    """

    encoders: list[EncoderConfig] = field(default_factory=_paper_encoders)
    adapt: AdaptConfig = field(default_factory=AdaptConfig)

    def __post_init__(self) -> None:
        require(bool(self.encoders), "vision.encoders", "a non-empty list", self.encoders)


@dataclass
class TextConfig:
    """Frozen sentence encoder of the key phrases.

    Args:
        encoder: A sentence-transformers id, a local folder, or ``packaged:all-MiniLM-L6-v2``.
        revision: Commit or tag of a hub model; null takes its newest.
        noise: Add U[-1, 1]/sqrt(d) to phrase embeddings in training.
    """

    encoder: str = "sentence-transformers/all-mpnet-base-v2"
    revision: str | None = None
    noise: bool = True


@dataclass
class RetrieverConfig:
    """DETR decoder and its heads.

    Args:
        queries: Number of learned queries N.
        layers: Decoder layers.
        dim: Width of the decoder.
        heads: Attention heads.
        feedforward: Width of the decoder's feed-forward layers.
        dropout: Dropout in the decoder.
        position: Position code added to the keys of cross-attention: ``none`` (ViT tokens carry their own) or
            ``sine2d`` (DETR's, for convolutional features, which carry none).
        standardise: Standardise each feature channel by its mean and deviation over the training images.
        anchors: Tie each query to a group of training phrases, a finding or a cluster of the others, from whose centre
            it predicts an offset; false leaves it to training what a query looks for, as the paper.
        members: Retrievers that are trained side by side and joined. Above 1 needs ``anchors``, without which a query
            looks for one thing in one member and for another in the next.
        reads: Encoders that each member reads, by their places from 0, as [[0, 1], [2, 3]], dealt to the members in
            turn; null lets each read all. Members that read different encoders err differently.
        pool: Side of the grid that features are averaged to before the decoder reads them, in training and reports
            alike; null keeps the encoders' own. Fewer tokens make a step, and a feature cache, so much smaller.
        classifier: Give the classifiers that ``vision.adapt`` trains the encoders with half the say in whether a query
            that stands for a finding is selected; needs ``anchors``.
        logit_adjustment: Share of the log odds of a finding among the training images that is taken off the logit of
            its query after training (Menon et al., ICLR 2021), so that rare findings reach the one threshold too; needs
            ``anchors``. 0 takes nothing.
    """

    queries: int = 50
    layers: int = 6
    dim: int = 768
    heads: int = 8
    feedforward: int = 2048
    dropout: float = 0.1
    position: Literal["none", "sine2d"] = "none"
    standardise: bool = False
    anchors: bool = False
    members: int = 1
    reads: list[list[int]] | None = None
    pool: int | None = None
    classifier: bool = False
    logit_adjustment: float = 0.0

    def __post_init__(self) -> None:
        for name in ("queries", "layers", "dim", "heads", "feedforward", "members"):
            require(getattr(self, name) >= 1, f"retriever.{name}", "at least 1", getattr(self, name))
        require(0 <= self.dropout < 1, "retriever.dropout", "in [0, 1)", self.dropout)
        require(self.members == 1 or self.anchors, "retriever.members", "1 without retriever.anchors", self.members)
        rising = all(part and min(part) >= 0 and part == sorted(set(part)) for part in self.reads or [])
        require(rising and self.reads != [], "retriever.reads", "lists of rising numbers from 0, or null", self.reads)
        parts = len(self.reads or [])
        require(
            parts <= self.members, "retriever.reads", f"at most retriever.members ({self.members}) lists", self.reads
        )
        require(self.pool is None or self.pool >= 1, "retriever.pool", "at least 1 or null", self.pool)
        require(not self.classifier or self.anchors, "retriever.classifier", "false without retriever.anchors", True)
        share = self.logit_adjustment
        require(share >= 0, "retriever.logit_adjustment", "at least 0", share)
        require(share == 0 or self.anchors, "retriever.logit_adjustment", "0 without retriever.anchors", share)
        require(self.dim % self.heads == 0, "retriever.dim", f"a multiple of retriever.heads ({self.heads})", self.dim)


@dataclass
class LossConfig:
    """Matching and loss terms (RA-RRG Eq. 1-7).

    Args:
        match_probability: Weight mu of the selection probability in the matching cost (Eq. 2).
        positives: Mean number of key phrases an image, the positive class size of the distribution-balanced loss;
            null takes it from the training set.
        reduction: ``mean`` (each term its own mean), ``batch_mean`` (sum over queries, mean over images) or ``sum``
            (Eq. 3 and 7 as printed).
        selection: Weight of the selection loss.
        similarity: Weight of the similarity loss.
        contrastive: Weight lambda of the contrastive loss (Eq. 7).
        temperature: Temperature of the contrastive logits; the paper has none, which is 1.
        target_temperature: Temperature of the soft targets; the paper has none, which is 1.
        background: With ``retriever.anchors``, weight of the selection loss of a query that stands for no finding.
        targets: Soft targets from ``both`` modalities (Eq. 5) or from the ``text`` alone, which carry no gradient.
    """

    match_probability: float = 0.5
    positives: float | None = 7.16
    reduction: Literal["mean", "batch_mean", "sum"] = "mean"
    selection: float = 1.0
    similarity: float = 1.0
    contrastive: float = 0.1
    temperature: float = 1.0
    target_temperature: float = 1.0
    background: float = 1.0
    targets: Literal["both", "text"] = "both"

    def __post_init__(self) -> None:
        for name in ("match_probability", "selection", "similarity", "contrastive", "background"):
            require(getattr(self, name) >= 0, f"loss.{name}", "at least 0", getattr(self, name))
        for name in ("temperature", "target_temperature"):
            require(getattr(self, name) > 0, f"loss.{name}", "above 0", getattr(self, name))
        require(self.positives is None or self.positives > 0, "loss.positives", "above 0", self.positives)


@dataclass
class OptimConfig:
    """AdamW with linear warm-up and cosine decay, both counted in steps.

    Args:
        learning_rate: Peak learning rate.
        weight_decay: Decoupled weight decay of every trained parameter.
        warmup_steps: Steps of linear warm-up.
        clip: Largest gradient norm.
    """

    learning_rate: float = 2e-4
    weight_decay: float = 0.05
    warmup_steps: int = 50
    clip: float = 1.0

    def __post_init__(self) -> None:
        require(self.learning_rate > 0, "optim.learning_rate", "above 0", self.learning_rate)
        require(self.weight_decay >= 0, "optim.weight_decay", "at least 0", self.weight_decay)
        require(self.warmup_steps >= 0, "optim.warmup_steps", "at least 0", self.warmup_steps)
        require(self.clip > 0, "optim.clip", "above 0", self.clip)


@dataclass
class TrainerConfig:
    """How long, on what, and which weights are kept.

    Args:
        epochs: Passes over the training images.
        accelerator: ``cpu``, ``cuda``, or ``auto``: a GPU where there is one.
        devices: GPUs, or processes on a CPU, that share each batch of ``data.batch_size`` images.
        precision: ``auto`` takes bf16-mixed on a GPU that has it and on a CPU with matrix units for it (AMX), else
            32-true. With AVX512-BF16 alone bf16-mixed pays on some CPUs, and with wide decoders.
        monitor: Validation figure that picks the kept weights: ``loss`` (the paper) or ``last`` (no picking).
        checkpoint_every: Steps between checkpoints within an epoch; one is written after every epoch anyway.
        limit_batches: Batches an epoch, for debugging; null takes all.
    """

    epochs: int = 10
    accelerator: Literal["auto", "cpu", "cuda"] = "auto"
    devices: int = 1
    precision: Literal["auto", "32-true", "bf16-mixed", "16-mixed"] = "auto"
    monitor: Literal["loss", "last"] = "loss"
    checkpoint_every: int = 500
    limit_batches: int | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "devices", "checkpoint_every"):
            require(getattr(self, name) >= 1, f"trainer.{name}", "at least 1", getattr(self, name))
        limit = self.limit_batches
        require(limit is None or limit >= 1, "trainer.limit_batches", "at least 1 or null", limit)


@dataclass
class StoreConfig:
    """The phrase store.

    Args:
        index: FAISS factory string; ``Flat`` is exact.
    """

    index: str = "Flat"


@dataclass
class LogConfig:
    """Where curves go, besides ``metrics.csv`` of the run folder.

    Args:
        wandb: ``auto`` (online where a login is found, else offline), ``online``, ``offline`` or ``disabled``.
        project: Weights & Biases project.
        every: Steps between logged training figures.
        log_images: Show validation images with their own and their retrieved phrases in W&B. With false neither images
            nor wording go there, only numbers; so it is for credentialed data, whatever this says.
        log_phrases: Where images are not shown, show key phrases alone: the images' own and the retrieved ones. For
            credentialed data that is for you to answer for; the paper reads the licence of MIMIC-CXR so (appendix D).
    """

    wandb: Literal["auto", "online", "offline", "disabled"] = "auto"
    project: str = "rarrg"
    every: int = 10
    log_images: bool = True
    log_phrases: bool = False

    def __post_init__(self) -> None:
        require(self.every >= 1, "log.every", "at least 1", self.every)


@dataclass
class TrainConfig:
    """Everything a training run depends on.

    Args:
        out: Run folder; becomes a model folder that ``infer.py --model`` reads.
        seed: Seed of weights, noise, dropout, sampling and phantom studies.
        threshold: Selection probability above which a query retrieves its phrase; null chooses it after training, the
            one with the largest sum of micro- and macro-F1 of findings over the validation studies; with
            ``retriever.anchors`` also an offset for queries that stand for no finding, by the number of phrases.
        views: Whether the views of a study select phrases each on its own (``apart``, as the paper) or by the mean of
            their selection probabilities (``together``).
        data: Studies and batches.
        vision: Image encoders.
        text: Sentence encoder.
        retriever: Decoder and heads.
        loss: Matching and losses.
        optim: Optimiser.
        trainer: Loop and checkpoints.
        store: Phrase store.
        log: Logging.
    """

    out: str = "runs/train"
    seed: int = 0
    threshold: float | None = 0.4
    views: Literal["apart", "together"] = "apart"
    data: DataConfig = field(default_factory=DataConfig)
    vision: VisionConfig = field(default_factory=VisionConfig)
    text: TextConfig = field(default_factory=TextConfig)
    retriever: RetrieverConfig = field(default_factory=RetrieverConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    store: StoreConfig = field(default_factory=StoreConfig)
    log: LogConfig = field(default_factory=LogConfig)

    def __post_init__(self) -> None:
        self.out = _home(self.out)
        require(self.seed >= 0, "seed", "at least 0", self.seed)
        require(self.threshold is None or 0 < self.threshold < 1, "threshold", "in (0, 1) or null", self.threshold)
        if self.retriever.classifier and not self.vision.adapt.epochs:
            raise RarrgError("retriever.classifier: no encoder is adapted; set vision.adapt.epochs, or this to false")
