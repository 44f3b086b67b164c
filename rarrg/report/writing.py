"""Phrases -> report: joined, or written by a language model and held to the phrases (RA-RRG, section 3.3)."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from rarrg.llm.asking import Answer, Unanswered, ask
from rarrg.llm.cache import ReplyCache
from rarrg.llm.chat import Backend, Message, Request, Sampling
from rarrg.report.grounding import Labeler, ground
from rarrg.report.join import phrase_sentences
from rarrg.report.prompt import kind_of, report_prompt
from rarrg.report.study import StudyRetrieval
from rarrg.types import Fault, Grounding, Phrases, Sentence

DRAFTS = 2
"""The first one, and one that is told what was wrong with it."""


@dataclass(frozen=True)
class Written:
    """A report as a writer gives it.

    Attributes:
        text: The report.
        grounding: Which phrases each sentence rests on.
        writer: Who wrote it; see :class:`rarrg.types.Report`.
    """

    text: str
    grounding: Grounding
    writer: dict[str, Any]


class Writer(Protocol):
    """Makes reports of retrieved phrases.

    Attributes:
        settings: All of its settings that decide a text, as JSON values; every ``Written.writer`` begins with them.
    """

    settings: dict[str, Any]

    def write(self, studies: Iterable[tuple[str, StudyRetrieval]]) -> Iterator[tuple[str, Written]]:
        """Write reports, in any order.

        Args:
            studies: A name and what the study retrieved, drawn as there is room for them.

        Yields:
            Each name with its report.
        """
        ...


class JoinWriter:
    """The retrieval-only report: a sentence for each phrase.

    Args:
        label: Labels the observations of a text.
    """

    def __init__(self, label: Labeler) -> None:
        self.settings: dict[str, Any] = {"name": "join"}
        self._label = label

    def write(self, studies: Iterable[tuple[str, StudyRetrieval]]) -> Iterator[tuple[str, Written]]:
        """Join the phrases of each study, in the order of the studies."""
        for name, study in studies:
            sentences = tuple(phrase_sentences(study.phrases))
            faults = ground(_text(sentences), study.phrases, self._label).faults
            yield name, Written(_text(sentences), Grounding(sentences, faults), self.settings)


class LLMWriter:
    """A language model writes, and every sentence is held to the phrases.

    A draft with faults is written once more, with the faults in the prompt. Of the second draft, sentences with faults
    are taken out, and phrases that it leaves out are said at its end as they are. Where no draft can be used, or no
    sentence of one stays, the phrases are joined. What was done is told in the report's grounding.

    Args:
        backend: The model.
        sampling: How its replies are drawn.
        attempts: Replies to a prompt, at least 1, before there is none that can be used.
        examples: In-context examples: 0, 1 or 3.
        label: Labels the observations of a text.
        cache: Replies of earlier runs; None asks everything.
    """

    def __init__(
        self,
        backend: Backend,
        sampling: Sampling,
        attempts: int,
        examples: Literal[0, 1, 3],
        label: Labeler,
        cache: ReplyCache | None = None,
    ) -> None:
        self._backend, self._sampling, self._attempts = backend, sampling, attempts
        self._examples: Literal[0, 1, 3] = examples
        self._label, self._cache = label, cache
        self.settings: dict[str, Any] = {
            "name": "llm",
            "model": backend.model,
            "examples": examples,
            "sampling": asdict(sampling),
        }

    def write(self, studies: Iterable[tuple[str, StudyRetrieval]]) -> Iterator[tuple[str, Written]]:
        """Write the report of each study, as many at a time as the backend takes.

        Raises:
            LLMError: The backend cannot answer at all.
        """
        source, under_way = iter(studies), dict[str, _Case]()
        again: deque[_Case] = deque()
        number = 0

        def requests() -> Iterator[Request]:
            nonlocal number
            while True:
                if again:
                    case = again.popleft()
                elif (drawn := next(source, None)) is not None:
                    case = self._open(*drawn)
                else:
                    return
                number += 1
                under_way[str(number)] = case
                yield Request(str(number), case.messages, case.schema, self._sampling)

        # A second draft may be wanted after the last study was drawn.
        while True:
            for outcome in ask(self._backend, requests(), self._attempts, self._cache):
                case = under_way.pop(outcome.request.key)
                written = self._take(case, outcome)
                if written is None:
                    again.append(case)
                else:
                    yield case.name, written
            if not again:
                return

    def _open(self, name: str, study: StudyRetrieval) -> _Case:
        prompt = report_prompt(kind_of({view: len(files) for view, files in study.images.items()}), self._examples)
        writer = {**self.settings, "prompt_sha256": prompt.sha256}
        return _Case(name, study.phrases, prompt.messages(study.phrases), prompt.schema, writer)

    def _take(self, case: _Case, outcome: Answer | Unanswered) -> Written | None:
        """Judge a reply; None where another draft is to be asked for."""
        case.tokens.update(prompt_tokens=outcome.prompt_tokens, completion_tokens=outcome.completion_tokens)
        if isinstance(outcome, Unanswered):
            case.faults.append((Fault("no reply", "", outcome.reason),))
            return self._mended(case)
        draft = " ".join(outcome.value["report"].split())
        case.draft = ground(draft, case.phrases, self._label)
        if not case.draft.faults:
            return case.written(case.draft.sentences)
        case.faults.append(case.draft.faults)
        if len(case.faults) == DRAFTS:
            return self._mended(case)
        case.messages += (Message("assistant", _reply(draft)), Message("user", _told(case.draft.faults)))
        return None

    def _mended(self, case: _Case) -> Written:
        """Take the faults out of the last draft, or join the phrases where that leaves nothing."""
        wrong = {fault.text for fault in case.draft.faults if fault.kind != "omission"}
        kept = [sentence for sentence in case.draft.sentences if sentence.text not in wrong]
        # Without some of its sentences the draft says less than it did.
        omitted = {fault.text for fault in self._faults(kept, case.phrases) if fault.kind == "omission"}
        said = {
            sentence: case.phrases[view][index].text
            for sentence in phrase_sentences(case.phrases)
            for view, index in sentence.sources[:1]
        }
        added = [sentence for sentence, text in said.items() if text in omitted]
        if not kept or self._faults([*kept, *added], case.phrases):
            joined = list(said)
            return case.written(joined, self._faults(joined, case.phrases), joined=True)
        return case.written(
            [*kept, *added],
            removed=tuple(sentence.text for sentence in case.draft.sentences if sentence.text in wrong),
            added=tuple(said[sentence] for sentence in added),
        )

    def _faults(self, sentences: Iterable[Sentence], phrases: Phrases) -> tuple[Fault, ...]:
        return ground(_text(sentences), phrases, self._label).faults


@dataclass
class _Case:
    """A study on its way to a report."""

    name: str
    phrases: Phrases
    messages: tuple[Message, ...]
    schema: Mapping[str, Any]
    writer: dict[str, Any]
    draft: Grounding = field(default_factory=Grounding)
    faults: list[tuple[Fault, ...]] = field(default_factory=list)
    tokens: Counter[str] = field(default_factory=Counter)

    def written(
        self,
        sentences: Iterable[Sentence],
        faults: tuple[Fault, ...] = (),
        removed: tuple[str, ...] = (),
        added: tuple[str, ...] = (),
        joined: bool = False,
    ) -> Written:
        said = tuple(sentences)
        grounding = Grounding(said, faults, tuple(self.faults), removed, added, joined)
        return Written(_text(said), grounding, {**self.writer, **self.tokens})


def _text(sentences: Iterable[Sentence]) -> str:
    return " ".join(sentence.text for sentence in sentences)


def _reply(report: str) -> str:
    return json.dumps({"report": report}, ensure_ascii=False)


def _told(faults: Iterable[Fault]) -> str:
    """What the model is told of its draft."""
    listed = "\n".join(f"- {fault.detail}" for fault in faults)
    return (
        f"That report is not faithful to the key phrases:\n{listed}\n"
        "Write it once more: say what every key phrase says, nothing else, and compare with no earlier study. "
        "Reply with the JSON object alone."
    )
