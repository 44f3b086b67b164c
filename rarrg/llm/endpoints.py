"""Where text may be sent: credentialed data stays on this machine, and goes to no host that nobody named."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from rarrg.errors import RarrgError
from rarrg.llm.chat import LLMError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class EndpointPolicy:
    """Which hosts may get text.

    Credentialed text, as that of MIMIC-CXR, may go to a host on the list, or to one all of whose addresses are this
    machine's loopback or on the list. It takes no proxy that the environment names. Other text may go anywhere.

    Args:
        credentialed: The text may not leave this machine.
        allow_hosts: Names and addresses that may get it nevertheless, without port or scheme.

    Raises:
        RarrgError: An entry of the list is no host.
    """

    credentialed: bool
    allow_hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for host in self.allow_hosts:
            if not _is_host(_plain(host)):
                raise RarrgError(
                    f"--allow-host {host}: name a host alone, as gpu1.example.org or 10.0.0.7, without scheme or port"
                )

    def addresses(self, host: str, port: int) -> list[str]:
        """Look a host up once and give the addresses that a connection may be made to, IPv4 first.

        A connection must go to one of these and not to the name, which may mean another address the next time.

        Args:
            host: A name or an address, in any spelling that the system's resolver takes.
            port: The port, which decides nothing.

        Raises:
            LLMError: The text may not go there.
            OSError: The name cannot be resolved.
        """
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [str(entry[4][0]) for entry in sorted(found, key=lambda entry: entry[0] != socket.AF_INET)]
        if self.credentialed and not self._on_list(host):
            for address in addresses:
                if not (_address(address).is_loopback or self._on_list(address)):
                    raise LLMError(
                        f"{host} ({address}): is not this machine, and credentialed text may not leave it; if your "
                        f"agreement allows that host, add --allow-host {host}"
                    )
        return list(dict.fromkeys(addresses))

    def check(self, url: str) -> None:
        """Refuse a server before anything is sent to it.

        Raises:
            LLMError: The URL is none, its host cannot be resolved, or text may not go there.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise LLMError(f"llm.base_url: is no URL ({error})") from error
        if parts.scheme not in ("http", "https") or not host:
            raise LLMError("llm.base_url: is no URL of a server; write it as http://127.0.0.1:8000/v1")
        try:
            self.addresses(host, port or (443 if parts.scheme == "https" else 80))
        except OSError as error:
            raise LLMError(f"{host}: cannot be resolved ({error.strerror}); check the server's URL") from error

    def _on_list(self, host: str) -> bool:
        return _plain(host) in {_plain(allowed) for allowed in self.allow_hosts}


def _plain(host: str) -> str:
    """One spelling of a name or an address."""
    host = host.strip().lower().rstrip(".").removeprefix("[").removesuffix("]")
    try:
        return str(_address(host))
    except ValueError:
        return host


def _address(text: str) -> Address:
    address = ipaddress.ip_address(text)
    # Before Python 3.13, ::ffff:127.0.0.1 does not count as loopback.
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped if isinstance(mapped, ipaddress.IPv4Address) else address


def _is_host(plain: str) -> bool:
    try:
        _address(plain)
    except ValueError:
        return bool(plain) and not any(character in "/:@?#*" or character.isspace() for character in plain)
    return True
