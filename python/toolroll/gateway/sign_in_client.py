"""The OAuth client of the package `mcp`, with stored tokens, and within limits.

It fetches only addresses that `SignInAddresses` allows. A remote server says where its sign-in is: in a
header, which leads to metadata, which leads to an authorization server. A hostile server would name an
address that only the gateway reaches, such as a neighbour's or the cloud's metadata service.
"""

from __future__ import annotations

import ipaddress
import logging
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx2
import jwt
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthMetadata, OAuthToken

from toolroll.gateway.accounts import ServerAccount
from toolroll.model.errors import Unavailable

_NOWHERE = "http://127.0.0.1/"  # no browser comes back to a connection
_PORTS = {"http": 80, "https": 443}
_TRANSLATED = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "2002::/16")))  # stand for addresses of IPv4


@dataclass(frozen=True, slots=True)
class SignInAddresses:
    """The addresses of one server's sign-in.

    Attributes:
        server: the server's URL.
        named: origins from the configuration.
    """

    server: str
    named: tuple[str, ...] = ()

    def is_own(self, url: str) -> bool:
        """Whether the URL has the server's origin, or an origin from the configuration."""
        return origin_of(url) in (origin_of(self.server), *map(origin_of, self.named))

    async def refusal(self, url: str) -> str:
        """Says why the gateway must not fetch the URL of an authorization server; "" if it may.

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
    """Returns scheme, host and port of a URL; ("", "", 0) for anything else."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
        if not host.isascii():
            host = host.encode("idna").decode()
        return parts.scheme, host, parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return "", "", 0


async def _is_public(host: str, port: int) -> bool:
    """Whether all addresses of the host are public. A name without addresses counts as public."""
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


# The browser shows why a sign-in failed. The package would also log the provider's words.
logging.getLogger("mcp.client.auth.oauth2").addFilter(
    lambda record: "OAuth flow error" not in str(record.msg)
)
_MARGIN_S = 60.0  # before the end of a token, it is renewed: clocks differ
_LARGEST_ANSWER = 1_000_000  # bytes of an answer of the authorization server


class SignInNeeded(Unavailable):
    """An MCP server requires its user to sign in."""


class SignInFailed(Unavailable):
    """An attempt to sign in has failed."""


class _Storage:
    """The account's record, in the package's form."""

    def __init__(self, account: ServerAccount) -> None:
        self._account = account
        self.provider: SignInClient | None = None

    async def get_tokens(self) -> OAuthToken | None:
        found = (await anyio.to_thread.run_sync(self._account.record)).get("tokens")
        return OAuthToken.model_validate(found) if found else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        assert self.provider is not None
        if _is_anothers(tokens.access_token, self.provider.subject):
            raise SignInFailed("another user has signed in than the one who asked for the link")
        context = self.provider.context
        lasts_s = tokens.expires_in
        expires_at = None if lasts_s is None else time.time() + lasts_s - min(_MARGIN_S, lasts_s / 10)
        metadata = context.oauth_metadata
        values = {
            "tokens": tokens.model_dump(mode="json", exclude_none=True),
            "expires_at": expires_at,
            "metadata": None if metadata is None else metadata.model_dump(mode="json", exclude_none=True),
        }
        await anyio.to_thread.run_sync(lambda: self._account.update(**values))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        found = (await anyio.to_thread.run_sync(self._account.record)).get("client")
        return OAuthClientInformationFull.model_validate(found) if found else None

    async def set_client_info(self, client: OAuthClientInformationFull) -> None:
        value = client.model_dump(mode="json", exclude_none=True)
        await anyio.to_thread.run_sync(lambda: self._account.update(client=value))


class SignInClient(OAuthClientProvider):  # type: ignore[misc]
    """The package's client. It also stores when tokens expire and where they are renewed.

    Attributes:
        subject: issuer and subject of the user's token at the gateway.
    """

    def __init__(self, account: ServerAccount, redirect_uri: str, on_redirect: Any, on_callback: Any) -> None:
        storage = _Storage(account)
        metadata = OAuthClientMetadata.model_validate(
            {
                "redirect_uris": [redirect_uri],
                "client_name": "toolroll",
                "grant_types": ["authorization_code", "refresh_token"],
                "token_endpoint_auth_method": "none",
            }
        )
        super().__init__(account.url, metadata, storage, on_redirect, on_callback)
        storage.provider, self._account = self, account
        self.subject: tuple[str, str] | None = None
        self._addresses = SignInAddresses(account.url, account.origins)

    async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
        """Runs the package's flow. It reads a server's metadata from the server's own address alone."""
        flow = super().async_auth_flow(request)
        try:
            following = await flow.__anext__()
            while True:
                if following is request or not await self._is_elsewhere(following):
                    answer = yield following
                    if following is not request or answer.status_code in (401, 403):
                        await self._read(answer)
                else:
                    answer = httpx2.Response(404, content=b"", request=following)
                following = await flow.asend(answer)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _is_elsewhere(self, request: Any) -> bool:
        """Whether the server names another address for its own metadata.

        Raises:
            SignInFailed: the authorization server's address is not allowed.
        """
        url, issuer = str(request.url), self.context.auth_server_url
        if self._addresses.is_own(url):
            return False
        if request.method == "GET" and origin_of(url) != origin_of(issuer or ""):
            return True
        await self._check(request)
        return False

    async def _read(self, answer: Any) -> None:
        """Reads and bounds an answer before the package does, which reads any length.

        Raises:
            SignInFailed: it is too long.
        """
        content = b""
        async for part in answer.aiter_bytes():
            content += part
            if len(content) > _LARGEST_ANSWER:
                told = f"{answer.request.url.host} answers more than {_LARGEST_ANSWER:,} bytes"
                raise SignInFailed(f"server {self._account.server!r}: {told}")
        answer._content = content  # as its `aread` does

    async def _check(self, request: Any) -> None:
        """Checks the address of a request.

        Raises:
            SignInFailed: the address is not allowed.
        """
        if why := await self._addresses.refusal(str(request.url)):
            raise SignInFailed(f"server {self._account.server!r}: {why}")

    async def _initialize(self) -> None:
        await super()._initialize()
        record = await anyio.to_thread.run_sync(self._account.record)
        self.context.token_expiry_time = record.get("expires_at")
        if record.get("metadata") and self.context.oauth_metadata is None:
            self.context.oauth_metadata = OAuthMetadata.model_validate(record["metadata"])


def renewing_client(account: ServerAccount, on_needed: Callable[[], None]) -> SignInClient | None:
    """Signs requests with the account's tokens and renews them; None if it has none.

    on_needed: is called when the tokens have expired for good.
    """
    record = account.record()
    if not record.get("tokens"):
        return None

    async def expired(url: str = "") -> Any:
        if url:
            await anyio.to_thread.run_sync(lambda: account.update(tokens=None))
            on_needed()
        raise SignInNeeded(f"server {account.server!r}: its sign-in has expired")

    redirect = (record.get("client") or {}).get("redirect_uris") or [_NOWHERE]
    return SignInClient(account, str(redirect[0]), expired, expired)


def _is_anothers(token: str, subject: tuple[str, str] | None) -> bool:
    """Whether the token belongs to another user than the asker, according to the asker's own issuer.

    Tokens of other issuers, and tokens that are not JWTs, do not name that issuer's user.
    """
    if subject is None:
        return False
    try:
        claims = jwt.decode(token, options={"verify_signature": False})  # its issuer itself has sent it
    except jwt.PyJWTError:
        return False
    return claims.get("iss") == subject[0] and claims.get("sub") != subject[1]
