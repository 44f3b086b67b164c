"""Training beside the reference recipe, for ``docs/performance.md``.

    python benchmarks/training.py [--json FILE] [--quick]

The recipe of ``reference_recipe.py`` and rarrg train the same retriever (the paper's decoder: 6 layers, width 768, 50
queries) on the same images, features and losses in float32. IU X-Ray is read from RARRG_IU_XRAY or ../shared/data;
where it is missing, phantoms are drawn. The paper's encoders have random weights, which take as long as trained ones.
"""

from __future__ import annotations

import logging
import shutil
import statistics
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.measuring import Goal, Report, Table, arguments, finish, measurement, spread
from benchmarks.reference_recipe import Clock, reference_epoch, with_plain_attention
from benchmarks.training_caches import TEXT, choices_table, iu_xray_encoders, paper_encoders, subset
from benchmarks.training_step import LOSS, POSITIVES, choices_of_a_step, criterion_tables, operations_table
from rarrg.config import RetrieverConfig
from rarrg.data.datamodule import ExampleDataset, collate
from rarrg.data.features import FeatureCache, expand
from rarrg.data.studies import Example, read_studies
from rarrg.losses.criterion import Criterion
from rarrg.models.retriever import PhraseRetriever
from rarrg.models.text import TextEncoder, embed_phrases, load_text_encoder
from rarrg.models.vision import FusedEncoder, load_fused
from rarrg.preparation import read_examples

CPU = torch.device("cpu")
EPOCH = 4258
"""Training images of IU X-Ray, to which seconds of few images are extrapolated where a table says so."""


@dataclass
class Ours:
    """What rarrg trains from: features and phrases that were computed once."""

    cache: FeatureCache
    table: Tensor
    rows: dict[str, int]
    retriever: PhraseRetriever
    criterion: Criterion

    def epoch(
        self, examples: Sequence[Example], optimizer: torch.optim.Optimizer, size: int, bfloat16: bool = False
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
            with clock.part("decoder"), torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                output = self.retriever(features)
            outputs = output.logits.float(), output.embeddings.float()
            leaves = [tensor.detach().requires_grad_() for tensor in outputs]
            with clock.part("criterion"):
                loss = self.criterion.total(self.criterion(*leaves, self.table[batch.phrases], batch.counts)[0])
                gradients = torch.autograd.grad(loss, leaves)
            with clock.part("decoder"):
                torch.autograd.backward(outputs, list(gradients))
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
        reference_bfloat16: As ``reference``, under autocast to bfloat16; nothing where that was not asked for.
        second_bfloat16: As ``second``, likewise.
    """

    name: str
    images: int
    reference: list[Clock]
    first: list[float]
    second: list[Clock]
    losses: tuple[float, float]
    reference_bfloat16: list[Clock]
    second_bfloat16: list[Clock]


def side_by_side(
    name: str,
    encoder: FusedEncoder,
    text: TextEncoder,
    examples: Sequence[Example],
    size: int,
    repeats: int,
    root: Path,
    bfloat16: bool = False,
) -> Measured:
    """Epochs of both, in turn; the same weights for both before the first."""
    reference, first, second = [], [], []
    half: tuple[list[Clock], list[Clock]] = [], []
    losses = (0.0, 0.0)
    for _ in range(repeats):
        kept: list[tuple[PhraseRetriever, torch.optim.Optimizer]] = []
        for _who in range(2):
            torch.manual_seed(0)
            # Without dropout, so that losses can be compared.
            retriever = PhraseRetriever(encoder.channels_of, text.dim, RetrieverConfig(dropout=0.0))
            fused = bool(kept)  # rarrg's is, torch's own choice on a CPU is not
            if not kept:
                with_plain_attention(retriever)
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
        if bfloat16:
            half[0].append(reference_epoch(examples, encoder, text, *kept[0], LOSS, POSITIVES, size, bfloat16=True)[0])
            half[1].append(ours.epoch(examples, kept[1][1], size, bfloat16=True)[0])
        shutil.rmtree(place)
    return Measured(name, len(examples), reference, first, second, losses, *half)


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


def bfloat16_table(each: Measured) -> Table:
    """Epochs in either type of number."""
    clocks = {
        ("reference recipe", "float32"): each.reference,
        ("reference recipe", "bfloat16"): each.reference_bfloat16,
        ("rarrg, later epochs", "float32"): each.second,
        ("rarrg, later epochs", "bfloat16"): each.second_bfloat16,
    }
    seconds = {who: measurement("", [clock.total for clock in found]) for who, found in clocks.items()}
    theirs = [seconds["reference recipe", kind].median for kind in ("float32", "bfloat16")]
    rows = [
        (*who, spread(found, "s"), *(f"{reference / found.median:.1f}" for reference in theirs))
        for who, found in seconds.items()
    ]
    return Table(
        f"An epoch in float32 and under autocast to bfloat16, {each.name}",
        ("", "", "s", "times the recipe in float32", "times the recipe in bfloat16"),
        rows,
        "DETR and TranSQ train in float32, the paper in bfloat16, which ``trainer.precision: bf16-mixed`` asks rarrg "
        "for. It pays where the CPU multiplies bfloat16 faster (the matmuls below tell).",
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


def main() -> None:
    """Measure, print, write."""
    options = arguments(__doc__).parse_args()
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore")
    quick = options.quick
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = load_text_encoder(TEXT)
        config = subset(folder / "images", 8 if quick else 16, 4)
        (folder / "images" / "run").mkdir(parents=True, exist_ok=True)
        examples = read_examples(read_studies(config.data, 0), config)["train"]
        encoders = paper_encoders(folder, quick)
        (folder / "caches").mkdir()
        repeats = 1 if quick else 2
        few = 2 if quick else 4  # images, of the paper's encoders
        measured = []
        for pool in (None, 4 if quick else 10):
            fused = load_fused(encoders, pool)
            grid = f"the paper's, {fused.grid[0]} x {fused.grid[1]}"
            both = pool is None  # types of numbers
            measured.append(side_by_side(grid, fused, text, examples[:few], few, repeats, folder / "caches", both))
        fused = load_fused(iu_xray_encoders())
        grid = f"iu_xray.yaml's, {fused.grid[0]} x {fused.grid[1]}"
        number = 8 if quick else 16
        measured.append(side_by_side(grid, fused, text, examples[:number], 16, repeats, folder / "caches"))
        batch = 8 if quick else 128
        shown, share = criterion_tables(batch, 4 if quick else 8)
        step_choices = choices_of_a_step(folder / "one", quick)
        choices = choices_table(folder / "choices", 48 if quick else 64, 1 if quick else 2)
    full, pooled, small = measured
    finish(
        Report(
            "Training",
            "The recipe as DETR and TranSQ write it (encoders and sentence encoder in every step, original files, cost "
            "of all pairs, square assignment) beside rarrg, which computes features and phrase embeddings once; the "
            "same retriever (6 layers, width 768, 50 queries), losses and images, float32. The recipe's "
            "cross-attention is torch's layer; its encoders keep channels last as rarrg's do. Images are "
            f"{'phantoms' if config.data.source == 'phantom' else 'of IU X-Ray (256 x 256 JPEG files)'}. The sentence "
            "encoder is MiniLM, six times cheaper than the paper's MPNet.",
            [
                epochs_table(measured),
                operations_table(),
                bfloat16_table(full),
                parts_table(measured),
                *shown,
                step_choices,
                choices,
            ],
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
    half = [statistics.median(clock.total for clock in measured.second_bfloat16)] if measured.second_bfloat16 else []
    return [
        Goal(
            f"later epochs at least 20 times faster, {at}", f"{reference / second:.1f} times", reference >= 20 * second
        ),
        *(
            Goal(
                f"later epochs in bfloat16, the paper's, at least 20 times faster than the recipe in float32, {at}",
                f"{reference / seconds:.1f} times",
                reference >= 20 * seconds,
            )
            for seconds in half
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
