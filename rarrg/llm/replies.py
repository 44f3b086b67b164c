r"""A model's reply, read into the object that meets a JSON schema.

What models add around an object is passed over: prose, code fences, ``<think>`` blocks before it, stray brackets,
commas before a closing bracket, raw line breaks in strings. What changes the answer is never mended. The
``json_repair`` package closes what a cut reply left open, which turns half a phrase into a phrase; hence this small
reader, which takes an object only where all its brackets and strings are closed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

LONGEST = 1_000_000
"""Characters of the longest reply that is read."""

DEEPEST = 32
"""Brackets within brackets that are read."""

_SHOWN = 200
_OPENING = re.compile(r'\{(?=\s*["}])')
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?P<closed>")?|[{}\[\]]', re.DOTALL)
_STRING_OR_COMMA = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]\s*,|,(?=\s*[}\]])', re.DOTALL)
_THOUGHT = re.compile(r"\s*(?:<think(?:ing)?>|\[THINK\])", re.IGNORECASE)
_THOUGHT_END = re.compile(r"</think(?:ing)?>|\[/THINK\]", re.IGNORECASE)
_ANSWER = re.compile(r"\s*(?:```|\{)")


class ReplyError(ValueError):
    """A reply that cannot be used. The message is one clause that a retry prompt can quote."""


def parse_reply(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Find the object that a reply holds.

    A reply with two different objects that meet the schema is refused: one may be the example of the prompt said
    again, before the answer or after it, and an example's findings must not pass for a patient's.

    Args:
        text: The reply, up to ``LONGEST`` characters.
        schema: JSON schema, draft 2020-12.

    Returns:
        The object; its numbers are finite and its strings can be written as UTF-8.

    Raises:
        ReplyError: There is no such object, it does not meet the schema, the reply breaks off within an object, or it
            holds several.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    if len(text) > LONGEST:
        raise ReplyError(f"it is longer than {LONGEST} characters")
    start = _after_thoughts(text)
    validator = Draft202012Validator(schema)
    found: list[dict[str, Any]] = []
    reason = "it holds no JSON object"
    for extent in _objects(text, start):
        try:
            value = _decode(extent)
        except ValueError as error:
            reason = f"its JSON object is malformed: {_shortened(str(error))}"
            continue
        fault = best_match(validator.iter_errors(value))
        if fault is not None:
            reason = f"its JSON object does not meet the schema at {fault.json_path}: {_shortened(fault.message)}"
        elif value not in found:
            found.append(value)
    if not found:
        raise ReplyError(reason)
    if len(found) > 1:
        raise ReplyError(f"it holds {len(found)} different JSON objects that meet the schema, but one is wanted")
    return found[0]


def _after_thoughts(text: str) -> int:
    """Where the answer may begin: what a model considered is not what it answered.

    Some chat templates open the first thought in the prompt, so that the reply only closes it.
    """
    start = 0
    while not _ANSWER.match(text, start) and (end := _THOUGHT_END.search(text, start)):
        start = end.end()
    if _THOUGHT.match(text, start):
        raise ReplyError("it breaks off within its reasoning")
    return start


def _objects(text: str, start: int) -> Iterator[str]:
    """The outermost objects, each from its opening to its closing bracket; a brace in prose is not one."""
    while opening := _OPENING.search(text, start):
        start = _end(text, opening.start())
        yield text[opening.start() : start]


def _end(text: str, start: int) -> int:
    """Where the object that opens at ``start`` is closed."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        symbol = token.group()
        if symbol[0] == '"':
            if token["closed"] is None:
                break
        elif symbol in "{[":
            depth += 1
            if depth > DEEPEST:
                raise ReplyError(f"its JSON object is nested more than {DEEPEST} deep")
        else:
            depth -= 1
            if depth == 0:
                return token.end()
    raise ReplyError("it breaks off within a JSON object")


def _decode(extent: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(
        _STRING_OR_COMMA.sub(lambda match: "" if match.group() == "," else match.group(), extent),
        strict=False,
        object_pairs_hook=_distinct,
        parse_constant=_no_constant,
        parse_float=_finite,
    )
    # An escaped half of a surrogate pair is valid JSON that no file takes.
    json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key is there twice")
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is too large")
    return number


def _shortened(reason: str) -> str:
    return reason if len(reason) <= _SHOWN else f"{reason[:_SHOWN]} [...]"
