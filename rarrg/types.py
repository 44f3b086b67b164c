"""The field's nouns, as frozen dataclasses. The ground floor: imports nothing of the package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Position = Literal["frontal", "lateral", "other"]
Split = Literal["train", "val", "test", "extra"]
Precedence = Literal["findings", "probability", "nothing"]
"""Which of two phrases of a view stays where they contradict each other."""


@dataclass(frozen=True, slots=True)
class View:
    """One image of a study.

    Attributes:
        file: Path of the image file (JPEG, PNG or DICOM), as text: a quarter of a ``Path`` in memory.
        position: ``frontal`` (PA or AP), ``lateral`` (LATERAL or LL) or ``other`` (anything else, or unknown).
        image_id: Unique within its source; MIMIC-CXR's ``dicom_id``, elsewhere the file name without its endings.
    """

    file: str
    position: Position
    image_id: str

    @property
    def path(self) -> Path:
        """The image file."""
        return Path(self.file)


@dataclass(frozen=True, slots=True)
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
        image: Index of the image among those of its view, from 0.
    """

    text: str
    probability: float
    similarity: float
    query: int
    image: int = 0


Phrases = Mapping[Position, Sequence[RetrievedPhrase]]
"""The phrases of a study, by view."""


@dataclass(frozen=True)
class Sentence:
    """One sentence of a report and the phrases it rests on.

    Attributes:
        text: The sentence, with its full stop.
        sources: View of each phrase, and the phrase's index within that view.
    """

    text: str
    sources: tuple[tuple[Position, int], ...]


FaultKind = Literal[
    "unsupported", "negation", "certainty", "side", "size", "device", "comparison", "omission", "no reply"
]


@dataclass(frozen=True)
class Fault:
    """What is wrong with a report.

    Attributes:
        kind: ``unsupported``: no phrase says so; ``negation``, ``certainty``, ``side``, ``size``, ``device``: phrases
            say it otherwise in that respect; ``comparison``: it speaks of an earlier study; ``omission``: it leaves a
            phrase out; ``no reply``: the language model gave none that can be used.
        text: The sentence, for an omission the phrase; empty where there was no reply.
        detail: What is wrong, in one clause.
    """

    kind: FaultKind
    text: str
    detail: str


@dataclass(frozen=True)
class Dropped:
    """A retrieved phrase that contradicts another one and gave way to it.

    Attributes:
        view: Its view.
        phrase: The phrase.
        kept_view: View of the phrase that stayed.
        kept: The phrase that stayed.
        reason: Why the one and not the other, in one clause.
    """

    view: Position
    phrase: RetrievedPhrase
    kept_view: Position
    kept: RetrievedPhrase
    reason: str


@dataclass(frozen=True)
class Grounding:
    """What each sentence of a report rests on, and what had to be done to get there.

    Attributes:
        sentences: The sentences of the report with the phrases that support them.
        faults: What is wrong with the report as it stands; joined phrases may compare with an earlier study.
        drafts: What was wrong with each draft of the language model, the first draft first.
        removed: Sentences that were taken out of the last draft.
        added: Phrases that the last draft left out, said at the end as they are.
        joined: No draft could be used, and the phrases were joined instead.
    """

    sentences: tuple[Sentence, ...] = ()
    faults: tuple[Fault, ...] = ()
    drafts: tuple[tuple[Fault, ...], ...] = ()
    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    joined: bool = False


@dataclass(frozen=True)
class Report:
    """A report and everything it rests on.

    Attributes:
        text: The report.
        phrases: Retrieved phrases of each view, most probable first.
        images: The image files of each view.
        below_threshold: Views in which no query passed the threshold and the most probable one was taken instead.
        threshold: Selection threshold that was applied.
        resolve: Which of two phrases that contradict each other was kept.
        dropped: Those that gave way; they are not among ``phrases``.
        grounding: Which phrases each sentence rests on.
        writer: Who wrote the text: ``name`` (``join`` or ``llm``) and, for a language model, its model, prompt,
            sampling and tokens.
        version: Version of rarrg.
        model: Name and checksum of the retriever.
        store: Name and checksum of the phrase store.
    """

    text: str
    phrases: dict[Position, tuple[RetrievedPhrase, ...]]
    images: dict[Position, tuple[str, ...]]
    below_threshold: tuple[Position, ...] = ()
    threshold: float = 0.4
    resolve: Precedence = "findings"
    dropped: tuple[Dropped, ...] = ()
    grounding: Grounding = field(default_factory=Grounding)
    writer: dict[str, Any] = field(default_factory=dict)
    version: str = ""
    model: dict[str, Any] = field(default_factory=dict)
    store: dict[str, Any] = field(default_factory=dict)
