"""The OAuth client of the package `mcp`, with stored tokens, and within limits.

It fetches only what `SignInAddresses` allows, and reads no more of an answer than a limit.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator
from typing import Any, Protocol

import anyio.to_thread
import httpx2
import jwt
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)

from toolroll.gateway.sign_in_addresses import SignInAddresses, origin_of
from toolroll.model.errors import Unavailable

# Why a sign-in failed is told to the browser. The package would log it, too, in the provider's words.
logging.getLogger("mcp.client.auth.oauth2").addFilter(
    lambda record: "OAuth flow error" not in str(record.msg)
)
_MARGIN_S = 60.0  # before the end of a token, it is renewed: clocks differ
_LARGEST_ANSWER = 1_000_000  # bytes of an answer of the authorization server


class SignInNeeded(Unavailable):
    """An MCP server wants its user to sign in."""


class SignInFailed(Unavailable):
    """An attempt to sign in came to nothing."""


class Record(Protocol):
    """What is stored of an account, and the server that it is at; see `Account`."""

    @property
    def server(self) -> str:
        """Its name."""

    @property
    def url(self) -> str:
        """Of the server."""

    @property
    def origins(self) -> tuple[str, ...]:
        """That the configuration names for the server's sign-in."""

    def record(self) -> dict[str, Any]:
        """What is known."""

    def update(self, **values: Any) -> None:
        """Changes parts of it."""


class _Storage:
    """The account's record, as the package wants to see it."""

    def __init__(self, account: Record) -> None:
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
    """The package's client, which also remembers when tokens expire and where they are renewed.

    It fetches only what `SignInAddresses` allows.
    """

    def __init__(self, account: Record, redirect_uri: str, on_redirect: Any, on_callback: Any) -> None:
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
        """The package's flow. A server's metadata is looked for at the server's own address alone."""
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
        await self.check(request)
        return False

    async def _read(self, answer: Any) -> None:
        """Reads an answer before the package does, which would read any length.

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

    async def check(self, request: Any) -> None:
        """Refuses a request to an address that is not allowed.

        Raises:
            SignInFailed: it is refused.
        """
        if why := await self._addresses.refusal(str(request.url)):
            raise SignInFailed(f"server {self._account.server!r}: {why}")

    async def _initialize(self) -> None:
        await super()._initialize()
        record = await anyio.to_thread.run_sync(self._account.record)
        self.context.token_expiry_time = record.get("expires_at")
        if record.get("metadata") and self.context.oauth_metadata is None:
            self.context.oauth_metadata = OAuthMetadata.model_validate(record["metadata"])


def _is_anothers(token: str, subject: tuple[str, str] | None) -> bool:
    """Whether the token is another user's of the issuer at which the asker signed in.

    Other issuers' tokens and those that are no JWT do not say who their user is at that issuer.
    """
    if subject is None:
        return False
    try:
        claims = jwt.decode(token, options={"verify_signature": False})  # its issuer itself has sent it
    except jwt.PyJWTError:
        return False
    return claims.get("iss") == subject[0] and claims.get("sub") != subject[1]
