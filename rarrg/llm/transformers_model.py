"""Chat models that transformers runs in this process: hub models, folders and GGUF files, on a GPU or on the CPU."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from jinja2 import TemplateError

from rarrg.errors import RarrgError
from rarrg.hub import LOAD_ERRORS, first_line, unavailable
from rarrg.llm.chat import Completion, LLMError, Message, Request, model_name
from rarrg.llm_config import LLMConfig

# In the place of a user's turn it shows which tokens of a prompt come before that turn; no turn begins with it.
_PROBE = "\N{REPLACEMENT CHARACTER}"


class TransformersModel:
    """A causal language model with a chat template; xgrammar holds its replies to the request's JSON schema.

    Requests are answered one after the other: in a batch, the padding changes the sums by their last bits, and a
    sampled reply would depend on its neighbours. The same request gives the same reply on the same machine, whatever
    was asked before it. For many reports take ``vllm`` or a server.

    A system prompt is read once and its keys and values are kept for the next request that has the same one, as
    https://huggingface.co/docs/transformers/kv_cache describes. Weights are bfloat16 on a GPU, float32 on the CPU.

    Args:
        config: ``model`` is a hub id, a local folder or a ``.gguf`` file.
        hear: Gets each piece of a reply as it is written; an empty text begins a reply.

    Attributes:
        model: The model's name, for one from the hub with its commit, for a local one with a digest of its files.

    Raises:
        RarrgError: The model or a package cannot be had, or the model has no chat template or no end token.
    """

    def __init__(self, config: LLMConfig, hear: Callable[[str], None] | None = None) -> None:
        from transformers import GenerationConfig

        try:
            from xgrammar import GrammarCompiler, TokenizerInfo
        except ImportError as error:
            raise RarrgError("llm.backend=transformers needs xgrammar; pip install 'rarrg[llm]'") from error

        self._tokenizer, self._model = _load(config.model)
        commit = getattr(self._model.config, "_commit_hash", None)
        self.model = f"{config.model}@{commit}" if commit else model_name(config.model)
        if not self._tokenizer.chat_template:
            raise RarrgError(f"{config.model}: has no chat template; take its instruct version")
        self._ends = _end_tokens(self._tokenizer, self._model)
        if not self._ends:
            raise RarrgError(f"{config.model}: names no token that ends a reply; take its instruct version")
        text_config = self._model.config.get_text_config()
        self._context: int | None = getattr(text_config, "max_position_embeddings", None)
        # The model's own settings of sampling would be mixed into each request's.
        self._model.generation_config = GenerationConfig(eos_token_id=self._ends, pad_token_id=self._ends[0])
        # The logits are as many as the model's vocabulary, which is often padded beyond the tokenizer's. The compiler
        # keeps what it compiled, so a schema is compiled once.
        self._compiler = GrammarCompiler(
            TokenizerInfo.from_huggingface(
                self._tokenizer, vocab_size=text_config.vocab_size, stop_token_ids=self._ends
            )
        )
        self._hear = hear
        self._prefix: list[int] = []
        self._prefix_cache: Any = None

    def complete(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Completion | LLMError]]:
        """Answer requests one after the other, in their order; see ``Backend.complete``."""
        for request in requests:
            yield request, self._reply(request)

    def _reply(self, request: Request) -> Completion | LLMError:
        from xgrammar.contrib.hf import LogitsProcessor

        start = time.perf_counter()
        sampling = request.sampling
        try:
            ids = self._tokens(request.messages)
            shared = self._shared(request.messages, ids)
        except TemplateError as error:
            return LLMError(f"{self.model}: its chat template refuses the messages ({first_line(error)})")
        longest = sampling.max_tokens
        if self._context is not None:
            longest = min(longest, self._context - len(ids))
            if longest < 1:
                return LLMError(
                    f"{self.model}: the prompt has {len(ids)} tokens and the model reads {self._context}; "
                    "take a model with a longer context"
                )
        # Without spaces to choose, since small models are apt to go on with them to the end.
        grammar = self._compiler.compile_json_schema(json.dumps(request.schema), any_whitespace=False)
        draw: dict[str, Any] = {"do_sample": False}
        if sampling.temperature > 0:
            draw = {"do_sample": True, "temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": 0}
        with torch.inference_mode(), torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(sampling.seed)
            prompt = self._tensor(ids)
            output = self._model.generate(
                input_ids=prompt,
                attention_mask=torch.ones_like(prompt),
                past_key_values=self._read(shared),
                max_new_tokens=longest,
                logits_processor=[LogitsProcessor(grammar)],  # one serves a single call
                streamer=None if self._hear is None else self._streamer(self._hear),
                **draw,
            )
        reply = output[0, len(ids) :].tolist()
        ended = reply[-1] in self._ends
        said = reply[:-1] if ended else reply
        return Completion(
            # Cleaning up would take spaces out of the JSON strings.
            text=self._tokenizer.decode(said, skip_special_tokens=True, clean_up_tokenization_spaces=False),
            finish_reason="stop" if ended else "length",
            prompt_tokens=len(ids),
            completion_tokens=len(reply),
            seconds=time.perf_counter() - start,
            model=self.model,
        )

    def _streamer(self, hear: Callable[[str], None]) -> Any:
        from transformers import TextStreamer

        class Streamer(TextStreamer):
            def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
                if text:
                    hear(text)

        hear("")
        return Streamer(self._tokenizer, skip_prompt=True, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def _tokens(self, messages: Sequence[Message]) -> list[int]:
        turns = [{"role": message.role, "content": message.content} for message in messages]
        text = self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def _shared(self, messages: Sequence[Message], ids: list[int]) -> list[int]:
        """Tokens of the system prompt, up to the first that depends on the user's turn; never all of the prompt."""
        if messages[0].role != "system":
            return []
        probe = self._tokens([messages[0], Message("user", _PROBE)])
        length = 0
        while length < min(len(probe), len(ids) - 1) and probe[length] == ids[length]:
            length += 1
        return ids[:length]

    def _read(self, prefix: list[int]) -> Any:
        """Keys and values of a prompt's beginning, for ``generate`` to write on; None for an empty one.

        A prompt is read in the same two parts whether or not the first is at hand: read in one, its sums differ in
        their last bits, and the reply would depend on what was asked before.
        """
        if not prefix:
            return None
        if prefix != self._prefix:
            self._prefix, self._prefix_cache = prefix, None  # the old one's memory is free before the new one needs it
            output = self._model.base_model(input_ids=self._tensor(prefix), use_cache=True)
            self._prefix_cache = output.get("past_key_values")  # None for models that keep no keys
        return copy.deepcopy(self._prefix_cache)

    def _tensor(self, ids: list[int]) -> torch.Tensor:
        return torch.tensor([ids], device=self._model.device)


def _load(name: str) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path = Path(name).expanduser()
    source, options = name, {}
    local = path.suffix == ".gguf" or path.is_dir()
    if path.suffix == ".gguf":
        if not path.is_file():
            raise RarrgError(f"{name}: there is no such file; llm.model names a local .gguf file")
        source, options = str(path.parent), {"gguf_file": path.name}
    elif path.is_dir():
        if not (path / "config.json").is_file():
            raise RarrgError(f"{name}: the folder holds no transformers model (no config.json)")
        source = str(path)
    gpu = torch.cuda.is_available()
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        model = AutoModelForCausalLM.from_pretrained(
            source,
            dtype=torch.bfloat16 if gpu else torch.float32,
            device_map="auto" if gpu else None,
            **options,
        )
    except ImportError as error:
        raise RarrgError(f"{name}: lacks a package ({first_line(error)}); pip install 'rarrg[llm]'") from error
    except LOAD_ERRORS as error:
        if local:
            raise RarrgError(f"{name}: holds no chat model that transformers reads ({first_line(error)})") from error
        raise unavailable(name, error, "a local folder or .gguf file") from error
    return tokenizer, model.eval()


def _end_tokens(tokenizer: Any, model: Any) -> list[int]:
    # The model's own come first: chat models end a turn with another token than the tokenizer's end of text.
    ends = model.generation_config.eos_token_id
    if ends is None:
        ends = tokenizer.eos_token_id
    if ends is None:
        return []
    return list(ends) if isinstance(ends, (list, tuple)) else [ends]
