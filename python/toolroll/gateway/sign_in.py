"""Sign-in at MCP servers that ask for it, by OAuth 2.1 with the client of the package `mcp`.

A server answers 401. The gateway's background connection then waits, and says that somebody has to sign in.
An attempt (`SignIn`) finds the authorization server, registers the gateway, and has a URL for the user's
browser, which `sign_in_pages` leads there. The browser comes back with a code, and the tokens go into the
`TokenStore`. The connection takes them from there.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread
from mcp.shared.auth import AuthorizationCodeResult

from toolroll.formats.visible_text import one_line
from toolroll.gateway.configuration import Configuration
from toolroll.gateway.protocol import httpx_client
from toolroll.gateway.references import resolved
from toolroll.gateway.server_spec import ServerSpec
from toolroll.gateway.sign_in_client import SignInClient, SignInFailed, SignInNeeded
from toolroll.gateway.token_store import TokenStore
from toolroll.model.errors import InvalidInput

LONGEST_S = 600.0  # for which the user's browser may take
_URL_S = 60.0  # until an attempt has a URL
_NOWHERE = "http://127.0.0.1/"  # no browser comes back to a connection


@dataclass(frozen=True, slots=True)
class Account:
    """Whose tokens for which server.

    Attributes:
        server: its name.
        user: "" for everybody's.
        url: of the server.
        store: has the tokens.
        origins: that the configuration names for the server's sign-in.
    """

    server: str
    user: str
    url: str
    store: TokenStore
    origins: tuple[str, ...] = ()

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

    def provider(self, on_needed: Callable[[], None]) -> SignInClient | None:
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

        redirect = (record.get("client") or {}).get("redirect_uris") or [_NOWHERE]
        return SignInClient(self, str(redirect[0]), needed, never)


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
            url = resolved(spec.url, self.environ, self.folder)
            return Account(spec.name, user, url, self.store, spec.sign_in_origins)
        except InvalidInput:
            return None  # its connection says so


class SignIn:
    """One attempt of a user to sign in at a server.

    Attributes:
        account: whose.
        redirect_uri: where the browser comes back to.
        asker: who gets the access, in words by label, for the person at the browser.
        subject: issuer and subject of the token with which the asker signed in at the gateway; None for none.
        ticket: names the attempt in the link; a secret of whoever has the link.
        url: of the authorization server, for the user's browser; "" until `begun` returns.
        state: names the attempt in the browser's way back.
        browser: the secret of the browser in which somebody has agreed; "" until then.
        problem: why it failed; "" if it did not.
        is_done: whether it has ended.
    """

    def __init__(
        self,
        account: Account,
        redirect_uri: str,
        asker: Mapping[str, str],
        subject: tuple[str, str] | None = None,
    ) -> None:
        self.subject = subject
        self.account, self.redirect_uri, self.asker = account, redirect_uri, asker
        self.ticket = secrets.token_urlsafe(32)
        self.url, self.state, self.browser, self.problem = "", "", "", ""
        self.is_done = False
        self._has_url, self._has_answer, self._ended = anyio.Event(), anyio.Event(), anyio.Event()
        self._answer: Mapping[str, str] = {}

    @property
    def is_secure(self) -> bool:
        """Whether the browser reaches the gateway by https."""
        return self.redirect_uri.startswith("https://")

    async def run(self) -> None:
        """Makes the attempt, until the browser has come back or time is up. Errors go into `problem`."""
        try:
            await anyio.to_thread.run_sync(self._forget_other_address)
            provider = SignInClient(self.account, self.redirect_uri, self._redirected, self._called_back)
            provider.subject = self.subject
            with anyio.fail_after(LONGEST_S):
                async with httpx_client(auth=provider) as client:
                    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
                    accept = {"Accept": "application/json, text/event-stream"}
                    sent = client.stream("POST", self.account.url, json=ping, headers=accept)
                    async with sent as response:  # whose body may have no end
                        status = response.status_code
            if status == 401:
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

    async def begun(self) -> None:
        """Waits until the attempt has a URL for the browser.

        Raises:
            SignInFailed: it gets none.
        """
        with anyio.move_on_after(_URL_S):
            await self._has_url.wait()
        if not self.url:
            raise SignInFailed(f"server {self.account.server!r}: {self.problem or 'it does not answer'}")

    async def ended(self) -> str:
        """Waits for the end of the attempt; why it failed, "" if it did not."""
        await self._ended.wait()
        return self.problem

    def answer(self, parameters: Mapping[str, str]) -> None:
        """Takes what the browser brought back, once: the parameters of the callback's URL."""
        if not self._has_answer.is_set():
            self._answer = parameters
            self._has_answer.set()

    def _forget_other_address(self) -> None:
        """A registration is for one address of the browser's way back."""
        record = self.account.record()
        if self.redirect_uri not in ((record.get("client") or {}).get("redirect_uris") or []):
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
        return AuthorizationCodeResult(
            code=self._answer.get("code", ""), state=self._answer.get("state"), iss=self._answer.get("iss")
        )
