"""The words that every backend shares: messages, a schema, sampling; a completion or why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from rarrg.artifacts import weights_digest
from rarrg.errors import RarrgError

FinishReason = Literal["stop", "length", "other"]


class LLMError(RarrgError):
    """A request that a backend could not serve, after its own retries. The message names URL and model, never a key."""


@dataclass(frozen=True)
class Message:
    """One turn of a chat.

    Attributes:
        role: Who speaks.
        content: What is said.
    """

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class Sampling:
    """How a reply is drawn.

    Attributes:
        temperature: 0 takes the most probable token.
        top_p: Nucleus, in (0, 1].
        max_tokens: Longest reply.
        seed: For backends that take one.
    """

    temperature: float = 0.6
    top_p: float = 0.9
    max_tokens: int = 1024
    seed: int = 0


@dataclass(frozen=True)
class Request:
    """One question.

    Attributes:
        key: The asker's name for it; no backend looks at it.
        messages: The chat so far; the last turn is the user's.
        schema: JSON schema that the reply must meet; its root is an object.
        sampling: How the reply is drawn.
    """

    key: str
    messages: tuple[Message, ...]
    schema: Mapping[str, Any]
    sampling: Sampling


@dataclass(frozen=True)
class Completion:
    """What a model said.

    Attributes:
        text: The reply, word for word.
        finish_reason: ``stop`` for a reply that ended by itself, ``length`` for one that was cut at ``max_tokens``.
        prompt_tokens: Tokens read; 0 where the backend does not say.
        completion_tokens: Tokens written; 0 where the backend does not say.
        seconds: From sending the request to having the reply.
        model: Model and version as the backend names them.
    """

    text: str
    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    model: str


class Backend(Protocol):
    """Something that answers chats.

    Attributes:
        model: Name of the model, which goes into provenance and cache keys.
    """

    model: str

    def complete(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Completion | LLMError]]:
        """Answer requests, each as it is ready, in any order.

        Requests are drawn from the iterable only as there is room for them, so it may be long, and may come to hold
        new ones while earlier ones are answered.

        Args:
            requests: Questions.

        Yields:
            Each request with its completion, or with the error after the backend's own retries.
        """
        ...


def model_name(model: str) -> str:
    """What stands for a model in keys and provenance: its hub id, or name and digest of a local file or folder."""
    place = Path(model)
    return f"{place.name}@{weights_digest(place)}" if place.exists() else model
