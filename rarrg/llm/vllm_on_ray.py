"""Chat models that vLLM runs on the machines of a Ray cluster, by Ray Data's own integration (ray.data.llm)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

from rarrg.errors import RarrgError
from rarrg.llm.chat import Completion, FinishReason, LLMError, Request
from rarrg.llm.vllm_model import engine_settings, one_line, served_name
from rarrg.llm_config import LLMConfig
from rarrg.ray_data import cause_of, rows_of

_CHUNK = 32_768  # requests of a pipeline, which loads the model: some 300 MB of text
_BLOCK = 64  # requests that are sent together
_BLOCKS_AT_ONCE = 16  # an engine has as many of them under way: 1024, the most that vLLM batches on a large GPU
_QUIET = {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}  # what they tell their makers nobody asked for


class VLLMOnRay:
    """A chat model in vLLM engines on a Ray cluster that this process is connected to.

    Requests flow to a pool of engines, each of which batches all it has under way; an engine that dies is started
    again and its requests are sent again (https://docs.ray.io/en/latest/data/working-with-llms.html). Engines are
    loaded for every 32,768 requests and once for each round of those that are asked again at the end. Prompts, sampling
    and replies are those of :class:`~rarrg.llm.vllm_model.VLLMModel`, but that a reply which ends by itself with its
    last token counts as cut. The GPUs of an engine are those of one machine.

    Args:
        config: As for ``VLLMModel``; the model must be had under this name on every machine.
        engines: The most that are loaded at once.
        on_gpus: Each has ``tensor_parallel`` GPUs; without, it is of a vLLM built for processors.

    Attributes:
        model: As of ``VLLMModel``.

    Raises:
        RarrgError: Ray has no such integration.
    """

    def __init__(self, config: LLMConfig, engines: int, on_gpus: bool) -> None:
        try:
            from ray.data.llm import build_processor, vLLMEngineProcessorConfig
        except ImportError as error:
            raise RarrgError(
                f"{config.model}: vLLM on a cluster needs Ray's integration of it ({error}); pip install "
                "'rarrg[ray,vllm]' here and on every machine of it"
            ) from error
        self.model = served_name(config)
        self._context = config.context
        settings = engine_settings(config)
        # Engines work elsewhere than here: a folder is named from the root.
        model = str(Path(config.model).resolve()) if Path(config.model).exists() else config.model
        if config.tensor_parallel > 1:
            # With Ray's own executor each pipeline takes GPUs that it never gives back (ray-project/ray#64035).
            settings["distributed_executor_backend"] = "mp"
        bundle = {"GPU": 1, "CPU": 1} if on_gpus else {"CPU": 1}
        self._build = partial(
            build_processor,
            vLLMEngineProcessorConfig(
                model_source=model,
                engine_kwargs={key: value for key, value in settings.items() if key != "model"},
                batch_size=_BLOCK,
                max_concurrent_batches=_BLOCKS_AT_ONCE,
                concurrency=(1, engines),
                placement_group_config={"bundles": [bundle] * config.tensor_parallel},
                # The chat is made tokens by ``_prepared``: Ray's two stages would begin it twice.
                prepare_multimodal_stage=False,
                chat_template_stage=False,
                tokenize_stage=False,
                detokenize_stage=False,
                should_continue_on_error=True,
                runtime_env={"env_vars": _QUIET},
                log_engine_metrics=False,
            ),
            preprocess=partial(_prepared, model),
            postprocess=_answered,
        )

    def complete(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Completion | LLMError]]:
        """Answer requests in their order, 32,768 at a time; see ``Backend.complete``.

        Raises:
            RarrgError: No engine could be started.
        """
        source = iter(requests)
        while chunk := list(islice(source, _CHUNK)):
            yield from self._answer(chunk)

    def _answer(self, requests: Sequence[Request]) -> Iterator[tuple[Request, Completion | LLMError]]:
        from ray.data import from_items
        from ray.exceptions import RayError

        rows = [{"number": number, "request": _as_json(request)} for number, request in enumerate(requests)]
        try:
            answered = self._build()(from_items(rows, override_num_blocks=-(-len(rows) // _BLOCK)))
            for row in rows_of(answered):
                request = requests[row["number"]]
                if fault := row["__inference_error__"]:
                    yield request, LLMError(f"{self.model}: vLLM refuses the request ({one_line(fault)})")
                    continue
                yield (
                    request,
                    Completion(
                        text=row["text"],
                        finish_reason=self._ending(request, row),
                        prompt_tokens=row["read"],
                        completion_tokens=row["written"],
                        seconds=row["seconds"],
                        model=self.model,
                    ),
                )
        except RayError as error:
            raise RarrgError(f"{self.model}: vLLM gave up on the cluster ({cause_of(error)})") from error

    def _ending(self, request: Request, row: dict[str, Any]) -> FinishReason:
        """Ray does not hand on why a reply ended; one that fills its limit or the context counts as cut."""
        full = row["written"] >= request.sampling.max_tokens or row["read"] + row["written"] >= self._context
        return "length" if full else "stop"


def _as_json(request: Request) -> str:
    """Text, because Arrow would give the schemas of all rows the same fields."""
    return json.dumps(
        {
            "messages": [asdict(message) for message in request.messages],
            "sampling": asdict(request.sampling),
            "schema": json.dumps(dict(request.schema)),
        }
    )


def _prepared(model: str, row: dict[str, Any]) -> dict[str, Any]:
    """A request as vLLM's stage takes it, on a machine of the cluster."""
    asked = json.loads(row["request"])
    # Bare ids: the template has written the beginning of the text, which a tokenizer would write once more.
    tokens = _tokenizer(model).apply_chat_template(
        asked["messages"], add_generation_prompt=True, tokenize=True, return_dict=False
    )
    sampling = {**asked["sampling"], "structured_outputs": {"json": asked["schema"]}}
    return {"number": row["number"], "tokenized_prompt": tokens, "sampling_params": sampling}


@lru_cache(maxsize=1)
def _tokenizer(model: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model)


def _answered(row: dict[str, Any]) -> dict[str, Any]:
    """What is read of vLLM's stage; a row with an error comes back as it is."""
    return {
        "number": row["number"],
        "text": row["generated_text"],
        "read": row["num_input_tokens"],
        "written": row["num_generated_tokens"],
        "seconds": row["time_taken_llm"],
    }
