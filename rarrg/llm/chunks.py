"""The pieces of a streamed chat, whatever servers make of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from openai import AsyncStream
    from openai.types.chat import ChatCompletionChunk


class UnreadableStream(Exception):
    """A body that is no stream of a chat: no JSON, JSON of another shape, or nothing."""


class Chunk(NamedTuple):
    """What a piece of a stream says; empty or 0 where it does not.

    Attributes:
        text: The next part of the reply.
        finish: Why the reply ends.
        model: The model's name.
        read: Tokens of the prompt.
        written: Tokens of the reply.
    """

    text: str
    finish: str
    model: str
    read: int
    written: int


async def chunks(stream: AsyncStream[ChatCompletionChunk]) -> AsyncIterator[Chunk]:
    """Read a stream; the ``openai`` package does not check that what comes is of its types.

    Args:
        stream: Of one request.

    Yields:
        Each piece, with what is null in it left out.

    Raises:
        UnreadableStream: Something in it is no piece of a chat.
    """
    try:
        async for chunk in stream:
            usage = chunk.usage
            read, written = (usage.prompt_tokens or 0, usage.completion_tokens or 0) if usage else (0, 0)
            choice = chunk.choices[0] if chunk.choices else None
            text = choice.delta.content if choice and choice.delta else None
            yield Chunk(text or "", (choice and choice.finish_reason) or "", chunk.model or "", read, written)
    except (ValueError, TypeError, AttributeError) as error:
        raise UnreadableStream from error
