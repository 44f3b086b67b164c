"""From a configuration to the backend it asks for."""

from __future__ import annotations

from typing import Any

from rarrg.extract_config import LLMConfig
from rarrg.llm.chat import Backend


def open_backend(config: LLMConfig, guard: Any) -> Backend:
    """Open the backend that ``config.backend`` names; the package and the model it needs are loaded here.

    Args:
        config: The model and how it is asked.
        guard: Says which hosts may get the text, for a server; models in this process send nothing anywhere.

    Raises:
        RarrgError: A package, the model or the server cannot be had, or the guard refuses the server.
    """
    if config.backend == "openai":
        from rarrg.llm.openai_server import OpenAIServer

        return OpenAIServer(config, guard)
    if config.backend == "vllm":
        from rarrg.llm.vllm_model import VLLMModel

        return VLLMModel(config)
    from rarrg.llm.transformers_model import TransformersModel

    return TransformersModel(config)
