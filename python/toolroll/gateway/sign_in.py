"""Sign-in at MCP servers that ask for it, by OAuth 2.1 with the client of the package `mcp`.

A server answers 401. The gateway's background connection then waits, and says that somebody has to sign in.
An attempt (`SignIn`) finds the authorization server, registers the gateway, and has a URL for the user's
browser. The browser comes back with a code, and the tokens go into the `TokenStore`. The connection takes
them from there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread
from mcp.client.auth import OAuthClientProvider
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from toolroll.errors import InvalidInput, Unavailable
from toolroll.formats.visible_text import one_line
from toolroll.gateway import mcp_versions
from toolroll.gateway.configuration import Configuration
from toolroll.gateway.references import resolved
from toolroll.gateway.server_spec import ServerSpec
from toolroll.gateway.token_store import TokenStore

CALLBACK = "/oauth/callback"
LONGEST_S = 600.0  # for which the user's browser may take
_MARGIN_S = 60.0  # before the end of a token, it is renewed: clocks differ
_URL_S = 60.0  # until an attempt has a URL
_DONE = "You are signed in. You can close this page."


class SignInNeeded(Unavailable):
    """An MCP server wants its user to sign in."""


class SignInFailed(Unavailable):
    """An attempt to sign in came to nothing."""


@dataclass(frozen=True, slots=True)
class Account:
    """Whose tokens for which server.

    Attributes:
        server: its name.
        user: "" for everybody's.
        url: of the server.
        store: has the tokens.
    """

    server: str
    user: str
    url: str
    store: TokenStore

    def record(self) -> dict[str, Any]:
        """What is known."""
        return self.store.read(self.server, self.user)

    @property
    def has_tokens(self) -> bool:
        """Whether somebody has signed in."""
        return bool(self.record().get("tokens"))

    def update(self, **values: Any) -> None:
        """Changes parts of it."""
        self.store.write(self.server, self.user, {**self.record(), **values})

    def provider(self, on_needed: Callable[[], None]) -> OAuthClientProvider | None:
        """Signs requests with the stored tokens and renews them; None if there are none.

        on_needed: is called when they are worth nothing any more.
        """
        record = self.record()
        if not record.get("tokens"):
            return None

        async def needed(url: str) -> None:
            await anyio.to_thread.run_sync(lambda: self.update(tokens=None))
            on_needed()
            raise SignInNeeded(f"server {self.server!r}: its sign-in has expired")

        async def never() -> Any:
            raise SignInNeeded(f"server {self.server!r}: its sign-in has expired")

        redirect = (record.get("client") or {}).get("redirect_uris") or [f"http://127.0.0.1{CALLBACK}"]
        return _Provider(self, str(redirect[0]), needed, never)


@dataclass(frozen=True, slots=True)
class Accounts:
    """The accounts of a configuration's servers.

    Attributes:
        store: has the tokens.
        environ, folder: that references in URLs are resolved with.
    """

    store: TokenStore
    environ: Mapping[str, str]
    folder: Path

    @classmethod
    def of_configuration(cls, configuration: Configuration, state: Path) -> Accounts:
        """state: the folder of the gateway's state."""
        environ, folder = os.environ, configuration.folder
        store = TokenStore(state / "tokens", configuration.options.tokens_key, environ, folder)
        return cls(store, environ, folder)

    def of(self, spec: ServerSpec, user: str) -> Account | None:
        """The account of this user, "" for everybody's; None for a server without a sign-in or URL."""
        if spec.transport in ("stdio", "openapi"):
            return None
        try:
            return Account(spec.name, user, resolved(spec.url, self.environ, self.folder), self.store)
        except InvalidInput:
            return None  # its connection says so


class _Storage:
    """The account's record, as the package wants to see it."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self.provider: OAuthClientProvider | None = None

    async def get_tokens(self) -> OAuthToken | None:
        found = (await anyio.to_thread.run_sync(self._account.record)).get("tokens")
        return OAuthToken.model_validate(found) if found else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        context = self.provider.context  # type: ignore[union-attr]
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


class _Provider(OAuthClientProvider):  # type: ignore[misc]
    """The package's client, which also remembers when tokens expire and where they are renewed."""

    def __init__(self, account: Account, redirect_uri: str, on_redirect: Any, on_callback: Any) -> None:
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

    async def _initialize(self) -> None:
        await super()._initialize()
        record = await anyio.to_thread.run_sync(self._account.record)
        self.context.token_expiry_time = record.get("expires_at")
        if record.get("metadata") and self.context.oauth_metadata is None:
            self.context.oauth_metadata = OAuthMetadata.model_validate(record["metadata"])


class SignIn:
    """One attempt of a user to sign in at a server.

    Attributes:
        account: whose.
        url: for the user's browser; "" until `begun` returns.
        state: names the attempt in the browser's way back.
        problem: why it failed; "" if it did not.
        is_done: whether it has ended.
    """

    def __init__(self, account: Account, redirect_uri: str) -> None:
        """redirect_uri: where the browser comes back to."""
        self.account, self.url, self.state, self.problem = account, "", "", ""
        self.is_done = False
        self._redirect_uri = redirect_uri
        self._has_url, self._has_answer, self._ended = anyio.Event(), anyio.Event(), anyio.Event()
        self._answer: Mapping[str, str] = {}

    async def run(self) -> None:
        """Makes the attempt, until the browser has come back or time is up. Errors go into `problem`."""
        try:
            await anyio.to_thread.run_sync(self._forget_other_address)
            provider = _Provider(self.account, self._redirect_uri, self._redirected, self._called_back)
            with anyio.fail_after(LONGEST_S):
                async with create_mcp_http_client(auth=provider) as client:
                    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
                    accept = {"Accept": "application/json, text/event-stream"}
                    response = await client.post(self.account.url, json=ping, headers=accept)
            if response.status_code == 401:
                self.problem = "the server does not accept its own authorization server's token"
            elif not self.account.has_tokens:
                self.problem = "the server does not ask for a sign-in"
        except TimeoutError:
            self.problem = "nobody signed in within ten minutes"
        except Exception as error:  # of the package, the HTTP library, or the server's answers
            self.problem = one_line(f"{type(error).__name__}: {error}", 500)
        finally:
            self.is_done = True
            self._has_url.set()
            self._ended.set()

    async def begun(self) -> str:
        """The URL for the browser.

        Raises:
            SignInFailed: there is none.
        """
        with anyio.move_on_after(_URL_S):
            await self._has_url.wait()
        if not self.url:
            raise SignInFailed(f"server {self.account.server!r}: {self.problem or 'it does not answer'}")
        return self.url

    async def ended(self) -> str:
        """Waits for the end of the attempt; why it failed, "" if it did not."""
        await self._ended.wait()
        return self.problem

    def answer(self, parameters: Mapping[str, str]) -> None:
        """Takes what the browser brought back: the parameters of the callback's URL."""
        self._answer = parameters
        self._has_answer.set()

    def _forget_other_address(self) -> None:
        """A registration is for one address of the browser's way back."""
        record = self.account.record()
        if self._redirect_uri not in ((record.get("client") or {}).get("redirect_uris") or []):
            record["client"] = None
        self.account.store.write(self.account.server, self.account.user, {**record, "tokens": None})

    async def _redirected(self, url: str) -> None:
        self.url, self.state = url, parse_qs(urlsplit(url).query).get("state", [""])[0]
        self._has_url.set()

    async def _called_back(self) -> Any:
        await self._has_answer.wait()
        if "error" in self._answer:
            told = self._answer.get("error_description") or self._answer["error"]
            raise SignInFailed(f"the authorization server refuses: {told[:300]}")
        return mcp_versions.authorization_code(self._answer)


class SignIns:
    """The attempts of a gateway that have not ended: one for each server and user."""

    def __init__(self) -> None:
        self._attempts: dict[tuple[str, str], SignIn] = {}

    def begin(self, account: Account, redirect_uri: str) -> tuple[SignIn, bool]:
        """The attempt for this account, and whether it is a new one, which the caller has to run."""
        running = self.running(account)
        if running is not None:
            return running, False
        self._attempts = {key: each for key, each in self._attempts.items() if not each.is_done}
        attempt = SignIn(account, redirect_uri)
        self._attempts[account.server, account.user] = attempt
        return attempt, True

    def running(self, account: Account) -> SignIn | None:
        """The attempt for this account; None if there is none."""
        found = self._attempts.get((account.server, account.user))
        return None if found is None or found.is_done else found

    async def callback(self, request: Request) -> PlainTextResponse:
        """Answers the browser that comes back."""
        parameters = dict(request.query_params)
        state = parameters.get("state", "")
        found = [
            each for each in self._attempts.values() if state and each.state == state and not each.is_done
        ]
        if not found:
            return PlainTextResponse("This sign-in is over. Begin again.", 400)
        found[0].answer(parameters)
        problem = await found[0].ended()
        return PlainTextResponse(problem, 400) if problem else PlainTextResponse(_DONE)
