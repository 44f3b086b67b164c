from __future__ import annotations

import dataclasses
import inspect
import sys
from types import ModuleType, SimpleNamespace
from unittest.mock import create_autospec

import pytest

from rarrg.errors import RarrgError
from rarrg.llm.backends import open_backend
from rarrg.llm.chat import Completion, LLMError, Message, Request, Sampling
from rarrg.llm.endpoints import EndpointPolicy
from rarrg.llm.vllm_model import VLLMModel
from rarrg.llm_config import LLMConfig

CONFIG = LLMConfig(model="some/model", context=2048, tensor_parallel=2, quantization="bitsandbytes", seed=7)
SCHEMA = {"type": "object", "properties": {"key_phrase": {"type": "array", "items": {"type": "string"}}}}


class Refusal(Exception):
    """Stands for the validation error of vLLM, which is no ValueError in later versions."""


class FakeLLM:
    """What we use of ``vllm.LLM``: answers with the last message, and refuses one that is too long."""

    def __init__(self, **settings):
        if settings["model"] == "absent":
            raise ValueError("no such\n  model")
        self.settings = settings
        self.chats = []
        self.replies_kept = 0
        self.refusal = Refusal

    def chat(self, messages, sampling_params, use_tqdm):
        assert use_tqdm is False
        self.chats.append((messages, sampling_params))
        if any(turns[-1]["content"] == "too long" for turns in messages):
            raise self.refusal("the prompt is longer\nthan 2048")
        return [output(turns[-1]["content"]) for turns in messages][self.replies_kept :]


def output(text: str, finish_reason: str = "stop") -> SimpleNamespace:
    reason = "length" if text == "cut" else "abort" if text == "aborted" else finish_reason
    reply = SimpleNamespace(text=text, token_ids=[1, 2], finish_reason=reason)
    return SimpleNamespace(outputs=[reply], prompt_token_ids=[1, 2, 3])


class Named(SimpleNamespace):
    """Keeps the keyword arguments it is made of."""


def stand_in(monkeypatch, generation: str) -> None:
    vllm, parameters, exceptions = ModuleType("vllm"), ModuleType("vllm.sampling_params"), None
    vllm.LLM, vllm.SamplingParams = FakeLLM, Named
    if generation == "new":
        parameters.StructuredOutputsParams = Named
        exceptions = ModuleType("vllm.exceptions")
        exceptions.VLLMClientError = Refusal
    else:
        parameters.GuidedDecodingParams = Named
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", parameters)
    monkeypatch.setitem(sys.modules, "vllm.exceptions", exceptions)


@pytest.fixture
def model(monkeypatch) -> VLLMModel:
    stand_in(monkeypatch, "new")
    model = open_backend(CONFIG, EndpointPolicy(credentialed=True))
    assert isinstance(model, VLLMModel)
    return model


def ask(text: str, **sampling) -> Request:
    return Request(text, (Message("system", "Be brief."), Message("user", text)), SCHEMA, Sampling(**sampling))


def texts(pairs) -> list[str]:
    return [reply.text if isinstance(reply, Completion) else "refused" for _, reply in pairs]


def test_settings_and_requests_reach_vllm(model):
    (request, reply), = model.complete([ask("hello", temperature=0.5, top_p=0.8, max_tokens=99, seed=3)])  # fmt: skip
    assert request.key == "hello"
    assert reply == Completion("hello", "stop", 3, 2, reply.seconds, "some/model (bitsandbytes)")
    assert model._llm.settings == {
        "model": "some/model", "quantization": "bitsandbytes", "max_model_len": 2048, "tensor_parallel_size": 2,
        "enable_prefix_caching": True, "seed": 7,
    }  # fmt: skip
    ((messages, parameters),) = model._llm.chats
    assert messages == [[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]]
    assert parameters == [
        Named(temperature=0.5, top_p=0.8, max_tokens=99, seed=3, structured_outputs=Named(json=SCHEMA))
    ]


def test_versions_before_structured_outputs(monkeypatch):
    stand_in(monkeypatch, "old")
    model = VLLMModel(CONFIG)
    model._llm.refusal = ValueError
    assert texts(model.complete([ask("hello"), ask("too long")])) == ["hello", "refused"]
    _, parameters = model._llm.chats[0]
    assert parameters[0].guided_decoding == Named(json=SCHEMA)
    assert not hasattr(parameters[0], "structured_outputs")


def test_requests_are_drawn_in_chunks_and_keep_their_order(model):
    drawn = []

    def requests():
        for number in range(2500):
            drawn.append(number)
            yield ask(str(number))

    replies = model.complete(requests())
    first = next(replies)
    assert len(drawn) == 1024
    assert texts([first, *replies]) == [str(number) for number in range(2500)]
    assert [len(messages) for messages, _ in model._llm.chats] == [1024, 1024, 452]
    assert list(model.complete([])) == []


def test_requests_that_come_up_while_others_are_answered(model):
    waiting = [ask("first")]

    class Queue:
        def __iter__(self):
            return self

        def __next__(self):
            if not waiting:
                raise StopIteration
            return waiting.pop()

    answered = []
    for request, _ in model.complete(Queue()):
        answered.append(request.key)
        if request.key == "first":
            waiting.append(ask("second"))
    assert answered == ["first", "second"]


def test_one_bad_prompt_fails_alone(model):
    asked = [ask(str(number)) for number in range(64)]
    asked[37] = ask("too long")
    pairs = list(model.complete(asked))
    assert [request.key for request, _ in pairs] == [request.key for request in asked]
    assert texts(pairs) == ["refused" if number == 37 else str(number) for number in range(64)]
    error = pairs[37][1]
    assert isinstance(error, LLMError)
    assert str(error) == "some/model (bitsandbytes): vLLM refuses the request (the prompt is longer than 2048)"
    assert len(model._llm.chats) == 13


def test_why_replies_ended(model):
    reasons = [reply.finish_reason for _, reply in model.complete([ask("whole"), ask("cut"), ask("aborted")])]
    assert reasons == ["stop", "length", "other"]


def test_replies_that_do_not_match_the_requests_are_not_taken(model):
    model._llm.replies_kept = 1
    with pytest.raises(RarrgError, match="1 replies to 2 requests"):
        list(model.complete([ask("a"), ask("b")]))


def test_a_broken_engine_is_no_bad_prompt(model):
    model._llm.refusal = KeyError
    with pytest.raises(KeyError):
        list(model.complete([ask("too long")]))


def test_vllm_that_is_not_there_or_cannot_load(monkeypatch):
    stand_in(monkeypatch, "new")
    with pytest.raises(RarrgError, match=r"^absent: vLLM cannot load it \(no such model\)$"):
        VLLMModel(LLMConfig(model="absent"))
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(RarrgError, match=r"some/model: .*pip install 'rarrg\[vllm\]'"):
        VLLMModel(CONFIG)


def test_our_calls_fit_the_installed_vllm(monkeypatch):
    vllm = pytest.importorskip("vllm", reason="vLLM is not installed; it needs an environment of its own")
    from vllm.engine.arg_utils import EngineArgs
    from vllm.sampling_params import StructuredOutputsParams

    made = create_autospec(vllm.LLM)  # refuses arguments that the real signatures do not have
    monkeypatch.setattr(vllm, "LLM", made)
    made.return_value.chat.side_effect = lambda messages, **_: [output(turns[-1]["content"]) for turns in messages]
    model = VLLMModel(CONFIG)
    assert texts(model.complete([ask("a", seed=3), ask("b")])) == ["a", "b"]
    settings = made.call_args.kwargs  # most go through **kwargs to EngineArgs
    assert set(settings) <= {field.name for field in dataclasses.fields(EngineArgs)}
    parameters = made.return_value.chat.call_args.kwargs["sampling_params"][0]
    assert isinstance(parameters, vllm.SamplingParams)
    assert (parameters.max_tokens, parameters.top_p, parameters.seed) == (1024, 0.9, 3)
    assert parameters.structured_outputs == StructuredOutputsParams(json=SCHEMA)


def test_our_refusals_are_those_of_the_installed_vllm(monkeypatch):
    vllm = pytest.importorskip("vllm", reason="vLLM is not installed; it needs an environment of its own")
    monkeypatch.setattr(vllm, "LLM", create_autospec(vllm.LLM))
    model = VLLMModel(CONFIG)
    # A nucleus of 2 stands for whatever vLLM refuses.
    ((_, error),) = model.complete([ask("a", top_p=2.0)])
    assert isinstance(error, LLMError)


def test_outputs_of_the_installed_vllm_have_what_we_read():
    pytest.importorskip("vllm", reason="vLLM is not installed; it needs an environment of its own")
    from vllm.outputs import CompletionOutput, RequestOutput

    assert {"outputs", "prompt_token_ids"} <= set(inspect.signature(RequestOutput).parameters)
    assert {"text", "token_ids", "finish_reason"} <= set(inspect.signature(CompletionOutput).parameters)
