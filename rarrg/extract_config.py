"""The configuration of key-phrase extraction: the keys below ``extract:`` in a YAML file. Free of heavy imports.

Defaults are the paper's (RA-RRG, sections 3.1 and 4.3, appendices B and D).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rarrg.errors import require
from rarrg.llm_config import LLMConfig


@dataclass
class RadGraphConfig:
    """The RadGraph model that annotates reports.

    Args:
        model_type: ``radgraph``, the model of Jain et al. 2021 that the paper cites, or ``radgraph-xl``.
        weights: Folder in which the unpacked weights of ``model_type`` lie; null lets the package fetch them from the
            hub.
        processes: Worker processes; the package annotates one report at a time.
    """

    model_type: Literal["radgraph", "radgraph-xl"] = "radgraph"
    weights: str | None = None
    processes: int = 1

    def __post_init__(self) -> None:
        require(self.processes >= 1, "extract.radgraph.processes", "at least 1", self.processes)


@dataclass
class ExtractConfig:
    """How reports become key phrases.

    Args:
        structure: What makes the phrases that the LLM is given beside the report: ``radgraph``, or ``rules``, without
            a model.
        radgraph: The RadGraph model.
        llm: The model that refines phrases.
        allow_hosts: Hosts beside this machine that may get the text of credentialed reports.
        keep_unsupported: Keep phrases with findings that neither report nor structure has.
    """

    structure: Literal["radgraph", "rules"] = "radgraph"
    radgraph: RadGraphConfig = field(default_factory=RadGraphConfig)
    llm: LLMConfig = field(default_factory=LLMConfig)
    allow_hosts: list[str] = field(default_factory=list)
    keep_unsupported: bool = False
