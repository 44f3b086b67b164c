from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import httpx2
import pytest

from rarrg.errors import RarrgError
from rarrg.llm.chat import Completion, LLMError, Message, Request, Sampling
from rarrg.llm.endpoints import EndpointPolicy
from rarrg.llm.guarded_transport import GuardedTransport
from rarrg.llm.openai_server import OpenAIServer
from rarrg.llm_config import LLMConfig
from tests.llm.scripted_server import Fault, ScriptedServer, scripted_server

HOME = EndpointPolicy(credentialed=True)
Names = Callable[..., list[str]]


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """Gives a name its addresses, one list for each look-up; the list it returns holds the look-ups so far."""
    real, lookups = socket.getaddrinfo, []

    def name(host: str, *answers: list[str]) -> list[str]:
        left = iter(answers)

        def look_up(asked: Any, port: Any, *args: Any, **kwargs: Any) -> list[Any]:
            lookups.append(asked)
            if asked != host:
                return real(asked, port, *args, **kwargs)
            return [entry for address in next(left) for entry in real(address, port, *args, **kwargs)]

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        return lookups

    return name


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.2", "127.0.0.2"),
        ("::1", "::1"),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
    ],
)
def test_this_machine_is_allowed_however_it_is_spelt(host: str, address: str) -> None:
    assert HOME.addresses(host, 80) == [address]


def test_localhost_is_allowed() -> None:
    assert set(HOME.addresses("localhost", 80)) <= {"127.0.0.1", "::1"}


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "0", "::", "10.0.0.7", "134744072", "0x08.8.8.8", "::ffff:8.8.8.8", "fe80::1", "64:ff9b::7f00:1"],
)
def test_other_addresses_are_refused_with_the_way_to_allow_them(host: str) -> None:
    with pytest.raises(LLMError, match=f"^{host} .* add --allow-host {host}$"):
        HOME.addresses(host, 80)


def test_a_name_with_one_foreign_address_is_refused(names: Names) -> None:
    names("models.example", ["127.0.0.1", "10.0.0.7"], ["127.0.0.1", "::1"])
    with pytest.raises(LLMError, match=r"models\.example \(10\.0\.0\.7\)"):
        HOME.addresses("models.example", 80)
    assert HOME.addresses("models.example", 80) == ["127.0.0.1", "::1"]


def test_ipv4_comes_first(names: Names) -> None:
    names("models.example", ["::1", "127.0.0.1"])
    assert HOME.addresses("models.example", 80) == ["127.0.0.1", "::1"]


@pytest.mark.parametrize("allowed", ["gpu1.example", "GPU1.example.", "10.0.0.7"])
def test_a_listed_name_or_address_is_allowed(names: Names, allowed: str) -> None:
    names("gpu1.example", ["10.0.0.7"])
    assert EndpointPolicy(True, (allowed,)).addresses("gpu1.example", 80) == ["10.0.0.7"]


@pytest.mark.parametrize("allowed", ["10.0.0.8", "example", "gpu2.example", "evil-gpu1.example"])
def test_the_list_allows_nothing_beside_it(names: Names, allowed: str) -> None:
    names("gpu1.example", ["10.0.0.7"])
    with pytest.raises(LLMError):
        EndpointPolicy(True, (allowed,)).addresses("gpu1.example", 80)


def test_addresses_on_the_list_are_compared_as_addresses() -> None:
    assert EndpointPolicy(True, ("[2001:DB8:0::1]",)).addresses("2001:db8::1", 80) == ["2001:db8::1"]
    assert EndpointPolicy(True, ("10.0.0.7",)).addresses("::ffff:10.0.0.7", 80) == ["::ffff:10.0.0.7"]


@pytest.mark.parametrize("allowed", ["http://gpu1", "gpu1:8000", "", "*", "gpu1/v1", "me@gpu1"])
def test_a_list_entry_that_is_no_host_is_named(allowed: str) -> None:
    with pytest.raises(RarrgError, match="name a host alone"):
        EndpointPolicy(True, (allowed,))


def test_text_that_is_not_credentialed_may_go_anywhere() -> None:
    EndpointPolicy(False).check("https://10.0.0.7/v1")


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8000/v1", "ftp://127.0.0.1/v1", "http://", "http://[::1/v1", "http://a:b/v1"]
)
def test_what_is_no_url_is_named(url: str) -> None:
    with pytest.raises(LLMError, match="no URL"):
        EndpointPolicy(False).check(url)


def test_a_server_elsewhere_is_refused_before_it_is_asked() -> None:
    with pytest.raises(LLMError, match=r"--allow-host 10\.0\.0\.7"):
        server("http://10.0.0.7:8000/v1", HOME)


# Below, 0.0.0.0 stands for a foreign host: it is not loopback, but a connection to it arrives at this machine.


def server(url: str, policy: EndpointPolicy) -> OpenAIServer:
    return OpenAIServer(
        LLMConfig("openai", "scripted", url, "NO_KEY_HERE", concurrency=2, timeout=5), policy, retries=0
    )


def ask(backend: OpenAIServer) -> Completion | LLMError:
    request = Request("k", (Message("user", "Clear."),), {"type": "object"}, Sampling())
    ((_, result),) = backend.complete([request])
    return result


@pytest.fixture
def target() -> Iterator[ScriptedServer]:
    with scripted_server() as running:
        yield running


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_to_another_host_is_refused_before_any_byte_is_sent(target: ScriptedServer, status: int) -> None:
    location = f"http://0.0.0.0:{target.port}/v1/chat/completions"
    with scripted_server([Fault("redirect", status=status, location=location, times=-1)]) as first:
        with pytest.raises(LLMError, match=r"0\.0\.0\.0 .* --allow-host 0\.0\.0\.0"):
            ask(server(first.url, HOME))
        assert target.log() == []
        with suppress(LLMError):  # a 302 turns the question into a GET, which the target does not know
            ask(server(first.url, EndpointPolicy(True, ("0.0.0.0",))))
        assert len(target.log()) == 1


def test_a_redirect_on_this_machine_is_followed(target: ScriptedServer) -> None:
    location = f"http://127.0.0.1:{target.port}/v1/chat/completions"
    with scripted_server([Fault("redirect", status=307, location=location)]) as first:
        assert isinstance(ask(server(first.url, HOME)), Completion)
        assert isinstance(ask(server(f"{first.url}/", HOME)), Completion)
    assert len(target.log()) == 1


def test_a_proxy_of_the_environment_gets_nothing(target: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted_server() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url.removesuffix("/v1"))
        assert isinstance(ask(server(target.url, HOME)), Completion)
        assert proxy.log() == []
        with pytest.raises(LLMError):  # the scripted server is no proxy, but is asked to be one
            ask(server(target.url, EndpointPolicy(False)))
        assert [entry["target"] for entry in proxy.log()] == [f"{target.url}/chat/completions"]


def test_the_connection_is_made_to_the_address_that_was_checked(target: ScriptedServer, names: Names) -> None:
    """A name that is this machine when it is checked and another when it is connected to."""
    url = target.url.replace("127.0.0.1", "models.example")
    lookups = names("models.example", ["127.0.0.1"], ["127.0.0.1"], ["0.0.0.0"])
    assert isinstance(ask(server(url, HOME)), Completion)
    assert lookups.count("models.example") == 2  # at the start, and for the connection
    assert target.log()[0]["headers"]["host"] == f"models.example:{target.port}"


def test_a_name_that_moves_away_after_the_start_is_refused(target: ScriptedServer, names: Names) -> None:
    url = target.url.replace("127.0.0.1", "models.example")
    names("models.example", ["127.0.0.1"], ["0.0.0.0"])
    with pytest.raises(LLMError, match=r"models\.example"):
        ask(server(url, HOME))
    assert target.log() == []


def test_an_address_where_nothing_listens_is_passed_over(target: ScriptedServer, names: Names) -> None:
    url = target.url.replace("127.0.0.1", "models.example")
    names("models.example", *[["127.0.0.3", "127.0.0.1"]] * 2)
    assert isinstance(ask(server(url, HOME)), Completion)


class Recorder(httpx2.AsyncBaseTransport):
    def __init__(self, refuse: bool = False) -> None:
        self.requests: list[httpx2.Request] = []
        self.refuse = refuse

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        if self.refuse:
            raise httpx2.ConnectError("refused")
        return httpx2.Response(200)


def send(transport: GuardedTransport, url: str) -> httpx2.Response:
    async def run() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=transport) as client:
            return await client.post(url, content=b"text")

    return asyncio.run(run())


def test_tls_is_held_to_the_name_and_not_to_the_address(names: Names) -> None:
    names("models.example", ["127.0.0.1"])
    inner = Recorder()
    response = send(GuardedTransport(HOME, inner), "https://models.example:8443/v1/x?y=1")
    (sent,) = inner.requests
    assert str(sent.url) == "https://127.0.0.1:8443/v1/x?y=1"
    assert sent.extensions["sni_hostname"] == "models.example"
    assert sent.headers["host"] == "models.example:8443"
    assert str(response.url) == "https://models.example:8443/v1/x?y=1"


def test_after_a_failure_a_name_is_looked_up_and_checked_again(names: Names) -> None:
    names("models.example", ["127.0.0.1", "127.0.0.2"], ["10.0.0.7"])
    inner = Recorder(refuse=True)
    transport = GuardedTransport(HOME, inner)
    with pytest.raises(httpx2.ConnectError, match="refused"):
        send(transport, "http://models.example/")
    with pytest.raises(LLMError):
        send(transport, "http://models.example/")
    assert [request.url.host for request in inner.requests] == ["127.0.0.1", "127.0.0.2"]


def test_a_name_that_nobody_knows_is_a_failed_connection() -> None:
    with pytest.raises(httpx2.ConnectError, match="cannot be resolved"):
        send(GuardedTransport(HOME, Recorder()), "http://nobody.invalid/")
