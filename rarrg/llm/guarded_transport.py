"""An HTTP transport that connects only to addresses a policy has checked."""

from __future__ import annotations

import asyncio

import httpx2

from rarrg.llm.endpoints import EndpointPolicy


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Resolves each request's host, has the policy check what it resolves to, and connects to just that address.

    A client passes every request through its transport, redirected ones too, so each hop is checked. The connection
    is made to the checked address, so a name that changes its meaning in between gains nothing; ``Host`` and the
    TLS server name stay the host's. A host is looked up once and again after its addresses failed.

    Args:
        policy: Which hosts may get text.
        inner: The transport that connects; it must know of no proxy.
    """

    def __init__(self, policy: EndpointPolicy, inner: httpx2.AsyncBaseTransport) -> None:
        self._policy, self._inner = policy, inner
        self._checked: dict[tuple[str, int], list[str]] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to a checked address of its host.

        Raises:
            LLMError: The policy refuses the host; nothing was sent.
            httpx2.ConnectError: The host cannot be resolved, or none of its addresses takes connections.
        """
        host = request.url.raw_host.decode("ascii")
        place = host, request.url.port or (443 if request.url.scheme == "https" else 80)
        if place not in self._checked:
            loop = asyncio.get_running_loop()
            try:
                self._checked[place] = await loop.run_in_executor(None, self._policy.addresses, *place)
            except OSError as error:
                raise httpx2.ConnectError(f"{host} cannot be resolved ({error.strerror})") from error
        failure: httpx2.TransportError = httpx2.ConnectError(f"{host} has no address")
        for address in list(self._checked[place]):
            try:
                response = await self._inner.handle_async_request(_to_address(request, host, address))
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
                continue
            # What answered comes first from now on: "localhost" may mean ::1, where nothing listens.
            self._checked[place] = [address, *(other for other in self._checked[place] if other != address)]
            return response
        self._checked.pop(place, None)
        raise failure

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()


def _to_address(request: httpx2.Request, host: str, address: str) -> httpx2.Request:
    """The same request for an address; the original stays, since redirects are resolved against its URL."""
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": host},
    )
