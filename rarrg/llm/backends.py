"""From a configuration to the backend it asks for."""

from __future__ import annotations

from collections.abc import Callable

from rarrg.llm.chat import Backend
from rarrg.llm.endpoints import EndpointPolicy
from rarrg.llm_config import LLMConfig


def open_backend(config: LLMConfig, policy: EndpointPolicy, hear: Callable[[str], None] | None = None) -> Backend:
    """Open the backend that a configuration names; the package and the model it needs are loaded here.

    Args:
        config: The model and how it is asked.
        policy: Says which hosts may get the text, for a server; models in this process send nothing anywhere.
        hear: Gets each piece of a reply as it is written, where the backend does so (``vllm`` does not); an empty text
            begins a reply. For one request at a time.

    Raises:
        RarrgError: A package, the model or the server cannot be had, or the policy refuses the server.
    """
    if config.chosen_backend == "openai":
        from rarrg.llm.openai_server import OpenAIServer

        return OpenAIServer(config, policy, hear=hear)
    if config.chosen_backend == "vllm":
        from rarrg.llm.vllm_model import VLLMModel

        return VLLMModel(config)
    from rarrg.llm.transformers_model import TransformersModel

    return TransformersModel(config, hear)
