"""The provider behind the proxy: its URL, its connections, and the headers that travel.

An `httpx.AsyncClient` would log the URL of each request, in which Gemini's clients may send their key. It
would also keep the cookies of one caller, and add headers. So its transport is used directly.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from toolroll.adapters.provider_requests.headers import PREFIX
from toolroll.model.errors import InvalidInput

RawHeaders = list[tuple[bytes, bytes]]

# They are about one connection, and there are two. Source: RFC 9110, section 7.6.1.
_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# The HTTP client writes the host. uvicorn has answered the expectation.
_NOT_SENT_ON = _HOP_BY_HOP | {b"host", b"expect"}


def check_upstream(url: str) -> None:
    """Raises InvalidInput if no provider can be at this URL."""
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, is_right = urlsplit(""), False
    if not is_right or parts.query or parts.fragment or parts.username is not None:
        raise InvalidInput(
            "upstream must be the URL of a provider without a key in it, such as https://api.openai.com/v1"
        )


class Upstream:
    """The URL of a provider.

    Attributes:
        base: as it is configured.
    """

    def __init__(self, url: str) -> None:
        """Raises InvalidInput if no provider can be there."""
        check_upstream(url)
        self.base = httpx.URL(url)
        self._path = self.base.raw_path.rstrip(b"/")
        self._ends = [self._path[at:] for at in range(len(self._path)) if self._path[at : at + 1] == b"/"]

    def url(self, path: bytes, query: bytes) -> httpx.URL:
        """The provider's URL of a request.

        A part that ends the provider's path and begins this one stands once in the URL, so clients may use
        `http://localhost:8080` or `http://localhost:8080/v1`.
        """
        shared = next((end for end in self._ends if path == end or path.startswith(end + b"/")), b"")
        whole = self._path[: len(self._path) - len(shared)] + path
        return self.base.copy_with(raw_path=whole + (b"?" + query if query else b""))


def headers_for_upstream(headers: Iterable[tuple[bytes, bytes]], *, is_changed: bool) -> RawHeaders:
    """The headers to send on. is_changed: whether the length of the body changed."""
    headers = list(headers)
    dropped = _NOT_SENT_ON | _named_by_connection(headers)
    if is_changed:
        dropped |= {b"content-length"}
    return [one for one in headers if one[0] not in dropped and not one[0].startswith(PREFIX)]


def headers_for_client(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """The headers of an answer to pass on, with names in lower case."""
    headers = [(name.lower(), value) for name, value in headers]
    dropped = _HOP_BY_HOP | _named_by_connection(headers)
    return [one for one in headers if one[0] not in dropped]


def _named_by_connection(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    return frozenset(
        name.strip().lower() for key, value in headers if key == b"connection" for name in value.split(b",")
    )


_CONNECT_S = 10.0
_KEPT_OPEN = 256


class Connections:
    """Connections to one provider, which stay open. Close them with `aclose`."""

    def __init__(self, url: httpx.URL, timeout_s: float) -> None:
        """Opens none yet. A proxy that the environment names for this URL is used.

        timeout_s: how long the provider may be silent.
        """
        proxy = None if proxy_bypass(url.host) else getproxies().get(url.scheme)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=_KEPT_OPEN, keepalive_expiry=30)
        self._transport = httpx.AsyncHTTPTransport(limits=limits, proxy=proxy)
        self._timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_S), pool=None).as_dict()

    async def send(self, request: httpx.Request) -> httpx.Response:
        """The answer as far as its headers. Raises httpx.TransportError."""
        request.extensions["timeout"] = self._timeout
        return await self._transport.handle_async_request(request)

    async def aclose(self) -> None:
        """Closes them."""
        await self._transport.aclose()
