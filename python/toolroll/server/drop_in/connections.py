"""The connections to a provider.

An `httpx.AsyncClient` would log the URL of each request, in which Gemini's clients may send their key. It
would also keep the cookies of one caller, and add headers. So its transport is used directly.
"""

from __future__ import annotations

from urllib.request import getproxies, proxy_bypass

import httpx

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
