"""How a server is told what shape a reply must have, and what to do where it cannot be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Mode = Literal["json_schema", "json_object", "text"]

MODES: tuple[Mode, ...] = ("json_schema", "json_object", "text")
"""From the strictest to none; a server that refuses one is asked for the next."""

_OF_SCHEMAS = ("properties", "$defs", "definitions", "patternProperties")
_LISTS_OF_SCHEMAS = ("anyOf", "allOf", "oneOf", "prefixItems")
_COMPLAINTS = ("response_format", "json_schema", "json_object", "json mode", "structured output", "guided", "grammar")


def response_format(mode: Mode, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a chat-completion request that asks for a mode; empty for ``text``."""
    if mode == "text":
        return {}
    if mode == "json_object":
        return {"response_format": {"type": "json_object"}}
    wanted = {"name": "reply", "strict": True, "schema": strict_schema(schema)}
    return {"response_format": {"type": "json_schema", "json_schema": wanted}}


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema as OpenAI's strict mode takes it: an object's properties are all required, and no others allowed.

    What meets the result meets ``schema``. See
    https://platform.openai.com/docs/guides/structured-outputs#supported-schemas.
    """
    strict = dict(schema)
    for key in _OF_SCHEMAS:
        if key in strict:
            strict[key] = {name: strict_schema(part) for name, part in strict[key].items()}
    for key in _LISTS_OF_SCHEMAS:
        if key in strict:
            strict[key] = [strict_schema(part) for part in strict[key]]
    if isinstance(strict.get("items"), Mapping):
        strict["items"] = strict_schema(strict["items"])
    if strict.get("type") == "object":
        strict["required"] = list(strict.get("properties", {}))
        strict["additionalProperties"] = False
    return strict


def refused(status: int, message: str) -> bool:
    """Whether an HTTP error says that the server does not know a mode, rather than that the request is bad."""
    message = message.lower()
    if status == 500:  # llama-cpp-python's server names the field; others may quote the prompt
        return "response_format" in message
    return status in (400, 422) and any(word in message for word in _COMPLAINTS)
