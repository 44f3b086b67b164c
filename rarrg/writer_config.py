"""How phrases become a report. Free of heavy imports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rarrg.llm_config import LLMConfig
from rarrg.types import Precedence


@dataclass(frozen=True)
class WriterConfig:
    """How phrases become a report.

    Args:
        writer: ``join`` puts the phrases one after the other, without a language model; ``llm`` has one write, and
            checks every sentence against the phrases.
        llm: The language model, for ``llm``.
        examples: In-context examples in its prompt: 0, 1 or 3.
        resolve: Of phrases of a view that contradict each other, keep the one that affirms (``findings``) or the more
            probable one (``probability``), between views the frontal's; ``nothing`` keeps all.
        allow_hosts: Hosts beside this machine that may get phrases of a store made from credentialed data.
    """

    writer: Literal["join", "llm"] = "join"
    llm: LLMConfig = field(default_factory=LLMConfig)
    examples: Literal[0, 1, 3] = 1
    resolve: Precedence = "findings"
    allow_hosts: list[str] = field(default_factory=list)
