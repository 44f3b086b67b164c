"""Any OpenAI-compatible server, asked many questions at once."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import cycle
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rarrg.errors import RarrgError
from rarrg.llm.chat import Completion, FinishReason, LLMError, Request
from rarrg.llm.chunks import UnreadableStream, chunks
from rarrg.llm.endpoints import EndpointPolicy
from rarrg.llm.response_format import MODES, refused, response_format
from rarrg.llm.server_errors import Refusal, Secret, refusal_of
from rarrg.llm_config import LLMConfig

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

_FINISH: dict[str, FinishReason] = {"stop": "stop", "length": "length"}
_POOL = 8  # requests under way for each pool of connections
_IN_A_ROW = 16  # at least so many failures without an answer between them end the run
_CONNECT = 10.0  # seconds; a host that takes no connection is not one that thinks for long

Outcome = tuple[Request, "Completion | Refusal"]


class OpenAIServer:
    """A ``Backend`` over HTTP.

    The first request goes alone. If it meets a refusal that no other request would survive (no connection, a wrong
    key, model or URL), the run ends there, and so it does when very many requests in a row fail. Time-outs, lost
    connections, 429 (with its Retry-After) and 5xx are tried again by the ``openai`` package, with exponential
    back-off and jitter. A server that takes no JSON schema is asked for any JSON, then for plain text, from then on;
    one whose stream cannot be read is asked for whole replies.

    Args:
        config: Server, model, key, concurrency and time-out.
        policy: Which hosts may get text.
        retries: Further tries of a request whose failure may pass; with 6, a server may be away for 20 seconds.
        hear: Gets each piece of a reply as it is written; an empty text begins a reply. For one request at a time.

    Attributes:
        model: The model's name.

    Raises:
        LLMError: Text may not go to that server.
        RarrgError: ``base_url`` is missing, or the package ``openai``.
    """

    def __init__(
        self, config: LLMConfig, policy: EndpointPolicy, retries: int = 6, hear: Callable[[str], None] | None = None
    ) -> None:
        try:
            import openai  # noqa: F401 - to say so before anything is asked
        except ImportError as error:
            raise RarrgError(f"{config.model}: backend openai needs a package; pip install 'rarrg[llm]'") from error

        if not config.base_url:
            raise RarrgError("llm.base_url: name the server, as http://127.0.0.1:8000/v1")
        policy.check(config.base_url)
        self.model = config.model
        self._config, self._policy, self._retries, self._hear = config, policy, retries, hear
        self._secret = Secret(config.api_key_env, os.environ.get(config.api_key_env, ""))
        self._mode = 0  # place in MODES
        self._mode_works = False
        self._answered = False
        self._failed_in_a_row = 0

    def complete(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Completion | LLMError]]:
        """Answer requests, each as it is ready, at most ``concurrency`` at once.

        Network traffic has a thread of its own; requests are drawn in the caller's. A caller that stops iterating, or
        is interrupted, drops what is under way.

        Args:
            requests: Questions, drawn as there is room for them.

        Yields:
            Each request with its completion, or with the error after all retries.

        Raises:
            LLMError: No request would be answered: a wrong URL, key or model, or a server that is gone.
        """
        finished: SimpleQueue[asyncio.Task[Outcome]] = SimpleQueue()
        tasks: set[asyncio.Task[Outcome]] = set()
        source, more, under_way = iter(requests), True, 0
        end: LLMError | None = None
        with _loop_in_thread() as loop:
            clients = self._clients()
            turn = cycle(clients)

            def start(client: AsyncOpenAI, request: Request) -> None:
                task = loop.create_task(self._serve(client, request))
                tasks.add(task)  # the loop itself would let go of it
                task.add_done_callback(tasks.discard)
                task.add_done_callback(finished.put)

            try:
                while more or under_way:
                    room = self._config.concurrency if self._answered or self._failed_in_a_row else 1
                    if more and under_way < room:
                        request = next(source, None)
                        if request is None:
                            more = False
                            continue
                        under_way += 1
                        loop.call_soon_threadsafe(start, next(turn), request)
                        if finished.empty():
                            continue
                    if under_way:
                        request, result = finished.get().result()
                        under_way -= 1
                        self._count(result)
                        if isinstance(result, Completion):
                            yield request, result
                        elif self._hopeless(result):
                            # What is still under way may be answered, and paid for: it comes out first.
                            end, more = end or self._last_word(result), False
                        else:
                            yield request, LLMError(result.message)
            finally:
                asyncio.run_coroutine_threadsafe(_stop(tasks, clients), loop).result()
        if end is not None:
            raise end

    def _clients(self) -> list[AsyncOpenAI]:
        """Clients with a pool of connections each: a pool looks through all its connections at every request."""
        import httpx2
        from openai import AsyncOpenAI, DefaultAioHttpClient

        slots = self._config.concurrency
        limits = httpx2.Limits(max_connections=slots, max_keepalive_connections=slots)
        certificates = httpx2.create_ssl_context()

        def http_client() -> httpx2.AsyncClient:
            if not self._policy.credentialed:
                # With aiohttp below it, a request takes 40 % less of the processor, but it takes no user beside a key.
                kind = httpx2.AsyncClient if urlsplit(self._config.base_url).username else DefaultAioHttpClient
                return kind(verify=certificates, limits=limits, follow_redirects=True)
            from rarrg.llm.guarded_transport import GuardedTransport

            # A proxy would be handed the text; trust_env=False leaves the environment's proxies alone.
            inner = httpx2.AsyncHTTPTransport(verify=certificates, limits=limits)
            transport = GuardedTransport(self._policy, inner)
            return httpx2.AsyncClient(transport=transport, trust_env=False, follow_redirects=True)

        return [
            AsyncOpenAI(
                base_url=self._config.base_url,
                api_key=self._secret.value or "none",
                timeout=httpx2.Timeout(self._config.timeout, connect=min(_CONNECT, self._config.timeout)),
                max_retries=self._retries,
                http_client=http_client(),
            )
            for _ in range(-(-slots // _POOL))
        ]

    async def _serve(self, client: AsyncOpenAI, request: Request) -> Outcome:
        import httpx2
        from openai import OpenAIError

        started = time.perf_counter()
        while True:
            mode = self._mode
            try:
                result: Completion | Refusal
                if self._hear is not None:
                    result = await self._streamed(client, request, mode, self._hear)
                else:
                    # The typed call builds pydantic models of request and response, which halves the requests a second.
                    response = await client.post(
                        "/chat/completions", cast_to=httpx2.Response, body=self._body(request, mode)
                    )
                    result = self._completion(response, time.perf_counter() - started)
            except UnreadableStream:
                self._hear = None
                continue
            except (OpenAIError, LLMError) as error:
                refusal = refusal_of(error, self._config, self._secret)
            except httpx2.HTTPError as error:  # in the middle of a stream
                refusal = Refusal.of(f"the reply broke off ({error})", self._config)
            else:
                if isinstance(result, Completion):
                    self._mode_works = True
                return request, result
            # Requests under way together may all be refused; only the first of them moves the mode on.
            unknown_mode = refused(refusal.status, refusal.detail) and mode < len(MODES) - 1
            if not unknown_mode or self._mode_works:
                return request, refusal
            self._mode = max(self._mode, mode + 1)

    async def _streamed(
        self, client: AsyncOpenAI, request: Request, mode: int, hear: Callable[[str], None]
    ) -> Completion:
        started = time.perf_counter()
        stream = await client.chat.completions.create(
            **self._body(request, mode), stream=True, stream_options={"include_usage": True}
        )
        hear("")
        text, finish, model, read, written = "", "", self.model, 0, 0
        async with stream:  # gives its connection back however it ends
            async for chunk in chunks(stream):
                text, finish, model = text + chunk.text, chunk.finish or finish, chunk.model or model
                read, written = chunk.read or read, chunk.written or written
                if chunk.text:
                    hear(chunk.text)
        if not text and not finish:
            raise UnreadableStream
        return Completion(text, _FINISH.get(finish, "other"), read, written, time.perf_counter() - started, model)

    def _body(self, request: Request, mode: int) -> dict[str, Any]:
        return {
            "model": self.model,
            "messages": [{"role": message.role, "content": message.content} for message in request.messages],
            "temperature": request.sampling.temperature,
            "top_p": request.sampling.top_p,
            "max_tokens": request.sampling.max_tokens,
            "seed": request.sampling.seed,
            **response_format(MODES[mode], request.schema),
        }

    def _completion(self, response: httpx2.Response, seconds: float) -> Completion | Refusal:
        try:
            reply = response.json()
            choice = reply["choices"][0]
            said = choice["message"]
            usage = reply.get("usage") or {}
            return Completion(
                text=str(said.get("content") or said.get("refusal") or ""),
                finish_reason=_FINISH.get(choice.get("finish_reason"), "other"),
                prompt_tokens=int(usage.get("prompt_tokens") or 0),
                completion_tokens=int(usage.get("completion_tokens") or 0),
                seconds=seconds,
                model=str(reply.get("model") or self.model),
            )
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            return Refusal.of(
                "its answer is no chat completion; check llm.base_url, which usually ends in /v1", self._config
            )

    def _count(self, result: Completion | Refusal) -> None:
        if isinstance(result, Completion):
            self._answered, self._failed_in_a_row = True, 0
        else:
            self._failed_in_a_row += 1

    def _hopeless(self, refusal: Refusal) -> bool:
        in_a_row = self._failed_in_a_row >= max(_IN_A_ROW, 2 * self._config.concurrency)
        return refusal.for_good or in_a_row or (refusal.for_all and not self._answered)

    def _last_word(self, refusal: Refusal) -> LLMError:
        failed = self._failed_in_a_row
        return LLMError(f"{refusal.message}; {failed} requests in a row failed" if failed > 1 else refusal.message)


@contextmanager
def _loop_in_thread() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="rarrg-openai", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _stop(tasks: set[asyncio.Task[Outcome]], clients: list[AsyncOpenAI]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for client in clients:
        await client.close()
