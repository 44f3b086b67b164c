"""What a model costs, beside the paper's cost of training (RA-RRG, Table 7). What is not known is left open."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

from torch import nn

from rarrg.config import TrainConfig
from rarrg.data.evaluation_set import EvaluationSet
from rarrg.data.images import read_image
from rarrg.devices import device_name
from rarrg.pipeline import ReportGenerator
from rarrg.report.study import by_view
from rarrg.score_tables import NOT_COMPARABLE, Table, paper_figures
from rarrg.types import View

TIMED = 20
"""Studies whose retrieval is timed."""

_SPEED = "train/images_per_second"


@dataclass(frozen=True)
class Writing:
    """What the reports of an evaluation took to write.

    Attributes:
        writer: ``join``, or the language model.
        seconds: Wall time by reports, several of which a language model may write at a time; None where an earlier run
            kept replies.
        prompt_tokens: Tokens read for a report, on average over all its drafts; None without a language model.
        completion_tokens: Tokens written, likewise.
    """

    writer: str
    seconds: float | None
    prompt_tokens: float | None
    completion_tokens: float | None


@dataclass(frozen=True)
class Trained:
    """What training a retriever took.

    Attributes:
        device: What it was trained on; None where the model does not say.
        gpus: Number of GPUs among it; None likewise.
        hours: Time of its training steps; None where the folder does not say.
    """

    device: str | None
    gpus: int | None
    hours: float | None


@dataclass(frozen=True)
class Cost:
    """What a model costs.

    Attributes:
        retriever_parameters: Those of the retriever, which are trained.
        encoder_parameters: Those of the image encoders, which are frozen while the retriever trains.
        trained: What training the retriever took.
        device: Where retrieval was timed.
        timed_studies: Studies it was timed on.
        retrieval_seconds: From the image files of a study to the phrases of its report, one study at a time; the
            median.
        writing: What its reports took.
    """

    retriever_parameters: int
    encoder_parameters: int
    trained: Trained
    device: str
    timed_studies: int
    retrieval_seconds: float
    writing: Writing


def cost_of(generator: ReportGenerator, evaluated: EvaluationSet, trained: Trained, writing: Writing) -> Cost:
    """Count a model's parameters and time its retrieval.

    Args:
        generator: The model.
        evaluated: The studies; the first of them are timed, after one that is not.
        trained: What training took.
        writing: What the reports took.
    """
    studies = [[evaluated.views[image] for image in images] for _, images in evaluated.members["study"][:TIMED]]
    _look(generator, studies[0])  # what the first call sets up is no cost of a study
    seconds = [_look(generator, views) for views in studies]
    return Cost(
        retriever_parameters=_parameters(generator.retriever),
        encoder_parameters=_parameters(generator.encoder),
        trained=trained,
        device=device_name(generator.device),
        timed_studies=len(studies),
        retrieval_seconds=median(seconds),
        writing=writing,
    )


def training_hours(folder: Path, trained: TrainConfig, images: int | None) -> float | None:
    """Time of a run's training steps by its own log: images of the steps by images a second.

    Preparation, validation and steps after the last logged one are not in it.

    Args:
        folder: The run folder.
        trained: Its configuration.
        images: Number of its training images; None where it is not known.

    Returns:
        Hours; None where the folder has no such log, or several: those of a run that was started more than once do not
        say which steps a line is of.
    """
    starts = list(folder.glob("logs/version_*"))
    if len(starts) != 1 or images is None or not (logged := list(_speeds(starts[0] / "metrics.csv"))):
        return None
    size, limit = trained.data.batch_size, trained.trainer.limit_batches
    batches = [min(size, images - start) for start in range(0, images, size)][:limit]
    seconds, first = 0.0, 0
    for last, speed in logged:
        seconds += sum(batches[step % len(batches)] for step in range(first, last + 1)) / speed
        first = last + 1
    return seconds / 3600


def cost_tables(cost: Cost) -> list[Table]:
    """The cost beside the paper's Table 7, and what that has not.

    Args:
        cost: Of :func:`cost_of`.
    """
    quoted = paper_figures()["cost"]
    trained = cost.trained
    on_gpus = trained.hours * trained.gpus if trained.hours is not None and trained.gpus else None
    training = Table(
        title=f"Table {quoted['table']}: cost of training",
        note="The paper's time is all of the training. Ours is that of the retriever's training steps as the run "
        "logged them, without validation, preparation and what adapted the encoders; - is what the run folder does "
        "not say. For M4CXR the paper prints 208 GPU-hours, though twice 108 is 216.",
        header=["", "hardware", "hours", "GPU-hours"],
        rows=[
            *([f"{name}, quoted", *map(str, values)] for name, values in quoted["values"].items()),
            ["ours", trained.device or "-", _number(trained.hours, ".3g"), _number(on_gpus, ".3g")],
        ],
        caution=NOT_COMPARABLE,
    )
    writing = cost.writing
    own = Table(
        title="Cost of this model",
        note="The time of retrieval is from the image files of a study to the phrases of its report, one study at a "
        "time: the median. That of writing is wall time by reports; - where replies of an earlier run may have been "
        "used. Tokens are those of all drafts of a report, on average.",
        header=["", "ours"],
        rows=[
            ["parameters of the retriever, trained", f"{cost.retriever_parameters:,}"],
            ["parameters of the image encoders, frozen meanwhile", f"{cost.encoder_parameters:,}"],
            ["device", cost.device],
            [f"retrieval, seconds a study (of {cost.timed_studies})", f"{cost.retrieval_seconds:.3g}"],
            [f"writing ({writing.writer}), seconds a report", _number(writing.seconds, ".3g")],
            ["tokens read, a report", _number(writing.prompt_tokens, ".1f")],
            ["tokens written, a report", _number(writing.completion_tokens, ".1f")],
        ],
    )
    return [training, own]


def _look(generator: ReportGenerator, views: list[View]) -> float:
    """Seconds from image files to phrases, as ``rarrg infer`` goes; the phrases lie on the CPU at the end."""
    start = perf_counter()
    found = generator.retrieve_batch([read_image(view.path) for view in views], studies=[0] * len(views))
    generator.resolved(
        by_view([(view.position, str(view.path), each) for view, each in zip(views, found, strict=True)])
    )
    return perf_counter() - start


def _parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def _speeds(path: Path) -> Iterator[tuple[int, float]]:
    """Step, from 0, and images a second since the line before."""
    if not path.is_file():
        return
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row.get(_SPEED):
                yield int(row["step"]), float(row[_SPEED])


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
