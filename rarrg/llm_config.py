"""A chat model and how it is asked: the keys below ``llm:``. Free of heavy imports.

Defaults are the paper's (RA-RRG, appendix D).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rarrg.errors import require


@dataclass
class LLMConfig:
    """A chat model and how it is asked.

    Args:
        backend: ``openai`` for any OpenAI-compatible server, ``vllm`` or ``transformers`` for a model in this process;
            null: ``openai`` where ``base_url`` is given, else ``vllm``.
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
        attempts: How often a report or study is asked about before it counts as failed; every attempt after an unusable
            reply tells the model what was wrong with it.
        quantization: vLLM's name of an in-flight quantization (``bitsandbytes``); null takes the model as stored, which
            for an AWQ or GPTQ model is 4-bit.
        context: Longest prompt and reply together, in tokens, for ``vllm``.
        tensor_parallel: GPUs a model is spread over, for ``vllm``.
        cache: File of cached replies; null: for extraction ``replies.sqlite`` in its folder, or in that of the shard;
            for reports none.
    """

    backend: Literal["openai", "vllm", "transformers"] | None = None
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

    @property
    def chosen_backend(self) -> Literal["openai", "vllm", "transformers"]:
        """The backend, where none is named too."""
        return self.backend or ("openai" if self.base_url else "vllm")

    def __post_init__(self) -> None:
        require(bool(self.model), "llm.model", "a model's name", self.model)
        require(self.temperature >= 0, "llm.temperature", "at least 0", self.temperature)
        require(0 < self.top_p <= 1, "llm.top_p", "above 0 and at most 1", self.top_p)
        for key in ("max_tokens", "concurrency", "attempts", "context", "tensor_parallel"):
            require(getattr(self, key) >= 1, f"llm.{key}", "at least 1", getattr(self, key))
        require(self.timeout > 0, "llm.timeout", "above 0", self.timeout)
