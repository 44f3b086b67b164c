"""A scripted OpenAI-compatible server in a process of its own, for tests of whatever asks one.

Standard library only. In a test::

    with scripted_server(faults=[Fault("status", match="effusion", status=500)]) as server:
        ...                                # ask server.url
        assert server.counts() == {"Small effusion.": 1}

Without faults it answers every chat with the sentences of its input, ``{"key_phrase": [...]}``, or, where the schema
asks for a report, ``{"report": "..."}``.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

MODEL = "scripted"


@dataclass(frozen=True)
class Fault:
    """What goes wrong with the requests whose input holds ``match``.

    Attributes:
        kind: ``status`` answers with an HTTP error; ``silence`` never answers; ``drop`` closes the connection;
            ``garbage`` sends a body that is no JSON; ``half`` sends half the right reply, cut at the token limit;
            ``example`` copies the first object with key phrases that the prompt holds; ``say`` sends ``text`` as the
            reply; ``events`` answers those who want a stream with ``text`` as its body, and others rightly;
            ``redirect`` sends the client to ``location``.
        match: Text in the input; empty for every request.
        times: How often, counted over all requests that match; -1 for ever.
        status: For ``status`` and ``redirect``.
        headers: More headers, as Retry-After.
        text: For ``say`` and ``events``; for ``status`` the server's message.
        location: For ``redirect``.
    """

    kind: Literal["status", "silence", "drop", "garbage", "half", "example", "say", "events", "redirect"]
    match: str = ""
    times: int = 1
    status: int = 500
    headers: dict[str, str] = field(default_factory=dict)
    text: str = ""
    location: str = ""


@dataclass(frozen=True)
class Script:
    """How the server behaves.

    Attributes:
        faults: The first that matches and has times left decides; without one the reply is right.
        refuses: Types of ``response_format`` that are answered with 400.
        api_key: Key that every request must carry; None takes all.
        delay: Seconds before every answer.
        host: Address to listen on.
        keep_log: Keep every request for ``log``; false for so many that memory would not hold them.
    """

    faults: tuple[Fault, ...] = ()
    refuses: tuple[str, ...] = ()
    api_key: str | None = None
    delay: float = 0.0
    host: str = "127.0.0.1"
    keep_log: bool = True


@dataclass(frozen=True)
class ScriptedServer:
    """A running server.

    Attributes:
        url: Base URL for a client, ending in ``/v1``.
        process: The process; kill it to see what a client does without a server.
    """

    url: str
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.url.rsplit(":", 1)[1].split("/")[0])

    def log(self) -> list[dict[str, Any]]:
        """All requests so far, in order, those for other paths and as a proxy too.

        Each has ``target`` (of the request line), ``headers`` (lower case), ``body`` (the JSON, or None), ``input``
        (the text it asked about) and ``outcome`` (``answered``, ``refused`` or the kind of the fault).
        """
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            self.url.removesuffix("/v1") + "/log"
        ) as reply:
            entries: list[dict[str, Any]] = json.load(reply)
        return entries

    def counts(self) -> Counter[str]:
        """How many rightly answered requests there were for each input."""
        return Counter(entry["input"] for entry in self.log() if entry["outcome"] == "answered")


@contextmanager
def scripted_server(
    faults: Sequence[Fault] = (),
    refuses: Sequence[str] = (),
    api_key: str | None = None,
    delay: float = 0.0,
    host: str = "127.0.0.1",
    keep_log: bool = True,
) -> Iterator[ScriptedServer]:
    """Run a server until the block ends; the arguments are those of ``Script``."""
    script = Script(tuple(faults), tuple(refuses), api_key, delay, host, keep_log)
    command = [sys.executable, str(Path(__file__).resolve()), json.dumps(asdict(script))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port, "the scripted server did not start"
        shown = f"[{host}]" if ":" in host else host
        yield ScriptedServer(f"http://{shown}:{port}/v1", process)
    finally:
        process.kill()
        process.communicate()


def input_of(messages: Sequence[dict[str, str]]) -> str:
    """The text that a chat asks about.

    It is what follows ``INPUT:`` in the last user turn that has it, up to ``rule-based findings:`` or ``OUTPUT``;
    without such a turn, the last user turn that does not complain of a reply.
    """
    users = [message["content"] for message in messages if message["role"] == "user"]
    marked = [text.partition("INPUT:")[2] for text in users if "INPUT:" in text]
    if marked:
        return re.split(r"rule-based findings:|\bOUTPUT\b", marked[-1])[0].strip()
    asked = [text for text in users if not text.startswith("That reply cannot be used")]
    return asked[-1] if asked else ""


def right_reply(messages: Sequence[dict[str, str]], schema: dict[str, Any] | None = None) -> str:
    """The reply without faults: the sentences of the input as key phrases, or the input as a report."""
    text = input_of(messages)
    if schema and "report" in schema.get("properties", {}):
        return json.dumps({"report": text})
    sentences = [part.strip(" .\n") for part in re.split(r"(?<=[.!?])\s+", text)]
    return json.dumps({"key_phrase": [sentence for sentence in sentences if sentence]})


def _example(messages: Sequence[dict[str, str]]) -> str:
    prompt = "\n".join(message["content"] for message in messages)
    found = re.search(r'\{"(key_phrase|report)":.*\}', prompt)
    assert found, "the prompt holds no example"
    return found.group()


class _State:
    """What all connections share."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.log: list[dict[str, Any]] = []
        self.left = [fault.times for fault in script.faults]

    def fault_for(self, text: str) -> Fault | None:
        for place, fault in enumerate(self.script.faults):
            if self.left[place] != 0 and fault.match in text:
                self.left[place] -= 1
                return fault
        return None


@dataclass(frozen=True)
class _Reply:
    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> _Reply:
    body = {"error": {"message": message, "type": "scripted", "code": str(status)}}
    return _Reply(status, json.dumps(body).encode(), headers or {})


def _chat(text: str, finish_reason: str) -> _Reply:
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": f"{MODEL}-1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }
    return _Reply(200, json.dumps(body).encode())


def _streamed(text: str) -> _Reply:
    """A reply in pieces of seven characters, as server-sent events."""
    deltas: list[dict[str, Any]] = [{"content": text[start : start + 7]} for start in range(0, len(text), 7)]
    choices = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": "stop"}])
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": f"{MODEL}-1"}
    chunks: list[dict[str, Any]] = [{**head, "choices": choice} for choice in choices]
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    chunks.append({**head, "choices": [], "usage": usage})
    lines = [*(json.dumps(chunk) for chunk in chunks), "[DONE]"]
    return _events("".join(f"data: {line}\n\n" for line in lines))


def _events(body: str) -> _Reply:
    return _Reply(200, body.encode("utf-8", "surrogateescape"), {"Content-Type": "text/event-stream"})


def _reply(state: _State, target: str, headers: dict[str, str], body: bytes) -> _Reply | str:
    """The answer to one request, or ``silence`` or ``drop``; writes the log."""
    if target == "/log":
        return _Reply(200, json.dumps(state.log).encode())
    chat = json.loads(body) if body else None
    messages = chat["messages"] if chat else []
    entry: dict[str, Any] = {"target": target, "headers": headers, "body": chat, "outcome": "refused"}
    entry["input"] = input_of(messages)
    if state.script.keep_log:
        state.log.append(entry)
    script = state.script
    if target != "/v1/chat/completions" or chat is None:
        return _error(404, f"no such path: {target}")
    if script.api_key is not None and headers.get("authorization") != f"Bearer {script.api_key}":
        return _error(401, f"wrong key: {headers.get('authorization')}")
    if chat["model"] != MODEL:
        return _error(404, f"The model `{chat['model']}` does not exist.")
    wanted = chat.get("response_format") or {}
    right = right_reply(messages, wanted.get("json_schema", {}).get("schema"))
    fault = state.fault_for(entry["input"])
    if fault is None and wanted.get("type") in script.refuses:
        return _error(400, f"response_format of type {wanted['type']} is not supported")
    entry["outcome"] = "answered" if fault is None else fault.kind
    if fault is None:
        return _streamed(right) if chat.get("stream") else _chat(right, "stop")
    if fault.kind in ("silence", "drop"):
        return fault.kind
    if fault.kind == "status":
        return _error(fault.status, fault.text or "scripted fault", fault.headers)
    if fault.kind == "redirect":
        return _Reply(fault.status, b"", {"Location": fault.location, **fault.headers})
    if fault.kind == "garbage":
        return _Reply(200, b"<html>not what you asked for")
    if fault.kind == "events":
        return _events(fault.text) if chat.get("stream") else _chat(right, "stop")
    if fault.kind == "half":
        return _chat(right[: len(right) // 2], "length")
    return _chat(_example(messages) if fault.kind == "example" else fault.text, "stop")


class _Connection(asyncio.Protocol):
    """HTTP/1.1 with keep-alive, as much as a test needs."""

    def __init__(self, state: _State) -> None:
        self.state = state
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        while b"\r\n\r\n" in self.received:
            head, _, rest = self.received.partition(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            length = int(headers.get("content-length", 0))
            if len(rest) < length:
                return
            self.received = rest[length:]
            reply = _reply(self.state, first.split(" ")[1], headers, rest[:length])
            if self.state.script.delay:
                asyncio.get_running_loop().call_later(self.state.script.delay, self.answer, reply)
            else:
                self.answer(reply)

    def answer(self, reply: _Reply | str) -> None:
        if reply == "drop":
            self.transport.close()
        elif isinstance(reply, _Reply):
            headers = {"Content-Type": "application/json", "Content-Length": str(len(reply.body)), **reply.headers}
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            self.transport.write(f"HTTP/1.1 {reply.status} scripted\r\n{lines}\r\n".encode() + reply.body)


async def _serve(script: Script) -> None:
    state = _State(script)
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(state), script.host, 0)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201 - how the parent learns the port
    await server.serve_forever()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    given["faults"] = tuple(Fault(**fault) for fault in given["faults"])
    asyncio.run(_serve(Script(**given)))
