"""vLLM on a Ray cluster: a stand-in for its engine everywhere, and the engine itself where vLLM is installed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rarrg.cluster import Cluster
from rarrg.errors import RarrgError
from rarrg.llm.chat import Completion, LLMError, Message, Request, Sampling
from rarrg.llm.vllm_model import VLLMModel
from rarrg.llm.vllm_on_ray import VLLMOnRay
from rarrg.llm_config import LLMConfig
from tests.llm.tiny_llama import build

pytest.importorskip("ray", reason="needs rarrg[ray]")

pytestmark = pytest.mark.slow

SCHEMA = {"type": "object", "properties": {"key_phrase": {"type": "array", "items": {"type": "string"}}}}
OTHER = {"type": "object", "properties": {"report": {"type": "string"}}}
CONTEXT = 192


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("llm"), hidden=64)


@pytest.fixture
def cluster(monkeypatch) -> Iterator[Cluster]:
    # Workers import the code of these tests, and vLLM on a processor takes memory for as many tokens.
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    monkeypatch.setenv("VLLM_NO_USAGE_STATS", "1")
    with Cluster("local") as connected:
        yield connected


def configured(folder: Path) -> LLMConfig:
    return LLMConfig(backend="vllm", model=str(folder), context=CONTEXT)


def ask(text: str, schema: dict[str, Any] = SCHEMA, **sampling: Any) -> Request:
    return Request(
        text, (Message("user", text),), schema, Sampling(**{"temperature": 0.0, "max_tokens": 40, **sampling})
    )


def requests(count: int) -> list[Request]:
    """Of two schemas and several lengths; the fourth is too long."""
    asked = [
        ask(f"report {number}", OTHER if number % 3 else SCHEMA, max_tokens=20 + number) for number in range(count)
    ]
    asked[3] = ask("lungs " * CONTEXT)
    return asked


def fake_engine(row: dict[str, Any]) -> dict[str, Any]:
    """What vLLM's stage takes and gives: says what it was asked, as long as that may be."""
    sampling, tokens = row["sampling_params"], list(row["tokenized_prompt"])
    if len(tokens) > CONTEXT:
        return {**row, "generated_text": "", "__inference_error__": "ValueError: the prompt\nis too long"}
    return {
        **row,
        "generated_text": json.dumps({**sampling, "tokens": tokens}),
        "num_input_tokens": len(tokens),
        "num_generated_tokens": sampling["max_tokens"] - sampling["max_tokens"] % 2,
        "time_taken_llm": 0.5,
        "__inference_error__": "",
    }


def stand_in(config: Any, preprocess: Callable, postprocess: Callable) -> Callable:
    """What Ray's ``build_processor`` gives, with the fake for the engine; the configuration is a real one."""
    assert config.model_source

    def work(row: dict[str, Any]) -> dict[str, Any]:
        found = fake_engine(preprocess(row))
        if found["__inference_error__"]:
            return found
        return {**postprocess(found), "__inference_error__": ""}

    return lambda data: data.map(work)


def test_requests_reach_the_engine_and_replies_come_back_in_order(cluster, folder, monkeypatch):
    monkeypatch.setattr("ray.data.llm.build_processor", stand_in)
    asked = requests(200)
    model = VLLMOnRay(configured(folder), 1, on_gpus=False)
    pairs = list(model.complete(iter(asked)))
    assert [request for request, _ in pairs] == asked
    assert isinstance(pairs[3][1], LLMError)
    assert str(pairs[3][1]) == f"{model.model}: vLLM refuses the request (ValueError: the prompt is too long)"

    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    for number, (request, reply) in enumerate(pairs):
        if number == 3:
            continue
        assert isinstance(reply, Completion)
        said = json.loads(reply.text)
        assert json.loads(said.pop("structured_outputs")["json"]) == request.schema
        prompt = f"<|turn|>user:{request.key}<|end|><|turn|>assistant:"
        tokens = said.pop("tokens")
        assert tokenizer.decode(tokens) == prompt
        limit = 20 + number
        assert said == {"temperature": 0.0, "top_p": 0.9, "max_tokens": limit, "seed": 0}
        cut = limit % 2 == 0 or len(tokens) + reply.completion_tokens >= CONTEXT
        assert reply.finish_reason == ("length" if cut else "stop")
        assert (reply.completion_tokens, reply.seconds, reply.model) == (limit - limit % 2, 0.5, model.model)
    assert list(model.complete([])) == []


def test_engines_take_the_gpus_of_the_model(folder, monkeypatch):
    made: list[Any] = []
    monkeypatch.setattr("ray.data.llm.build_processor", lambda config, **_: made.append(config))
    config = LLMConfig(model=str(folder), context=2048, tensor_parallel=4, quantization="bitsandbytes", seed=7)
    for on_gpus, engines in ((True, 3), (False, 1)):
        VLLMOnRay(config, engines, on_gpus)._build()
    on_gpus, on_cores = made
    assert on_gpus.placement_group_config["bundles"] == [{"GPU": 1, "CPU": 1}] * 4
    assert on_cores.placement_group_config["bundles"] == [{"CPU": 1, "GPU": 0}] * 4
    assert (on_gpus.concurrency, on_cores.concurrency) == ((1, 3), (1, 1))
    assert on_gpus.model_source == str(folder)
    assert on_gpus.engine_kwargs == {
        "distributed_executor_backend": "mp",
        "quantization": "bitsandbytes", "max_model_len": 2048, "tensor_parallel_size": 4,
        "enable_prefix_caching": True, "seed": 7, "task_type": "generate",
    }  # fmt: skip
    # As many requests at once as vLLM batches on a large GPU.
    assert on_gpus.batch_size * on_gpus.max_concurrent_batches == 1024


def test_a_model_that_is_not_there_is_one_line(cluster, folder, tmp_path):
    model = VLLMOnRay(configured(tmp_path / "absent"), 1, on_gpus=False)
    with pytest.raises(
        RarrgError, match=r"absent: vLLM gave up on the cluster \([\w.]*(Error|Exception): .+\)$"
    ) as caught:
        list(model.complete([ask("lungs")]))
    assert "\n" not in str(caught.value)


def test_an_engine_that_does_not_start_is_one_line(cluster, folder, tmp_path):
    torn = shutil.copytree(folder, tmp_path / "torn")
    (torn / "model.safetensors").write_bytes(b"no weights")
    # Without vLLM it is that which is missing.
    with pytest.raises(
        RarrgError, match=r"^torn@\w+: vLLM gave up on the cluster \(\w*(Error|Exception): .+\)$"
    ) as caught:
        list(VLLMOnRay(configured(torn), 1, on_gpus=False).complete([ask("lungs")]))
    assert "\n" not in str(caught.value)


def test_a_pipeline_takes_so_many_requests_and_no_more(cluster, folder, monkeypatch):
    monkeypatch.setattr("ray.data.llm.build_processor", stand_in)
    monkeypatch.setattr("rarrg.llm.vllm_on_ray._CHUNK", 5)
    drawn: list[int] = []

    def source() -> Iterator[Request]:
        for number in range(12):
            drawn.append(number)
            yield ask(f"report {number}")

    replies = VLLMOnRay(configured(folder), 1, on_gpus=False).complete(source())
    next(replies)
    assert len(drawn) == 5
    assert len(list(replies)) == 11
    assert drawn == list(range(12))


def test_replies_of_vllm_are_those_of_vllm_in_this_process(cluster, folder):
    pytest.importorskip("vllm", reason="vLLM is not installed; it needs an environment of its own")
    asked = requests(24)
    there = list(VLLMOnRay(configured(folder), 1, on_gpus=False).complete(asked))
    here = list(VLLMModel(configured(folder)).complete(asked))
    assert [request for request, _ in there] == [request for request, _ in here] == asked
    for number, ((_, far), (_, near)) in enumerate(zip(there, here, strict=True)):
        if number == 3:
            assert isinstance(far, LLMError)
            assert isinstance(near, LLMError)
            continue
        assert isinstance(far, Completion)
        assert isinstance(near, Completion)
        assert far.text == near.text
        assert (far.prompt_tokens, far.completion_tokens) == (near.prompt_tokens, near.completion_tokens)
        assert (far.finish_reason, far.model) == (near.finish_reason, near.model)
