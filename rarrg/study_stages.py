"""The reports of a list of studies: reading, encoding and retrieving overlap, each at work on another study."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from rarrg.data.remote import read_located
from rarrg.devices import encoder_threads
from rarrg.errors import ImageError
from rarrg.overlapping import ahead
from rarrg.pipeline import Images, ReportGenerator, Resized, image_files
from rarrg.report.as_json import report_to_json
from rarrg.report.study import StudyRetrieval, by_view
from rarrg.types import Position

Value = TypeVar("Value")


@dataclass(frozen=True)
class _Passed(Generic[Value]):
    """A study between two stages: its name, its images' views and files, and what the stage made of them."""

    name: str
    files: list[tuple[Position, str]]
    value: Value | ImageError


def look_each(
    generator: ReportGenerator, studies: Iterable[tuple[str, Images, Images]]
) -> Iterator[tuple[str, StudyRetrieval | ImageError]]:
    """Retrieve the phrases of many studies, each as ``generator.look`` would.

    Each study is encoded by itself, on a processor by one thread, and so gives the same bits whichever studies stand
    beside it and however many threads there are; ``generator.look`` gives these bits where torch has one thread, and
    with more differs by rounding, some 1e-6. A batch of several studies takes a processor as long an image. Threads
    that share a study wait for each other at every layer, for long where readers of images hold a core; with a study
    each they never do.

    Args:
        generator: Whose encoders, retriever and store are used.
        studies: A name, and the frontal and lateral images of each; drawn some studies ahead of their use.

    Yields:
        Each name with what the study retrieved, or with what is wrong with one of its images; in the order given.

    Raises:
        RarrgError: A study has neither view.
    """

    def read(study: tuple[str, Images, Images]) -> _Passed[list[Resized]]:
        name, frontal, lateral = study
        files = image_files(frontal, lateral)
        try:
            return _Passed(name, files, [generator.encoder.resize(read_located(path)) for _, path in files])
        except ImageError as error:
            return _Passed(name, files, error)

    def encode(study: _Passed[list[Resized]]) -> _Passed[Tensor]:
        images = study.value
        features = images if isinstance(images, ImageError) else generator.encode(images)
        return _Passed(study.name, study.files, features)

    def retrieve(study: _Passed[Tensor]) -> tuple[str, StudyRetrieval | ImageError]:
        if isinstance(study.value, ImageError):
            return study.name, study.value
        found = generator.retrieve_features(study.value, studies=[0] * len(study.files))
        named = [(view, path, each) for (view, path), each in zip(study.files, found, strict=True)]
        return study.name, generator.resolved(by_view(named))

    threads = torch.get_num_threads()
    with encoder_threads(generator.device) as (encoders, alone):
        resized = ahead(read, studies, threads, 2 * threads, alone)
        encoded = ahead(encode, resized, encoders, encoders + 1, alone)
        yield from ahead(retrieve, encoded, prepare=alone)


def report_each(
    generator: ReportGenerator, studies: Iterable[tuple[str, Images, Images]]
) -> Iterator[tuple[str, dict[str, Any] | ImageError]]:
    """Write the reports of many studies.

    Args:
        generator: Retrieves and writes.
        studies: A name, and the frontal and lateral images of each.

    Yields:
        Each name with its report as JSON has it, or with what is wrong with one of its images; as they are ready.

    Raises:
        RarrgError: A study has neither view, or the language model cannot be had.
    """
    failed: deque[tuple[str, ImageError]] = deque()

    def looked() -> Iterator[tuple[str, StudyRetrieval]]:
        for name, found in look_each(generator, studies):
            if isinstance(found, ImageError):
                failed.append((name, found))
            else:
                yield name, found

    for name, report in generator.write(looked()):
        while failed:
            yield failed.popleft()
        yield name, report_to_json(report)
    yield from failed
