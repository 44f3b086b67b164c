"""From a configuration to the backend it asks for."""

from __future__ import annotations

from rarrg.extract_config import LLMConfig
from rarrg.llm.chat import Backend
from rarrg.llm.endpoints import EndpointPolicy


def open_backend(config: LLMConfig, policy: EndpointPolicy) -> Backend:
    """Open the backend that ``config.backend`` names; the package and the model it needs are loaded here.

    Args:
        config: The model and how it is asked.
        policy: Says which hosts may get the text, for a server; models in this process send nothing anywhere.

    Raises:
        RarrgError: A package, the model or the server cannot be had, or the policy refuses the server.
    """
    if config.backend == "openai":
        from rarrg.llm.openai_server import OpenAIServer

        return OpenAIServer(config, policy)
    if config.backend == "vllm":
        from rarrg.llm.vllm_model import VLLMModel

        return VLLMModel(config)
    from rarrg.llm.transformers_model import TransformersModel

    return TransformersModel(config)
