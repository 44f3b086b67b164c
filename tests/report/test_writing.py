from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from rarrg.llm.cache import ReplyCache
from rarrg.llm.chat import Completion, LLMError, Request, Sampling
from rarrg.metrics.findings import label_findings
from rarrg.report.join import join_phrases
from rarrg.report.study import StudyRetrieval
from rarrg.report.writing import JoinWriter, LLMWriter, Written
from rarrg.types import RetrievedPhrase

PHRASES = ("mild cardiomegaly", "small left pleural effusion", "no pneumothorax")
FAITHFUL = "The heart is mildly enlarged. There is a small left pleural effusion. No pneumothorax is seen."
INVENTED = (
    "The heart is mildly enlarged. There is a small left pleural effusion without pneumothorax. A nodule is seen."
)


class Scripted:
    """A backend whose replies are a function of the request; it answers in pairs, the later of a pair first."""

    model = "scripted"

    def __init__(self, reply: Callable[[Request], str | LLMError]) -> None:
        self.reply = reply
        self.asked: list[Request] = []

    def complete(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Completion | LLMError]]:
        waiting: list[Request] = []
        for request in requests:
            self.asked.append(request)
            waiting.append(request)
            if len(waiting) == 2:
                yield from map(self.answer, reversed(waiting))
                waiting = []
        yield from map(self.answer, waiting)

    def answer(self, request: Request) -> tuple[Request, Completion | LLMError]:
        said = self.reply(request)
        if isinstance(said, LLMError):
            return request, said
        return request, Completion(said, "stop", 10, 5, 0.1, self.model)


def as_reply(report: str) -> str:
    return json.dumps({"report": report})


def drafts(*reports: str) -> Scripted:
    """Every study gets these drafts, the last one for ever."""
    return Scripted(lambda request: as_reply(reports[min(len(request.messages) // 2, len(reports)) - 1]))


def study(*texts: str, lateral: tuple[str, ...] = ()) -> StudyRetrieval:
    phrases = {"frontal": tuple(RetrievedPhrase(text, 0.9, 0.8, query) for query, text in enumerate(texts))}
    if lateral:
        phrases["lateral"] = tuple(RetrievedPhrase(text, 0.7, 0.8, query) for query, text in enumerate(lateral))
    return StudyRetrieval(phrases, {view: (f"{view}.jpg",) for view in phrases})


def write(backend: Scripted, *studies: StudyRetrieval, cache: ReplyCache | None = None) -> dict[str, Written]:
    writer = LLMWriter(backend, Sampling(seed=3), 2, 1, label_findings, cache)
    return dict(writer.write((str(number), each) for number, each in enumerate(studies)))


def test_a_faithful_draft_stays_as_it_is():
    backend = drafts(FAITHFUL)
    written = write(backend, study(*PHRASES))["0"]
    assert written.text == FAITHFUL
    grounding = written.grounding
    assert [sentence.sources for sentence in grounding.sentences] == [
        (("frontal", 0),),
        (("frontal", 1),),
        (("frontal", 2),),
    ]
    assert (grounding.faults, grounding.drafts, grounding.removed, grounding.added) == ((), (), (), ())
    assert not grounding.joined
    assert len(backend.asked) == 1
    assert written.writer["model"] == "scripted"
    assert written.writer["sampling"]["seed"] == 3
    assert (written.writer["prompt_tokens"], written.writer["completion_tokens"]) == (10, 5)


def test_a_faulty_draft_is_written_once_more_with_its_faults_in_the_prompt():
    backend = drafts(INVENTED, FAITHFUL)
    written = write(backend, study(*PHRASES))["0"]
    assert written.text == FAITHFUL
    (faults,) = written.grounding.drafts
    assert [(fault.kind, fault.text) for fault in faults] == [("unsupported", "A nodule is seen.")]
    first, second = backend.asked
    assert second.messages[: len(first.messages)] == first.messages
    assert json.loads(second.messages[-2].content) == {"report": INVENTED}
    assert faults[0].detail in second.messages[-1].content
    assert written.writer["prompt_tokens"] == 20


def test_what_stays_wrong_is_taken_out_and_said():
    backend = drafts(INVENTED)
    written = write(backend, study(*PHRASES))["0"]
    assert written.text == INVENTED.removesuffix(" A nodule is seen.")
    assert written.grounding.removed == ("A nodule is seen.",)
    assert written.grounding.faults == ()
    assert len(written.grounding.drafts) == 2
    assert len(backend.asked) == 2


def test_what_a_draft_leaves_out_is_added_as_it_is():
    written = write(drafts("The heart is mildly enlarged."), study(*PHRASES))["0"]
    assert written.text == "The heart is mildly enlarged. Small left pleural effusion. No pneumothorax."
    assert written.grounding.added == PHRASES[1:]
    assert {fault.kind for fault in written.grounding.drafts[-1]} == {"omission"}
    assert [sentence.sources for sentence in written.grounding.sentences] == [
        (("frontal", 0),),
        (("frontal", 1),),
        (("frontal", 2),),
    ]


@pytest.mark.parametrize(
    "reply",
    [
        as_reply("A nodule is seen. Pneumonia has worsened since the prior study."),
        as_reply(""),
        "no JSON",
        LLMError("the server is busy"),
    ],
)
def test_without_a_usable_draft_the_phrases_are_joined(reply):
    retrieved = study(*PHRASES, lateral=("no pneumothorax", "hyperinflated lungs"))
    written = write(Scripted(lambda request: reply), retrieved)["0"]
    assert written.text == join_phrases(retrieved.phrases)
    assert written.grounding.joined
    assert written.grounding.drafts


def test_a_second_draft_that_is_no_reply_leaves_the_first_to_be_mended():
    backend = Scripted(lambda request: as_reply(INVENTED) if len(request.messages) == 2 else LLMError("gone"))
    written = write(backend, study(*PHRASES))["0"]
    assert written.text == INVENTED.removesuffix(" A nodule is seen.")
    assert written.grounding.drafts[1][0].kind == "no reply"
    assert "gone" in written.grounding.drafts[1][0].detail


def test_studies_keep_their_own_reports_whatever_the_order_of_replies():
    def reply(request: Request) -> str:
        texts = json.loads(request.messages[1].content.removeprefix("INPUT:\n").removesuffix("\n\nOUTPUT:"))
        if len(request.messages) == 2 and "clear lungs" in texts:
            return as_reply("A nodule is seen.")
        return as_reply(" ".join(f"{text.capitalize()}." for text in texts))

    said = [("clear lungs",), ("mild cardiomegaly",), ("old rib fracture", "clear lungs"), ("no pneumothorax",)]
    written = write(Scripted(reply), *(study(*texts) for texts in said))
    assert {name: each.text for name, each in written.items()} == {
        str(number): " ".join(f"{text.capitalize()}." for text in texts) for number, texts in enumerate(said)
    }
    assert [len(written[str(number)].grounding.drafts) for number in range(4)] == [1, 0, 1, 0]


def test_studies_are_drawn_as_there_is_room():
    drawn = []

    def studies() -> Iterator[tuple[str, StudyRetrieval]]:
        for number in range(100):
            drawn.append(number)
            yield str(number), study("clear lungs")

    writer = LLMWriter(drafts("Clear lungs."), Sampling(), 1, 1, label_findings)
    next(writer.write(studies()))
    assert len(drawn) < 5


def test_replies_are_not_paid_for_twice(tmp_path: Path):
    with ReplyCache(tmp_path / "replies.sqlite") as cache:
        first = write(drafts(INVENTED), study(*PHRASES), cache=cache)
        again = write(Scripted(lambda request: pytest.fail("asked")), study(*PHRASES), cache=cache)
    assert first["0"].text == again["0"].text


def test_joined_sentences_name_their_phrases_and_what_compares_is_told():
    retrieved = study("unchanged cardiomegaly", "no pneumothorax", lateral=("no pneumothorax",))
    ((name, written),) = JoinWriter(label_findings).write([("a", retrieved)])
    assert name == "a"
    assert written.text == "Unchanged cardiomegaly. No pneumothorax."
    assert written.grounding.sentences[1].sources == (("frontal", 1), ("lateral", 0))
    assert [(fault.kind, fault.text) for fault in written.grounding.faults] == [
        ("comparison", "Unchanged cardiomegaly.")
    ]
