from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarrg.llm.replies import DEEPEST, LONGEST, ReplyError, parse_reply

PHRASES = {
    "type": "object",
    "properties": {"key_phrase": {"type": "array", "items": {"type": "string"}}},
    "required": ["key_phrase"],
    "additionalProperties": False,
}
ANY_OBJECT = {"type": "object"}

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=30) | st.sampled_from(
    ['he said "no"', "a, ]", "}", "```", "<think>", "\\", '{"key_phrase": []}', "…, }", '\\"']
)
phrases = st.fixed_dictionaries({"key_phrase": st.lists(texts, max_size=5)})
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
objects = st.dictionaries(
    texts, st.recursive(scalars, lambda part: st.lists(part, max_size=3) | st.dictionaries(texts, part, max_size=3))
)
prose = st.text(st.characters(exclude_characters="{}<", exclude_categories=("Cs",)), max_size=40)


def dumped(value: Any, ascii_only: bool, comma: str) -> str:
    """JSON with ``comma`` before the closing bracket of whatever holds something."""
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {dumped(part, ascii_only, comma)}" for key, part in value.items()]
        return "{" + ", ".join(parts) + (comma if parts else "") + "}"
    if isinstance(value, list):
        return "[" + ", ".join(dumped(part, ascii_only, comma) for part in value) + (comma if value else "") + "]"
    return json.dumps(value, ensure_ascii=ascii_only)


@settings(deadline=None)
@given(
    value=objects,
    ascii_only=st.booleans(),
    comma=st.sampled_from(["", ",", " ,\n "]),
    around=st.sampled_from(
        [("", ""), ("```json\n", "\n```"), ("```", "```"), ("", "]"), ("", "}\n"), ("{curly} ", "")]
    ),
    before=prose,
    after=prose,
)
def test_an_object_comes_back_from_whatever_stands_around_it(
    value: dict[str, Any], ascii_only: bool, comma: str, around: tuple[str, str], before: str, after: str
) -> None:
    text = before + around[0] + dumped(value, ascii_only, comma) + around[1] + after
    assert parse_reply(text, ANY_OBJECT) == value


@settings(deadline=None)
@given(value=objects | phrases, indent=st.sampled_from([None, 2]), data=st.data())
def test_every_strict_prefix_is_refused(value: dict[str, Any], indent: int | None, data: st.DataObject) -> None:
    whole = json.dumps(value, indent=indent)
    end = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ReplyError):
        parse_reply(whole[:end], ANY_OBJECT)


@given(st.text(st.sampled_from('{}[]",:\\ab1 \n'), max_size=60))
def test_no_text_raises_anything_else(text: str) -> None:
    try:
        value = parse_reply(text, ANY_OBJECT)
    except ReplyError:
        return
    assert isinstance(value, dict)


@pytest.mark.parametrize(
    "text",
    [
        '{"key_phrase": ["edema"]}]',
        '{"key_phrase": ["edema"]}}',
        'The form is {"key_phrase": [...]}. Here:\n{"key_phrase": ["edema"]}',
        '{"report": "an example"} {"key_phrase": ["edema"]}',
        '{"key_phrase": ["edema"]} or, once more, {"key_phrase": ["edema"]}',
        '<think>Maybe {"key_phrase": ["effusion"]}?</think>{"key_phrase": ["edema"]}',
        'Maybe {"key_phrase": ["effusion"]}?\n</think>\n\n{"key_phrase": ["edema"]}',  # opened in the prompt
        '<think>a</think>\n<think>{"key_phrase": ["effusion"]}</think>{"key_phrase": ["edema"]}',
        '[THINK]{"key_phrase": ["effusion"]}[/THINK]{"key_phrase": ["edema"]}',
        '<thinking>{"key_phrase": ["effusion"]}</thinking>```json\n{"key_phrase": ["edema"]}\n```',
    ],
)
def test_the_answer_is_found(text: str) -> None:
    assert parse_reply(text, PHRASES) == {"key_phrase": ["edema"]}


def test_a_raw_line_break_in_a_string_is_kept() -> None:
    assert parse_reply('{"key_phrase": ["a\nb"]}', PHRASES) == {"key_phrase": ["a\nb"]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no JSON object"),
        ("no findings", "no JSON object"),
        ('["edema"]', "no JSON object"),
        ('{"key_phrase": ["edema", "left ef', "breaks off"),
        ('{"key_phrase": ["edema"', "breaks off"),
        ('<think>{"key_phrase": ["edema"]} or', "breaks off within its reasoning"),
        ('a</think> <think>{"key_phrase": ["edema"]} or', "breaks off within its reasoning"),
        ('{"key_phrase": ["edema"]} {"key_phrase": ["ef', "breaks off"),
        ('{"key_phrase": ["edema"]} {"key_phrase": ["effusion"]}', "2 different JSON objects"),
        ('{"answer": {"key_phrase": ["edema"]}}', "does not meet the schema"),
        ('{"key_phrase": "edema"}', r"does not meet the schema at \$.key_phrase: 'edema' is not of type 'array'"),
        ('{"key_phrase": ["a", 2]}', r"\$.key_phrase\[1\]"),
        ('{"key_phrase": ["a"], "note": "b"}', "'note' was unexpected"),
        ('{"key_phrase": ["a"], "key_phrase": ["b"]}', "a key is there twice"),
        ('{"key_phrase": [,]}', "malformed"),
        ('{"key_phrase": ["a" "b"]}', "malformed"),
        ('{"key_phrase": ["a",,]}', "malformed"),
        ('{"key_phrase": [NaN]}', "NaN is no JSON"),
        ('{"key_phrase": [1e999]}', "too large"),
        ('{"key_phrase": [' + "9" * 5000 + "]}", "malformed"),
        (r'{"key_phrase": ["\ud800"]}', "malformed"),
        ('{"a":' * 100_000, f"more than {DEEPEST} deep"),
        ('{"a":' + "[" * 100_000 + "]" * 100_000 + "}", f"more than {DEEPEST} deep"),
        ('{"key_phrase": ["a"]}' + " " * LONGEST, "longer than"),
        ("{" * LONGEST, "no JSON object"),
        ('{"' * (LONGEST // 2), "breaks off|deep"),
        ('{"}' * (LONGEST // 4), "breaks off|malformed"),
    ],
)
def test_the_reason_is_short_and_says_what_is_wrong(text: str, reason: str) -> None:
    with pytest.raises(ReplyError, match=reason) as caught:
        parse_reply(text, PHRASES)
    assert len(str(caught.value)) < 350
