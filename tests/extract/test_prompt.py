"""The prompt of figure 7."""

from __future__ import annotations

import json

import jsonschema

from rarrg.extract.comparison import compares, speaks_of_change
from rarrg.extract.prompt import key_phrase_prompt


def test_the_examples_are_valid_json_that_meets_the_schema():
    prompt = key_phrase_prompt()
    replies = [line for line in prompt.system.splitlines() if line.startswith('{"key_phrase"')]
    assert len(replies) == 2
    for reply in replies:
        jsonschema.validate(json.loads(reply), prompt.schema)
        assert not any(compares(phrase) or speaks_of_change(phrase) for phrase in json.loads(reply)["key_phrase"])


def test_the_question_holds_report_and_phrases_as_in_the_examples():
    system, user = key_phrase_prompt().messages("Clear lungs.", ["clear lungs", "no “x”"])
    assert (system.role, user.role) == ("system", "user")
    assert user.content == 'INPUT:\nClear lungs.\n\nrule-based findings:\n["clear lungs", "no “x”"]\n\nOUTPUT:'
    assert system.content.count("INPUT:\n") == system.content.count("OUTPUT:\n") == 2
    assert (
        "[Example 1]\nINPUT:\nCardiomegaly is accompanied by improving pulmonary vascular congestion" in system.content
    )


def test_the_checksum_is_of_what_is_asked():
    assert key_phrase_prompt().sha256 == key_phrase_prompt().sha256
    assert len(key_phrase_prompt().sha256) == 64
