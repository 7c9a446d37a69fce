"""Which addresses a sign-in may make the gateway fetch.

A remote server says where its sign-in is: in a header, which leads to metadata, which leads to an
authorization server. A hostile one would name an address that only the gateway reaches, such as a neighbour's
or the cloud's metadata service.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

import anyio

_PORTS = {"http": 80, "https": 443}
_TRANSLATED = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "2002::/16")))  # stand for addresses of IPv4


@dataclass(frozen=True, slots=True)
class SignInAddresses:
    """The addresses of one server's sign-in.

    Attributes:
        server: the server's URL.
        named: origins that the configuration names.
    """

    server: str
    named: tuple[str, ...] = ()

    def is_own(self, url: str) -> bool:
        """Whether the URL has the server's origin, or one that the configuration names."""
        return origin_of(url) in (origin_of(self.server), *map(origin_of, self.named))

    async def refusal(self, url: str) -> str:
        """Why the gateway must not fetch the URL of an authorization server; "" if it may.

        Another origin than the server's has to be public and use https.
        """
        if self.is_own(url):
            return ""
        scheme, host, port = origin_of(url)
        if scheme == "https" and host and await _is_public(host, port):
            return ""
        return (
            f"its sign-in is at {scheme}://{host}:{port}, which is neither at the server's own address nor "
            "public with https; if you trust it, name it in sign_in_origins of the server"
        )


def origin_of(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of a URL; ("", "", 0) for what is none."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
        if not host.isascii():
            host = host.encode("idna").decode()
        return parts.scheme, host, parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return "", "", 0


async def _is_public(host: str, port: int) -> bool:
    """Whether all addresses of the host are public; also where there are none, so nothing can be fetched."""
    try:
        found = await anyio.getaddrinfo(host, port)
    except (OSError, UnicodeError):
        return not _is_address(host)
    addresses = [ipaddress.ip_address(address[0].partition("%")[0]) for *_, address in found]
    return all(
        address.is_global and not address.is_multicast and not any(address in each for each in _TRANSLATED)
        for address in addresses
    )


def _is_address(host: str) -> bool:
    try:
        return bool(ipaddress.ip_address(host))
    except ValueError:
        return False
