"""The prompts that write a report: RA-RRG, figures 8 and 9, as valid JSON, rendered into chat messages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, Literal

from rarrg.llm.chat import Message
from rarrg.types import Phrases, Position

Examples = Literal[0, 1, 3]
Kind = Literal["single", "two", "several"]
"""One image; a frontal and a lateral one; any others."""


@dataclass(frozen=True)
class ReportPrompt:
    """What the LLM is told before it sees a study's phrases.

    Attributes:
        system: The system prompt with its examples.
        schema: JSON schema of the reply, ``{"report": str}``.
        sha256: Checksum of what every study is asked with, for provenance.
    """

    system: str
    schema: Mapping[str, Any]
    sha256: str

    def messages(self, phrases: Phrases) -> tuple[Message, ...]:
        """The chat that asks for the report of one study.

        Args:
            phrases: Retrieved phrases of each view; a view without any is left out.
        """
        texts = {view: list(dict.fromkeys(phrase.text for phrase in said)) for view, said in phrases.items() if said}
        asked = texts if len(texts) > 1 else next(iter(texts.values()), [])
        return Message("system", self.system), Message("user", _question(asked))


def kind_of(images: Mapping[Position, int]) -> Kind:
    """Which prompt fits a study.

    Args:
        images: Number of images of each view.
    """
    given = {view: number for view, number in images.items() if number}
    if sum(given.values()) == 1:
        return "single"
    return "two" if given == {"frontal": 1, "lateral": 1} else "several"


@lru_cache
def report_prompt(kind: Kind, examples: Examples) -> ReportPrompt:
    """A prompt that the package carries.

    Args:
        kind: Of :func:`kind_of`.
        examples: In-context examples (RA-RRG, table 10).
    """
    name = "single_view" if kind == "single" else "two_views"
    text = resources.files("rarrg.report").joinpath(f"prompts/{name}.json").read_text(encoding="utf-8")
    data = json.loads(text)
    shown = [
        f"{'[Example]' if examples == 1 else f'[Example {number}]'}\n{_question(example['phrases'])}\n"
        f"{json.dumps({'report': example['report']}, ensure_ascii=False)}"
        for number, example in enumerate(data["examples"][:examples], start=1)
    ]
    system = "\n\n".join([data["system_several" if kind == "several" else "system"], *shown])
    asked_with = json.dumps([system, _question([]), data["schema"]], sort_keys=True)
    return ReportPrompt(system, data["schema"], hashlib.sha256(asked_with.encode()).hexdigest())


def _question(phrases: object) -> str:
    return f"INPUT:\n{json.dumps(phrases, ensure_ascii=False)}\n\nOUTPUT:"
