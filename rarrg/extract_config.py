"""The configuration of key-phrase extraction: the keys below ``extract:`` in a YAML file. Free of heavy imports.

Defaults are the paper's (RA-RRG, sections 3.1 and 4.3, appendices B and D).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rarrg.errors import require

LOCAL = ("vllm", "transformers")
"""Backends that run in this process and send nothing anywhere."""


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
class LLMConfig:
    """A chat model and how it is asked.

    Args:
        backend: ``openai`` for any OpenAI-compatible server, ``vllm`` or ``transformers`` for a model in this process.
        model: Name of the model as the server knows it; for a model in this process a hub id, a local folder, or, with
            ``transformers``, a ``.gguf`` file.
        base_url: URL of the server, as ``http://127.0.0.1:8000/v1``; for ``openai`` only.
        api_key_env: Environment variable that holds the server's key; a server without keys needs none.
        temperature: Sampling temperature.
        top_p: Nucleus of the sampling.
        max_tokens: Longest reply in tokens.
        seed: Seed of the sampling, for backends that take one.
        concurrency: Requests under way at once.
        timeout: Seconds until a request counts as lost.
        attempts: How often a report is asked about before it counts as failed; every attempt after an unusable reply
            tells the model what was wrong with it.
        quantization: vLLM's name of an in-flight quantization (``bitsandbytes``); null takes the model as stored, which
            for an AWQ or GPTQ model is 4-bit.
        context: Longest prompt and reply together, in tokens, for ``vllm``.
        tensor_parallel: GPUs a model is spread over, for ``vllm``.
        cache: File of cached replies; null: ``replies.sqlite`` in the folder of the extraction, or of the shard.
    """

    backend: Literal["openai", "vllm", "transformers"] = "vllm"
    model: str = "hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4"
    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    temperature: float = 0.6
    top_p: float = 0.9
    max_tokens: int = 1024
    seed: int = 0
    concurrency: int = 64
    timeout: float = 300.0
    attempts: int = 3
    quantization: str | None = None
    context: int = 8192
    tensor_parallel: int = 1
    cache: str | None = None

    def __post_init__(self) -> None:
        require(bool(self.model), "extract.llm.model", "a model's name", self.model)
        require(self.temperature >= 0, "extract.llm.temperature", "at least 0", self.temperature)
        require(0 < self.top_p <= 1, "extract.llm.top_p", "above 0 and at most 1", self.top_p)
        for key in ("max_tokens", "concurrency", "attempts", "context", "tensor_parallel"):
            require(getattr(self, key) >= 1, f"extract.llm.{key}", "at least 1", getattr(self, key))
        require(self.timeout > 0, "extract.llm.timeout", "above 0", self.timeout)


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
