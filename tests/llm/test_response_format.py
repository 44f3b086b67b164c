from __future__ import annotations

import pytest

from rarrg.llm.response_format import refused

# What llama-cpp-python's server says with status 500, in part.
VALIDATION = (
    "[{'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text'\"}]"
)


@pytest.mark.parametrize(
    ("status", "message", "of_mode"),
    [
        (400, "response_format of type json_schema is not supported", True),
        (422, "Structured output is not available for this model", True),
        (500, VALIDATION, True),
        (500, "out of memory", False),
        (500, "failed on: CT-guided biopsy", False),
        (400, "the prompt is too long", False),
        (401, "response_format: wrong key", False),
    ],
)
def test_a_server_that_does_not_know_a_mode_is_told_from_one_that_fails(status: int, message: str, of_mode: bool):
    assert refused(status, message) is of_mode
