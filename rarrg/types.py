"""The field's nouns, as frozen dataclasses. The ground floor: imports nothing of the package."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Position = Literal["frontal", "lateral", "other"]
Split = Literal["train", "val", "test", "extra"]


@dataclass(frozen=True)
class View:
    """One image of a study.

    Attributes:
        path: The image file (JPEG, PNG or DICOM).
        position: ``frontal`` (PA or AP), ``lateral`` (LATERAL or LL) or ``other`` (anything else, or unknown).
        image_id: Unique within its source; MIMIC-CXR's ``dicom_id``, elsewhere the file name without its endings.
    """

    path: Path
    position: Position
    image_id: str


@dataclass(frozen=True)
class Study:
    """One examination: its images, its report and, once extracted, its key phrases.

    Attributes:
        id: Unique within its source.
        split: ``train``, ``val``, ``test`` or ``extra`` (outside the source's official split).
        views: The images, in the source's order.
        findings: The FINDINGS section on one line; empty where the report has none.
        impression: The IMPRESSION section on one line; empty where the report has none.
        key_phrases: What an extractor made of the findings; empty before extraction.
    """

    id: str
    split: Split
    views: tuple[View, ...]
    findings: str
    impression: str = ""
    key_phrases: tuple[str, ...] = ()


@dataclass(frozen=True)
class RetrievedPhrase:
    """A key phrase that a query selected for an image.

    Attributes:
        text: The phrase, word for word as the store holds it.
        probability: Selection probability of the query, in [0, 1].
        similarity: Cosine between the query's semantic embedding and the phrase's, in [-1, 1].
        query: Index of the query, from 0.
    """

    text: str
    probability: float
    similarity: float
    query: int


@dataclass(frozen=True)
class Report:
    """A report and everything it rests on.

    Attributes:
        text: The report.
        phrases: Retrieved phrases of each view, most probable first.
        images: The image file of each view.
        below_threshold: Views in which no query passed the threshold and the most probable one was taken instead.
        threshold: Selection threshold that was applied.
        version: Version of rarrg.
        model: Name and checksum of the retriever.
        store: Name and checksum of the phrase store.
    """

    text: str
    phrases: dict[Position, tuple[RetrievedPhrase, ...]]
    images: dict[Position, str]
    below_threshold: tuple[Position, ...] = ()
    threshold: float = 0.4
    version: str = ""
    model: dict[str, Any] = field(default_factory=dict)
    store: dict[str, Any] = field(default_factory=dict)
