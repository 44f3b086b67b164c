from __future__ import annotations

import dataclasses
import itertools
import json
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rarrg.errors import RarrgError
from rarrg.llm.chat import Completion, LLMError, Message, Request, Sampling
from rarrg.llm.endpoints import EndpointPolicy
from rarrg.llm.openai_server import OpenAIServer
from rarrg.llm.response_format import strict_schema
from rarrg.llm_config import LLMConfig
from tests.llm.scripted_server import Fault, ScriptedServer, scripted_server

KEY = "sk-very-secret-0123456789"
SCHEMA = {"type": "object", "properties": {"key_phrase": {"type": "array", "items": {"type": "string"}}}}
FOR_EVER = -1


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "TEST_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def plain() -> Iterator[ScriptedServer]:
    with scripted_server() as server:
        yield server


@pytest.fixture(autouse=True, params=[True, False], ids=["guarded", "open"])
def credentialed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentialed text goes through a transport of its own."""
    monkeypatch.setitem(POLICY, "credentialed", request.param)


POLICY = {"credentialed": True}


def backend(url: str, retries: int = 0, hear: Callable[[str], None] | None = None, **config: Any) -> OpenAIServer:
    given: dict[str, Any] = {"model": "scripted", "api_key_env": "TEST_KEY", "concurrency": 4, "timeout": 5.0}
    llm = LLMConfig(backend="openai", base_url=url, **{**given, **config})
    return OpenAIServer(llm, EndpointPolicy(POLICY["credentialed"]), retries, hear)


def request(text: str, **sampling: Any) -> Request:
    return Request(text, (Message("system", "s"), Message("user", text)), SCHEMA, Sampling(**sampling))


def requests(texts: str) -> list[Request]:
    return [request(text) for text in texts.split()]


def endless() -> Iterator[Request]:
    return (request(f"r{number}") for number in itertools.count())


def results(server: OpenAIServer, given: list[Request]) -> dict[str, Completion | LLMError]:
    return {request.key: result for request, result in server.complete(given)}


def client_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "rarrg-openai"]


def test_a_reply_is_heard_as_it_is_written(plain: ScriptedServer) -> None:
    heard: list[str] = []
    ((_, told),) = backend(plain.url, hear=heard.append).complete([request("Small effusion. No pneumothorax.")])
    ((_, whole),) = backend(plain.url).complete([request("Small effusion. No pneumothorax.")])
    assert isinstance(told, Completion)
    assert isinstance(whole, Completion)
    assert dataclasses.replace(told, seconds=0) == dataclasses.replace(whole, seconds=0)
    assert heard[0] == ""
    assert len(heard) > 3
    assert "".join(heard) == told.text


def chunk(**said: Any) -> str:
    return f"data: {json.dumps({'id': '1', 'object': 'chat.completion.chunk', 'created': 1, 'model': 'm', **said})}\n\n"


def said(text: str | None, finish: str | None = None) -> str:
    return chunk(choices=[{"index": 0, "delta": {"content": text}, "finish_reason": finish}])


REPLY = said('{"key_phrase": ') + said('["effusion"]}') + said(None, "stop")


@pytest.mark.parametrize(
    "events",
    [
        REPLY,  # no [DONE]
        f": waiting\n\n{REPLY}data: [DONE]\n\n".replace("\n", "\r\n"),
        chunk(choices=None) + chunk(choices=[{"index": 0, "delta": None}]) + REPLY,
        chunk(usage={"prompt_tokens": 7}) + REPLY,
    ],
    ids=["no end", "comments and CRLF", "nulls", "half of the usage"],
)
def test_what_servers_do_to_a_stream_is_read(events: str) -> None:
    heard: list[str] = []
    with scripted_server([Fault("events", text=events)]) as server:
        ((_, told),) = backend(server.url, hear=heard.append).complete([request("effusion")])
        assert [bool(entry["body"].get("stream")) for entry in server.log()] == [True]
    assert isinstance(told, Completion)
    assert "".join(heard) == told.text == '{"key_phrase": ["effusion"]}'
    assert told.finish_reason == "stop"


@pytest.mark.parametrize(
    "events",
    [
        "",
        said("{") + "data: {half\n\n",
        said("{") + "data: \udcff\n\n",
        "data: [1]\n\n",
        'event: error\ndata: {"message": "out of memory"}\n\n',
        '{"choices": [{"message": {"content": "whole"}}]}',
        "<html>a page</html>",
    ],
    ids=["nothing", "no JSON", "no UTF-8", "no object", "another shape", "a whole reply", "a page"],
)
def test_a_server_whose_stream_cannot_be_read_is_asked_for_whole_replies(events: str) -> None:
    with scripted_server([Fault("events", text=events, times=FOR_EVER)]) as server:
        asking = backend(server.url, concurrency=1, hear=lambda piece: None).complete(requests("effusion edema"))
        told = [answer for _, answer in asking]
        assert [bool(entry["body"].get("stream")) for entry in server.log()] == [True, False, False]
    assert [answer.text for answer in told if isinstance(answer, Completion)] == [
        '{"key_phrase": ["effusion"]}',
        '{"key_phrase": ["edema"]}',
    ]


def test_a_page_in_place_of_a_stream_is_said() -> None:
    with scripted_server([Fault("garbage", times=FOR_EVER)]) as server:
        ((_, told),) = backend(server.url, hear=lambda piece: None).complete(requests("effusion"))
    assert "its answer is no chat completion; check llm.base_url, which usually ends in /v1" in str(told)


def test_each_request_gets_its_own_reply(plain: ScriptedServer) -> None:
    given = [request(f"Sentence {number}.") for number in range(50)]
    found = results(backend(plain.url), given)
    assert len(found) == 50
    for text, result in found.items():
        assert isinstance(result, Completion)
        assert json.loads(result.text) == {"key_phrase": [text.removesuffix(".")]}
        assert (result.finish_reason, result.prompt_tokens, result.completion_tokens) == ("stop", 7, 3)
        assert result.model == "scripted-1"
        assert 0 < result.seconds < 5
    assert client_threads() == []


def test_sampling_and_strict_schema_are_sent() -> None:
    with scripted_server() as server:
        results(backend(server.url), [request("a", temperature=0.1, top_p=0.5, max_tokens=9, seed=3)])
        body = server.log()[0]["body"]
    assert {key: body[key] for key in ("temperature", "top_p", "max_tokens", "seed", "model")} == {
        "temperature": 0.1,
        "top_p": 0.5,
        "max_tokens": 9,
        "seed": 3,
        "model": "scripted",
    }
    assert body["messages"] == [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}]
    assert body["response_format"]["type"] == "json_schema"
    assert body["response_format"]["json_schema"]["strict"] is True
    assert body["response_format"]["json_schema"]["schema"] == {
        **SCHEMA,
        "required": ["key_phrase"],
        "additionalProperties": False,
    }


def test_strict_schema_reaches_every_object() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "object", "properties": {"b": {"$ref": "#/$defs/c"}}}}},
        "$defs": {"c": {"anyOf": [{"type": "object", "properties": {"properties": {"type": "string"}}}]}},
    }
    closed = {"additionalProperties": False}
    assert strict_schema(schema) == {
        "type": "object",
        "properties": {
            "a": {
                "type": "array",
                "items": {"type": "object", "properties": {"b": {"$ref": "#/$defs/c"}}, "required": ["b"], **closed},
            }
        },
        "required": ["a"],
        **closed,
        "$defs": {
            "c": {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {"properties": {"type": "string"}},
                        "required": ["properties"],
                        **closed,
                    }
                ]
            }
        },
    }


def test_requests_are_drawn_as_there_is_room_and_the_rest_is_dropped_when_the_caller_stops() -> None:
    drawn: list[Request] = []

    def source() -> Iterator[Request]:
        for each in endless():
            drawn.append(each)
            yield each

    with scripted_server(delay=0.02) as server:
        stream = backend(server.url, concurrency=3).complete(source())
        next(stream)
        assert len(drawn) == 1  # the first goes alone
        for _ in range(20):
            next(stream)
        assert len(drawn) <= 21 + 3
        stream.close()
        assert client_threads() == []


def test_concurrency_is_used() -> None:
    with scripted_server(delay=0.1) as server:
        started = time.perf_counter()
        assert len(results(backend(server.url, concurrency=20), [request(str(number)) for number in range(41)])) == 41
        assert time.perf_counter() - started < 1.5  # one after the other: 4.1 s


def test_an_interrupt_leaves_nothing_behind(plain: ScriptedServer) -> None:
    stream = backend(plain.url).complete(endless())
    next(stream)
    with pytest.raises(KeyboardInterrupt):
        stream.throw(KeyboardInterrupt())  # type: ignore[attr-defined]
    assert client_threads() == []

    def interrupted() -> Iterator[Request]:
        yield request("a")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(backend(plain.url).complete(interrupted()))
    assert client_threads() == []


def test_a_backend_can_be_used_again(plain: ScriptedServer) -> None:
    server = backend(plain.url)
    for _ in range(2):
        assert all(isinstance(result, Completion) for result in results(server, requests("a b c")).values())


@pytest.mark.parametrize(
    "fault",
    [
        Fault("status", status=429, headers={"Retry-After": "0.01"}, times=2),
        Fault("status", status=500, headers={"Retry-After": "0.01"}, times=2),
        Fault("status", status=503),
        Fault("drop"),
        Fault("silence"),
    ],
    ids=lambda fault: f"{fault.kind} {fault.status}",
)
def test_what_may_pass_is_tried_again(fault: Fault) -> None:
    with scripted_server([fault]) as server:
        (result,) = results(backend(server.url, retries=2, timeout=0.5), requests("a")).values()
        assert isinstance(result, Completion)
        assert [entry["outcome"] for entry in server.log()] == [fault.kind] * fault.times + ["answered"]


def test_retry_after_is_honoured() -> None:
    fault = Fault("status", status=429, headers={"Retry-After": "1.2"})
    with scripted_server([fault]) as server:
        started = time.perf_counter()
        results(backend(server.url, retries=1), requests("a"))
        assert time.perf_counter() - started > 1.2  # without it: at most 0.5 s


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault("status", "bad", FOR_EVER, 500), "answered with an error (500: scripted fault)"),
        (Fault("status", "bad", FOR_EVER, 429), "too many requests"),
        (Fault("status", "bad", FOR_EVER, 400, text="the prompt is\ntoo long"), "(400: the prompt is too long)"),
        (Fault("status", "bad", FOR_EVER, 403, text="flagged"), "does not allow this"),
        (Fault("silence", "bad", FOR_EVER), "no answer in 0.5 s"),
        (Fault("drop", "bad", FOR_EVER), "cannot be reached"),
        (Fault("garbage", "bad", FOR_EVER), "no chat completion"),
    ],
    ids=lambda value: f"{value.kind} {value.status}" if isinstance(value, Fault) else "",
)
def test_one_request_that_fails_takes_no_other_with_it(fault: Fault, message: str) -> None:
    with scripted_server([fault]) as server:
        found = results(backend(server.url, timeout=0.5), requests("a bad b c"))
        error = found.pop("bad")
        assert all(isinstance(result, Completion) for result in found.values())
        assert isinstance(error, LLMError)
        assert message in str(error)
        assert str(error).startswith(f"{server.url}, model scripted: ")
        assert "\n" not in str(error)


def test_a_cut_reply_says_so() -> None:
    with scripted_server([Fault("half")]) as server:
        (result,) = results(backend(server.url), requests("a")).values()
        assert isinstance(result, Completion)
        assert result.finish_reason == "length"


@pytest.mark.parametrize("refuses", [["json_schema"], ["json_schema", "json_object"]])
def test_a_refused_response_format_is_given_up_once_and_for_all(refuses: list[str]) -> None:
    with scripted_server(refuses=refuses) as server:
        one = backend(server.url)
        for _ in range(2):
            found = results(one, [request(str(number)) for number in range(10)])
            assert all(isinstance(result, Completion) for result in found.values())
        log = server.log()
        assert len(log) == 20 + len(refuses)
        formats = [(entry["body"].get("response_format") or {"type": "text"})["type"] for entry in log]
        assert formats[: len(refuses) + 1] == [*refuses, "json_object" if len(refuses) == 1 else "text"]
        assert len(set(formats[len(refuses) :])) == 1


def test_requests_that_are_refused_together_go_on_to_the_next_format_together() -> None:
    fault = Fault("status", "bad", 1, 400)  # so that the first request does not settle the format for the others
    with scripted_server([fault], refuses=["json_schema"], delay=0.05) as server:
        found = results(backend(server.url), requests("bad a b c d"))
        assert sum(isinstance(result, Completion) for result in found.values()) == 4
        formats = [entry["body"]["response_format"]["type"] for entry in server.log()]
        assert formats == ["json_schema"] * 5 + ["json_object"] * 4


def test_a_bad_request_of_a_server_that_knows_schemas_changes_no_mode() -> None:
    fault = Fault("status", "bad", 1, 400, text="json_schema: odd")
    with scripted_server([fault]) as server:
        found = results(backend(server.url), requests("a bad b c d"))
        assert isinstance(found["bad"], LLMError)
        assert {entry["body"]["response_format"]["type"] for entry in server.log()} == {"json_schema"}


def failure(server: OpenAIServer) -> str:
    """The error that ends a run over endless requests; the key is nowhere in it."""
    with pytest.raises(LLMError) as caught:
        for _ in server.complete(endless()):
            pass
    assert client_threads() == []
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(server)
    error: BaseException | None = caught.value
    while error is not None:
        shown += repr(error) + repr(error.__dict__)
        error = error.__cause__ or error.__context__
    assert KEY not in shown
    return str(caught.value)


def test_a_wrong_key_ends_the_run_and_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted_server(api_key="another") as server:
        assert "wants a key; put it into TEST_KEY" in failure(backend(server.url))
        monkeypatch.setenv("TEST_KEY", KEY)
        message = failure(backend(server.url))
        assert "refuses the key in TEST_KEY (401: wrong key: Bearer ***)" in message
        assert f"{server.url}, model scripted" in message
        assert [entry["headers"]["authorization"] for entry in server.log()] == ["Bearer none", f"Bearer {KEY}"]


def test_the_right_key_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", KEY)
    with scripted_server([Fault("status", "bad", FOR_EVER, 500, text=f"key {KEY} tired")], api_key=KEY) as server:
        found = results(backend(server.url), requests("a bad"))
        assert isinstance(found["a"], Completion)
        assert "key *** tired" in repr(found["bad"])


def test_a_wrong_model_or_path_ends_the_run_at_once() -> None:
    with scripted_server() as server:
        assert "model other: knows no such model or path" in failure(backend(server.url, model="other"))
        assert "llm.base_url" in failure(backend(server.url.removesuffix("/v1")))
        assert len(server.log()) == 2


def test_no_server_ends_the_run() -> None:
    with scripted_server() as server:
        url = server.url
    assert "cannot be reached" in failure(backend(url))
    assert "start the server" in failure(backend(url, retries=1))


def test_a_url_is_shown_without_what_is_secret_in_it() -> None:
    with scripted_server() as server:
        url = server.url
    message = failure(backend(url.replace("http://", f"http://me:{KEY}@") + f"?key={KEY}"))
    assert message.startswith(f"{url}, model")


def test_many_failures_in_a_row_end_the_run() -> None:
    faults = [Fault("status", "broken", FOR_EVER, 500)]
    given = itertools.chain(requests("a b c"), (request(f"broken {number}") for number in itertools.count()))
    with scripted_server(faults) as server:
        found: list[Any] = []
        with pytest.raises(LLMError, match=r"model scripted: .*500.*; 16 requests in a row failed"):
            found.extend(backend(server.url).complete(given))
        assert len(server.log()) <= 3 + 16 + 4


def test_replies_under_way_come_out_before_the_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POLICY, "credentialed", True)
    faults = [Fault("redirect", "bad", FOR_EVER, 307, location="http://0.0.0.0:1/")]
    found: list[tuple[Request, Completion | LLMError]] = []
    with scripted_server(faults, delay=0.1) as server, pytest.raises(LLMError, match="--allow-host"):
        found.extend(backend(server.url).complete(itertools.chain(requests("a bad b c"), endless())))
    assert all(isinstance(result, Completion) for _, result in found)
    assert found[0][0].key == "a"
    assert {"b", "c"} <= {each.key for each, _ in found}


def test_a_url_is_needed() -> None:
    with pytest.raises(RarrgError, match=r"llm\.base_url"):
        OpenAIServer(LLMConfig(base_url=None), EndpointPolicy(False))
