"""Questions to a backend until each has an answer that meets its schema, or none after so many attempts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from rarrg.llm.cache import ReplyCache
from rarrg.llm.chat import Backend, Completion, LLMError, Message, Request
from rarrg.llm.replies import ReplyError, parse_reply

_QUOTED = 2000  # characters of a bad reply that the model is shown again
_STREAK = 1000  # outcomes from the cache in a row, after which the stream to the backend ends so that they get out


@dataclass(frozen=True)
class Answer:
    """A request with the object it asked for.

    Attributes:
        request: The request as it was given.
        value: The object; it meets the request's schema.
        completion: The reply it was read from.
        attempts: Replies it took, cached ones included.
        cached: All of them came from the cache.
        prompt_tokens: Tokens read over all attempts, cached ones included.
        completion_tokens: Tokens written, likewise.
    """

    request: Request
    value: dict[str, Any]
    completion: Completion
    attempts: int
    cached: bool
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Unanswered:
    """A request without a usable reply.

    Attributes:
        request: The request as it was given.
        reason: What was wrong: the last reply's fault, or the backend's error.
        attempts: Replies there were, cached ones included.
        prompt_tokens: Tokens read over all attempts, cached ones included.
        completion_tokens: Tokens written, likewise.
    """

    request: Request
    reason: str
    attempts: int
    prompt_tokens: int
    completion_tokens: int


def ask(
    backend: Backend, requests: Iterable[Request], attempts: int, cache: ReplyCache | None
) -> Iterator[Answer | Unanswered]:
    """Ask until every request has an answer or has used up its attempts.

    An unusable reply is followed by another request that quotes it, says what was wrong, and takes the next seed; it
    joins the stream that is under way. A reply that was cut at its token limit is always unusable. Every completion,
    unusable ones too, goes into the cache before it is looked at, so a second run over the same requests repeats the
    first one's attempts without asking. A backend's error is not kept: a second run asks again.

    Args:
        backend: Who answers.
        requests: Questions, drawn as there is room for them; identical ones are best asked once.
        attempts: Replies to a request, at least 1, before it counts as unanswered.
        cache: Earlier completions; None asks everything.

    Yields:
        Each request's outcome, in any order.

    Raises:
        LLMError: The backend met an error that no other request would survive.
        RarrgError: The cache cannot be read or written.
    """
    return _Asking(backend, attempts, cache).run(iter(requests))


@dataclass
class _Case:
    """A request on its way: what is asked now, an object that no other case has, and the sums so far."""

    first: Request
    now: Request
    attempts: int = 0
    cached: bool = True
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Asking:
    def __init__(self, backend: Backend, attempts: int, cache: ReplyCache | None) -> None:
        self._backend, self._attempts, self._cache = backend, attempts, cache
        self._again: deque[_Case] = deque()  # to be asked once more
        self._settled: deque[Answer | Unanswered] = deque()  # by the cache, while the backend drew requests
        self._asked: dict[int, _Case] = {}  # under way, by the identity of the request

    def run(self, source: Iterator[Request]) -> Iterator[Answer | Unanswered]:
        more = True
        while more or self._again:
            # What the cache settles needs no stream; one is opened at the first request that has to be asked.
            if not self._again:
                request = next(source, None)
                if request is None:
                    more = False
                    continue
                outcome = self._settle(_Case(request, replace(request)))
                if outcome is not None:
                    yield outcome
                    continue
            for asked, result in self._backend.complete(self._stream(source)):
                case = self._asked.pop(id(asked))
                outcome = self._take(case, result)
                if outcome is not None:
                    yield outcome
                while self._settled:
                    yield self._settled.popleft()
            while self._settled:
                yield self._settled.popleft()

    def _stream(self, source: Iterator[Request]) -> Iterator[Request]:
        """What the backend draws from: second attempts first, then new requests that the cache does not settle."""
        while len(self._settled) < _STREAK:
            if not self._again:
                request = next(source, None)
                if request is None:
                    return
                outcome = self._settle(_Case(request, replace(request)))
                if outcome is not None:
                    self._settled.append(outcome)
                    continue
            case = self._again.popleft()
            self._asked[id(case.now)] = case
            yield case.now

    def _settle(self, case: _Case) -> Answer | Unanswered | None:
        """Go on with cached replies alone; without an outcome the case waits to be asked."""
        while self._cache is not None:
            completion = self._cache.get(case.now, self._backend.model)
            if completion is None:
                break
            outcome = self._read(case, completion)
            if outcome is not None:
                return outcome
        self._again.append(case)
        return None

    def _take(self, case: _Case, result: Completion | LLMError) -> Answer | Unanswered | None:
        """The backend's word on a case; without an outcome the case goes on."""
        if isinstance(result, LLMError):
            return self._unanswered(case, str(result))
        if self._cache is not None:
            self._cache.put(case.now, self._backend.model, result)
        case.cached = False
        return self._read(case, result) or self._settle(case)

    def _read(self, case: _Case, completion: Completion) -> Answer | Unanswered | None:
        """Judge one reply; if it is unusable and attempts are left, ``case.now`` becomes the next question."""
        case.attempts += 1
        case.prompt_tokens += completion.prompt_tokens
        case.completion_tokens += completion.completion_tokens
        try:
            if completion.finish_reason == "length":
                raise ReplyError(f"it was cut off at {case.now.sampling.max_tokens} tokens and must be shorter")
            value = parse_reply(completion.text, case.first.schema)
        except ReplyError as error:
            if case.attempts >= self._attempts:
                return self._unanswered(case, f"the reply cannot be used: {error}")
            case.now = _once_more(case, completion.text, str(error))
            return None
        return Answer(
            case.first, value, completion, case.attempts, case.cached, case.prompt_tokens, case.completion_tokens
        )

    @staticmethod
    def _unanswered(case: _Case, reason: str) -> Unanswered:
        return Unanswered(case.first, reason, case.attempts, case.prompt_tokens, case.completion_tokens)


def _once_more(case: _Case, reply: str, reason: str) -> Request:
    """The first request with the last bad reply; earlier ones would only make the prompt longer."""
    reply = reply.encode("utf-8", "ignore").decode("utf-8")  # half of a surrogate pair cannot be sent
    quoted = reply if len(reply) <= _QUOTED else f"{reply[:_QUOTED]} [...]"
    complaint = f"That reply cannot be used: {reason}. Reply again, with one JSON object that meets the schema alone."
    sampling = case.first.sampling
    return replace(
        case.first,
        messages=(
            *case.first.messages,
            Message("assistant", quoted or "(nothing)"),  # some servers refuse an empty turn
            Message("user", complaint),
        ),
        sampling=replace(sampling, seed=sampling.seed + case.attempts),
    )
