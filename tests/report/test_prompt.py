from __future__ import annotations

import json

import pytest

from rarrg.extract.comparison import compares, speaks_of_change
from rarrg.report.prompt import kind_of, report_prompt
from rarrg.types import RetrievedPhrase


def said(*texts: str) -> tuple[RetrievedPhrase, ...]:
    return tuple(RetrievedPhrase(text, 0.9, 0.8, query) for query, text in enumerate(texts))


def asked(system: str, user: str):
    """The JSON that a user's turn holds."""
    assert user.startswith("INPUT:\n")
    return json.loads(user.removeprefix("INPUT:\n").removesuffix("\n\nOUTPUT:"))


def test_one_image_asks_as_figure_8_does():
    prompt = report_prompt("single", 1)
    system, user = prompt.messages({"lateral": said("clear lungs", "no effusion", "clear lungs")})
    assert asked(system.content, user.content) == ["clear lungs", "no effusion"]
    assert "from a single chest X-ray image" in system.content
    assert "avoid any comparative expressions or mentions of previous imaging" in system.content


def test_two_images_ask_as_figure_9_does():
    system, user = report_prompt("two", 1).messages({"frontal": said("clear lungs"), "lateral": said("no effusion")})
    assert asked(system.content, user.content) == {"frontal": ["clear lungs"], "lateral": ["no effusion"]}
    assert "prioritize findings from the frontal view" in system.content
    assert "mention such findings only once" in system.content


@pytest.mark.parametrize(
    ("images", "kind"),
    [
        ({"frontal": 1}, "single"),
        ({"lateral": 1}, "single"),
        ({"frontal": 1, "lateral": 1}, "two"),
        ({"frontal": 2}, "several"),
        ({"frontal": 2, "lateral": 1}, "several"),
        ({"frontal": 1, "lateral": 0}, "single"),
    ],
)
def test_the_prompt_fits_the_images(images, kind):
    assert kind_of(images) == kind


def test_several_images_are_not_called_two():
    system, user = report_prompt("several", 1).messages(
        {"frontal": said("clear lungs"), "lateral": said("no effusion")}
    )
    assert "only two images" not in system.content
    assert asked(system.content, user.content) == {"frontal": ["clear lungs"], "lateral": ["no effusion"]}


@pytest.mark.parametrize("kind", ["single", "two", "several"])
def test_as_many_examples_as_asked_for_and_each_is_known_by_its_checksum(kind):
    prompts = {number: report_prompt(kind, number) for number in (0, 1, 3)}
    for number, prompt in prompts.items():
        assert prompt.system.count("[Example") == prompt.system.count('{"report": ') == number
        assert prompt.schema["required"] == ["report"]
    assert len({prompt.sha256 for prompt in prompts.values()}) == 3


@pytest.mark.parametrize("kind", ["single", "two"])
def test_examples_compare_with_nothing(kind):
    examples = report_prompt(kind, 3).system.partition("[Example 1]")[2]
    for line in examples.splitlines():
        if line.startswith('{"report"'):
            report = json.loads(line)["report"]
            assert not compares(report)
            assert not speaks_of_change(report)
