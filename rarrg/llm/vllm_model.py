"""Chat models that vLLM runs in this process, on its GPUs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from rarrg.errors import RarrgError
from rarrg.llm.chat import Completion, FinishReason, LLMError, Request, model_name
from rarrg.llm_config import LLMConfig

# Requests handed over at once: enough to keep the GPUs busy, few enough to hold in memory and to lose at a crash.
_CHUNK = 1024

_FINISH_REASONS: dict[str | None, FinishReason] = {"stop": "stop", "length": "length"}


class VLLMModel:
    """A chat model in vLLM (https://docs.vllm.ai); its structured outputs hold replies to the request's JSON schema.

    Requests are handed over 1024 at a time, and vLLM batches them as its memory allows; the beginning that prompts
    share is read once. The seed fixes a request's random numbers, but the batch a request falls into changes sums by
    their last bits, so a reply may still differ from run to run.

    Args:
        config: ``model`` is a hub id or a local folder; ``quantization``, ``context``, ``tensor_parallel`` and
            ``seed`` go to vLLM.

    Attributes:
        model: The model's name, for a local one with a digest of its files, and how it was quantized in flight.

    Raises:
        RarrgError: vLLM is not installed, or cannot load the model.
    """

    def __init__(self, config: LLMConfig) -> None:
        try:
            from vllm import LLM
        except ImportError as error:
            raise RarrgError(
                f"{config.model}: backend vllm needs vLLM ({error}); pip install 'rarrg[vllm]' in an environment of "
                "its own, without rarrg[extract]"
            ) from error
        self.model = served_name(config)
        self._refusals = _refusals()
        # RuntimeError is how vLLM says that its engine did not start, as for want of a GPU or of memory.
        failures: tuple[type[Exception], ...] = (OSError, RuntimeError, *self._refusals)
        try:
            self._llm = LLM(**engine_settings(config))
        except failures as error:
            raise RarrgError(f"{config.model}: vLLM cannot load it ({one_line(error)})") from error

    def complete(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Completion | LLMError]]:
        """Answer requests in their order, 1024 at a time; see ``Backend.complete``."""
        source = iter(requests)
        while chunk := list(islice(source, _CHUNK)):
            yield from self._answer(chunk)

    def _answer(self, requests: Sequence[Request]) -> Iterator[tuple[Request, Completion | LLMError]]:
        start = time.perf_counter()
        try:
            outputs = self._llm.chat(
                messages=[
                    [{"role": message.role, "content": message.content} for message in request.messages]
                    for request in requests
                ],
                sampling_params=[_sampling_params(request) for request in requests],
                use_tqdm=False,
            )
        except self._refusals as error:
            # vLLM looks at all prompts before it answers any, and one that is too long fails its whole chunk. Halves
            # of halves lead to that one in a few steps.
            if len(requests) == 1:
                yield requests[0], LLMError(f"{self.model}: vLLM refuses the request ({one_line(error)})")
                return
            middle = len(requests) // 2
            yield from self._answer(requests[:middle])
            yield from self._answer(requests[middle:])
            return
        if len(outputs) != len(requests):  # vLLM before 0.12 goes on with requests of a chunk that it refused
            raise RarrgError(
                f"{self.model}: vLLM gave {len(outputs)} replies to {len(requests)} requests; "
                "pip install --upgrade 'rarrg[vllm]'"
            )
        seconds = time.perf_counter() - start
        for request, output in zip(requests, outputs, strict=True):
            reply = output.outputs[0]
            yield (
                request,
                Completion(
                    text=reply.text,
                    finish_reason=_FINISH_REASONS.get(reply.finish_reason, "other"),
                    prompt_tokens=len(output.prompt_token_ids or ()),
                    completion_tokens=len(reply.token_ids),
                    seconds=seconds,
                    model=self.model,
                ),
            )


def engine_settings(config: LLMConfig) -> dict[str, Any]:
    """What vLLM's engine is made with, here or elsewhere."""
    return {
        "model": config.model,
        "quantization": config.quantization,
        "max_model_len": config.context,
        "tensor_parallel_size": config.tensor_parallel,
        "enable_prefix_caching": True,
        "seed": config.seed,
    }


def served_name(config: LLMConfig) -> str:
    """What a model in vLLM is called: its name, for a local one with a digest, and how it is quantized in flight."""
    return model_name(config.model) + (f" ({config.quantization})" if config.quantization else "")


def _sampling_params(request: Request) -> Any:
    from vllm import SamplingParams

    sampling = request.sampling
    return SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        max_tokens=sampling.max_tokens,  # vLLM's own default is 16
        seed=sampling.seed,
        **_structured(dict(request.schema)),
    )


def _structured(schema: dict[str, Any]) -> dict[str, Any]:
    try:
        from vllm.sampling_params import StructuredOutputsParams
    except ImportError:  # before vLLM 0.11
        from vllm.sampling_params import GuidedDecodingParams

        return {"guided_decoding": GuidedDecodingParams(json=schema)}
    return {"structured_outputs": StructuredOutputsParams(json=schema)}


def _refusals() -> tuple[type[Exception], ...]:
    """What vLLM raises for a request it does not take: a ValueError, in later versions an error of its own."""
    try:
        from vllm.exceptions import VLLMClientError
    except ImportError:
        return (ValueError,)
    return (ValueError, VLLMClientError)


def one_line(message: object) -> str:
    """A message without its line breaks."""
    return " ".join(str(message).split())
