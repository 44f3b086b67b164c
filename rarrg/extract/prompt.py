"""The prompt that refines phrases: RA-RRG, figure 7, as valid JSON, rendered into chat messages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from rarrg.llm.chat import Message


@dataclass(frozen=True)
class KeyPhrasePrompt:
    """What the LLM is told before it sees a report.

    Attributes:
        system: The system prompt with its examples.
        schema: JSON schema of the reply, ``{"key_phrase": [str]}``.
        sha256: Checksum of what every report is asked with, for provenance.
    """

    system: str
    schema: Mapping[str, Any]
    sha256: str

    def messages(self, findings: str, phrases: Sequence[str]) -> tuple[Message, ...]:
        """The chat that asks for the key phrases of one report.

        Args:
            findings: The FINDINGS section.
            phrases: Its RadGraph phrases, or those of the rules.
        """
        return Message("system", self.system), Message("user", _question(findings, phrases))


@lru_cache(maxsize=1)
def key_phrase_prompt() -> KeyPhrasePrompt:
    """The prompt that the package carries."""
    text = resources.files("rarrg.extract").joinpath("prompts/key_phrases.json").read_text(encoding="utf-8")
    data = json.loads(text)
    examples = [
        f"[Example {number}]\n{_question(example['report'], example['rule_based'])}\n"
        f"{json.dumps({'key_phrase': example['key_phrase']}, ensure_ascii=False)}"
        for number, example in enumerate(data["examples"], start=1)
    ]
    system = "\n\n".join([data["system"], *examples])
    asked_with = json.dumps([system, _question("", []), data["schema"]], sort_keys=True)
    return KeyPhrasePrompt(system, data["schema"], hashlib.sha256(asked_with.encode()).hexdigest())


def _question(findings: str, phrases: Sequence[str]) -> str:
    listed = json.dumps(list(phrases), ensure_ascii=False)
    return f"INPUT:\n{findings}\n\nrule-based findings:\n{listed}\n\nOUTPUT:"
