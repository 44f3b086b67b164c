"""What a server's refusal means for a request and for the run, in one line that holds no key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from rarrg.llm.chat import LLMError
from rarrg.llm_config import LLMConfig

_SHOWN = 300  # characters of a server's own message


@dataclass(frozen=True)
class Secret:
    """A key, which no message may show.

    Attributes:
        name: The environment variable that holds it.
        value: The key; empty without one.
    """

    name: str
    value: str = field(repr=False)

    def hidden_in(self, text: str) -> str:
        """The text with the key struck out: some servers repeat it in their errors."""
        return text.replace(self.value, "***") if self.value else text


@dataclass(frozen=True)
class Refusal:
    """Why a request got no completion.

    Attributes:
        message: For the user.
        status: HTTP status; 0 without a response.
        detail: The server's own words.
        for_all: Before anything was answered, no other request will be.
        for_good: No other request will be answered, whatever was before.
    """

    message: str
    status: int = 0
    detail: str = ""
    for_all: bool = False
    for_good: bool = False

    @classmethod
    def of(
        cls,
        what: str,
        config: LLMConfig,
        status: int = 0,
        detail: str = "",
        for_all: bool = False,
    ) -> Refusal:
        """A refusal that names the server and the model."""
        return cls(f"{shown_url(config.base_url or '')}, model {config.model}: {what}", status, detail, for_all)


def refusal_of(error: Exception, config: LLMConfig, secret: Secret) -> Refusal:
    """Put an error of the ``openai`` package, or of the policy, into words."""
    from aiohttp import ClientConnectionError
    from openai import APIConnectionError, APIStatusError, APITimeoutError

    detail = _one_line(secret.hidden_in(_said(error)))
    if isinstance(error, LLMError):
        return Refusal(str(error), for_good=True)
    # openai's aiohttp adapter calls every lost connection a time-out; a real one has a TimeoutError at its root.
    lost = any(
        isinstance(cause, ClientConnectionError) and not isinstance(cause, TimeoutError) for cause in _causes(error)
    )
    if isinstance(error, APITimeoutError) and not lost:
        return Refusal.of(f"no answer in {config.timeout:g} s; raise llm.timeout or lower llm.concurrency", config)
    if isinstance(error, APIConnectionError):
        return Refusal.of(f"cannot be reached ({detail}); start the server or check llm.base_url", config, for_all=True)
    if not isinstance(error, APIStatusError):
        return Refusal.of(f"request failed ({detail})", config)
    status = error.status_code
    if status == 401:
        fault = f"refuses the key in {secret.name}" if secret.value else f"wants a key; put it into {secret.name}"
    elif status == 403:
        fault = f"does not allow this with the key in {secret.name}"
    elif status == 404:
        fault = "knows no such model or path; check llm.model, and llm.base_url, which ends in /v1"
    elif status == 429:
        fault = "too many requests, or no credit left; lower llm.concurrency"
    else:
        fault = "answered with an error"
    return Refusal.of(f"{fault} ({status}: {detail})", config, status, detail, for_all=status in (401, 403, 404))


def shown_url(url: str) -> str:
    """A URL without what may be secret in it: user, password and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _said(error: Exception) -> str:
    """The message within the body of an error response, or the cause of a lost connection."""
    body = getattr(error, "body", None)
    for part in (body, body.get("error") if isinstance(body, dict) else None):
        if isinstance(part, dict) and isinstance(part.get("message"), str):
            return str(part["message"])
    if isinstance(body, str) and body:
        return body
    return str(list(_causes(error))[-1])


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} [...]"
