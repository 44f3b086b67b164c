from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from rarrg.llm.asking import Answer, Unanswered, ask
from rarrg.llm.cache import ReplyCache
from rarrg.llm.chat import Completion, LLMError, Message, Request, Sampling

SCHEMA = {
    "type": "object",
    "properties": {"key_phrase": {"type": "array", "items": {"type": "string"}}},
    "required": ["key_phrase"],
}
Word = Completion | LLMError


def completion(text: str, finish_reason: str = "stop") -> Completion:
    return Completion(text, finish_reason, 10, 2, 0.1, "fake-1")  # type: ignore[arg-type]


def good(request: Request) -> Completion:
    return completion(json.dumps({"key_phrase": [request.messages[1].content]}))


class Fake:
    """Answers two requests at a time, the later one first."""

    model = "fake"

    def __init__(self, say: Callable[[Request], Word] = good) -> None:
        self.say = say
        self.asked: list[Request] = []

    def complete(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Word]]:
        source = iter(requests)
        while batch := [request for _, request in zip(range(2), source, strict=False)]:
            self.asked.extend(batch)
            for request in reversed(batch):
                yield request, self.say(request)


def request(text: str) -> Request:
    return Request(f"key {text}", (Message("system", "s"), Message("user", text)), SCHEMA, Sampling(seed=5))


def requests(count: int) -> list[Request]:
    return [request(str(number)) for number in range(count)]


def failing(times: int, bad: Callable[[Request], Word]) -> Callable[[Request], Word]:
    """``bad`` for the first replies to a request, then the right one."""
    seen: Counter[str] = Counter()

    def say(request: Request) -> Word:
        seen[request.key] += 1
        return bad(request) if seen[request.key] <= times else good(request)

    return say


def test_every_request_is_answered_once_with_its_own_object() -> None:
    given = requests(5)
    answers = list(ask(Fake(), given, 3, None))
    assert sorted(answer.request.key for answer in answers) == [each.key for each in given]
    for answer in answers:
        assert isinstance(answer, Answer)
        assert answer.value == {"key_phrase": [answer.request.messages[1].content]}
        assert (answer.attempts, answer.cached, answer.prompt_tokens, answer.completion_tokens) == (1, False, 10, 2)


def test_no_requests_ask_nothing() -> None:
    backend = Fake()
    assert list(ask(backend, [], 3, None)) == []
    assert backend.asked == []


def test_a_bad_reply_is_quoted_with_what_was_wrong_and_another_seed() -> None:
    backend = Fake(failing(2, lambda _: completion('{"key_phrase": "x"}')))
    (answer,) = ask(backend, [request("a")], 3, None)
    assert isinstance(answer, Answer)
    assert answer.request == request("a")
    assert (answer.attempts, answer.prompt_tokens, answer.completion_tokens) == (3, 30, 6)
    first, second, third = backend.asked
    assert second.key == first.key
    assert second.messages[:2] == first.messages
    assert [message.role for message in second.messages[2:]] == ["assistant", "user"]
    assert second.messages[2].content == '{"key_phrase": "x"}'
    assert "$.key_phrase: 'x' is not of type 'array'" in second.messages[3].content
    assert len(third.messages) == 4
    assert [each.sampling.seed for each in backend.asked] == [5, 6, 7]


def test_a_bad_reply_is_quoted_so_that_it_can_be_sent() -> None:
    """Shortened where it is long, no empty turn, and without half a surrogate pair, which no UTF-8 holds."""
    for text, shown in [("x" * 100_000, "x" * 2000 + " [...]"), ("", "(nothing)"), ("a\ud83eb", "ab")]:
        backend = Fake(failing(1, lambda _, text=text: completion(text)))
        list(ask(backend, [request("a")], 2, None))
        assert backend.asked[1].messages[2].content == shown


def test_a_cut_reply_is_unusable_even_if_it_holds_an_object() -> None:
    backend = Fake(failing(1, lambda _: completion('{"key_phrase": ["half"]} and', "length")))
    (answer,) = ask(backend, [request("a")], 2, None)
    assert isinstance(answer, Answer)
    assert answer.value == {"key_phrase": ["a"]}
    assert "cut off at 1024 tokens" in backend.asked[1].messages[3].content


def test_after_its_attempts_a_request_is_unanswered() -> None:
    backend = Fake(lambda _: completion("sorry"))
    outcomes = list(ask(backend, requests(3), 2, None))
    assert len(backend.asked) == 6
    for outcome in outcomes:
        assert isinstance(outcome, Unanswered)
        assert outcome.reason == "the reply cannot be used: it holds no JSON object"
        assert (outcome.attempts, outcome.prompt_tokens) == (2, 20)


def test_a_second_run_repeats_good_and_bad_attempts_from_the_cache(tmp_path: Path) -> None:
    def say(request: Request) -> Word:
        return completion("sorry") if request.messages[1].content == "never" else answer_late(request)

    answer_late = failing(1, lambda _: completion("sorry"))
    given = [*requests(3), request("never")]
    with ReplyCache(tmp_path / "x.sqlite") as cache:
        first = {outcome.request.key: outcome for outcome in ask(Fake(say), given, 2, cache)}
    backend = Fake()
    with ReplyCache(tmp_path / "x.sqlite") as cache:
        second = {outcome.request.key: outcome for outcome in ask(backend, given, 2, cache)}
    assert backend.asked == []
    assert second["key never"] == first["key never"]
    for number in range(3):
        one, two = first[f"key {number}"], second[f"key {number}"]
        assert isinstance(one, Answer)
        assert isinstance(two, Answer)
        assert (one.cached, two.cached) == (False, True)
        assert (two.value, two.attempts, two.prompt_tokens) == (one.value, 2, 20)


def test_one_more_attempt_asks_only_for_that(tmp_path: Path) -> None:
    with ReplyCache(tmp_path / "x.sqlite") as cache:
        list(ask(Fake(lambda _: completion("sorry")), [request("a")], 2, cache))
        backend = Fake()
        (answer,) = ask(backend, [request("a")], 3, cache)
    assert isinstance(answer, Answer)
    assert (len(backend.asked), answer.attempts, answer.cached) == (1, 3, False)


def test_a_completion_is_kept_before_it_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str, schema: object) -> dict[str, object]:
        raise RuntimeError("the power went")

    monkeypatch.setattr("rarrg.llm.asking.parse_reply", broken)
    with ReplyCache(tmp_path / "x.sqlite") as cache:
        with pytest.raises(RuntimeError):
            list(ask(Fake(), [request("a")], 1, cache))
        assert cache.get(request("a"), "fake") == good(request("a"))


def test_an_error_of_the_backend_is_not_kept(tmp_path: Path) -> None:
    with ReplyCache(tmp_path / "x.sqlite") as cache:
        (outcome,) = ask(Fake(lambda _: LLMError("http://x: too busy")), [request("a")], 3, cache)
        assert outcome == Unanswered(request("a"), "http://x: too busy", 0, 0, 0)
        (answer,) = ask(Fake(), [request("a")], 3, cache)
        assert isinstance(answer, Answer)


def test_retries_join_the_stream_and_requests_are_drawn_lazily() -> None:
    drawn: list[int] = []

    def source() -> Iterator[Request]:
        for number in range(100):
            drawn.append(number)
            yield request(str(number))

    backend = Fake(failing(1, lambda _: completion("sorry")))
    outcomes = ask(backend, source(), 3, None)
    for settled, _ in enumerate(outcomes, start=1):
        assert len(drawn) <= settled + 4
    assert settled == 100
    second = next(place for place, each in enumerate(backend.asked) if len(each.messages) == 4)
    assert second < 6


def test_cached_answers_come_out_while_many_are_read(tmp_path: Path) -> None:
    """One request to ask, then thousands that the cache has: they are not gathered in memory."""
    many = requests(3000)
    drawn: list[int] = []

    def source() -> Iterator[Request]:
        yield request("new")
        for number, each in enumerate(many):
            drawn.append(number)
            yield each

    with ReplyCache(tmp_path / "x.sqlite") as cache:
        for each in many:
            cache.put(each, "fake", good(each))
        outcomes = ask(Fake(), source(), 3, cache)
        next(outcomes)
        assert len(drawn) <= 1000
        assert sum(isinstance(outcome, Answer) and outcome.cached for outcome in outcomes) == 3000


def test_one_request_given_thrice_is_answered_thrice() -> None:
    same = request("a")
    assert [outcome.request for outcome in ask(Fake(), [same, same, same], 1, None)] == [same] * 3
