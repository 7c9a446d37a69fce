"""Sign-in at MCP servers by OAuth 2.1: attempts, and the pages of the user's browser.

A server answers 401, and its connection waits. An attempt (`SignIn`) finds the authorization server,
registers the gateway, and gets a URL for the user's browser. The browser comes back with a code, and the
tokens go into the `TokenStore`, where the connection finds them.

A link can be sent to anybody. So it leads to a page of the gateway, which names the user who gets the
access. A browser in which somebody agrees gets a cookie, and only this browser can come back: neither the
link nor the provider's address signs anybody in for another. A link is used once, within ten minutes.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread
from mcp.shared.auth import AuthorizationCodeResult
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from toolroll.formats.visible_text import one_line
from toolroll.gateway.accounts import ServerAccount
from toolroll.gateway.options import without_secrets
from toolroll.gateway.protocol import httpx_client
from toolroll.gateway.sign_in_client import SignInClient, SignInFailed

LONGEST_S = 600.0  # that a sign-in in a browser may take
_URL_S = 60.0  # until an attempt has a URL
CALLBACK = "/oauth/callback"
PAGE = "/oauth/sign-in"
MOST = 1_000  # attempts at the same time
_LONGEST = 120  # characters of a name or address
_LARGEST_FORM = 4_000  # bytes
_SECRET = re.compile("[A-Za-z0-9_-]{43}")
_DONE = "You are signed in. You can close this page."
_OVER = "This link was used already, or it is older than ten minutes. Ask for a new one."
_ELSEWHERE = "Nobody is signed in: this sign-in was not begun in this browser. Close this page."
_HEADERS = {
    "Cache-Control": "no-store",
    # `form-action` also holds for the redirect to the provider, and for the provider's own redirects.
    "Content-Security-Policy": (
        "default-src 'none'; base-uri 'none'; form-action 'self' https: http:; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_HTML = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Sign in at {server}</title>
<h1>Give access to {server}?</h1>
<p>This user of the gateway asks to be signed in at the server <strong>{server}</strong> ({url}):</p>
<ul>{asker}</ul>
<p>If you go on, you sign in at <strong>{provider}</strong>, and <strong>this user then uses {server} with
your account</strong>.</p>
<p>If this is not you, or if somebody sent you the link, close this page.</p>
<form method="post">
<input type="hidden" name="page" value="{proof}">
<button>This is me: go on</button>
</form>
</html>
"""


class SignIn:
    """One attempt of a user to sign in at a server.

    Attributes:
        redirect_uri: the address to which the browser comes back.
        asker: describes the user who gets the access, label → text, for the person at the browser.
        subject: issuer and subject of the user's token at the gateway, if there is one.
        ticket: names the attempt in the link. A secret.
        url: the authorization server's address for the browser; "" until `begun` returns.
        state: names the attempt when the browser comes back.
        browser: the secret of the browser in which a person agreed; "" until then.
        problem: the reason of its failure; "" without one.
    """

    def __init__(
        self,
        account: ServerAccount,
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
        """Runs until the browser has come back or the time is up. Stores errors in `problem`."""
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
        """Waits for the end of the attempt; returns why it failed, or ""."""
        await self._ended.wait()
        return self.problem

    def answer(self, parameters: Mapping[str, str]) -> None:
        """Takes the parameters of the callback's URL from the browser, once."""
        if not self._has_answer.is_set():
            self._answer = parameters
            self._has_answer.set()

    def _forget_other_address(self) -> None:
        """Drops a registration for another address, and old tokens."""
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


class SignIns:
    """The running attempts of a gateway, one for each server and user, and their pages."""

    def __init__(self) -> None:
        self._attempts: dict[tuple[str, str], SignIn] = {}
        self._secret = secrets.token_bytes(32)

    def begin(
        self,
        account: ServerAccount,
        redirect_uri: str,
        asker: Mapping[str, str],
        subject: tuple[str, str] | None = None,
    ) -> tuple[SignIn, bool]:
        """Returns the attempt for this account, and whether it is new: then the caller has to run it.

        If the attempt's link was used already, a new attempt replaces it.

        Raises:
            SignInFailed: too many people are signing in.
        """
        running = self.running(account)
        if running is not None:
            return running, False
        self._attempts = {key: each for key, each in self._attempts.items() if not each.is_done}
        if len(self._attempts) >= MOST:
            raise SignInFailed(f"{MOST:,} people are signing in, try again in some minutes")
        if used := self._attempts.get((account.server, account.user)):
            used.answer({"error": "a newer link was asked for"})
        attempt = SignIn(account, redirect_uri, asker, subject)
        self._attempts[account.server, account.user] = attempt
        return attempt, True

    def running(self, account: ServerAccount) -> SignIn | None:
        """Returns the attempt for this account with an unused link, if there is one."""
        found = self._attempts.get((account.server, account.user))
        return None if found is None or found.is_done or found.browser else found

    def routes(self) -> list[BaseRoute]:
        """The pages."""
        return [
            Route(CALLBACK, self._take_answer),
            Route(f"{PAGE}/{{ticket}}", self._show_request),
            Route(f"{PAGE}/{{ticket}}", self._lead_to_provider, methods=["POST"]),
        ]

    async def _show_request(self, request: Request) -> Response:
        """Shows who will get the access. Leaves the link usable: programs that preview links open it, too."""
        attempt = self._of_ticket(request)
        if attempt is None:
            return _told(_OVER, 410)
        browser = _browser(request, attempt) or secrets.token_urlsafe(32)
        page = _HTML.format(
            server=_html(attempt.account.server),
            url=_html(without_secrets(attempt.account.url)),
            provider=_html(urlsplit(attempt.url).netloc.rpartition("@")[2]),
            asker="".join(
                f"<li>{_html(label)}: <strong>{_html(name)}</strong></li>"
                for label, name in attempt.asker.items()
            ),
            proof=self._proof(attempt, browser),
        )
        response = HTMLResponse(page, headers=_HEADERS)
        _set_cookie(response, attempt, browser)
        return response

    async def _lead_to_provider(self, request: Request) -> Response:
        """Redirects the browser to the provider after the person agreed."""
        attempt = self._of_ticket(request)
        if attempt is None:
            return _told(_OVER, 410)
        browser = _browser(request, attempt)
        proof = await _proof_in(request)
        if not browser or not hmac.compare_digest(proof, self._proof(attempt, browser).encode()):
            return _told("This page was not asked for in this browser, or it refuses cookies.", 403)
        if attempt.browser:  # somebody else was faster
            return _told(_OVER, 410)
        # Not the page's secret, which somebody else may have set.
        attempt.browser = secrets.token_urlsafe(32)
        response = RedirectResponse(attempt.url, 303, headers=_HEADERS)
        _set_cookie(response, attempt, attempt.browser)
        return response

    async def _take_answer(self, request: Request) -> Response:
        """Takes the provider's answer from the browser in which the person agreed."""
        parameters = dict(request.query_params)
        state = parameters.get("state", "")
        attempt = next((each for each in self._open() if state and each.state == state), None)
        if attempt is None:
            return _told("This sign-in is over. Begin again.", 400)
        browser = _browser(request, attempt)
        if not attempt.browser or not hmac.compare_digest(browser.encode(), attempt.browser.encode()):
            return _told(_ELSEWHERE, 403)
        attempt.answer(parameters)
        problem = await attempt.ended()
        response = _told(problem or _DONE, 400 if problem else 200)
        response.delete_cookie(_cookie(attempt), secure=attempt.is_secure, httponly=True)
        return response

    def _of_ticket(self, request: Request) -> SignIn | None:
        """Returns the attempt of an unused link."""
        ticket = request.path_params["ticket"].encode()
        found = (each for each in self._open() if hmac.compare_digest(each.ticket.encode(), ticket))
        return next((each for each in found if each.url and not each.browser), None)

    def _open(self) -> list[SignIn]:
        return [each for each in self._attempts.values() if not each.is_done]

    def _proof(self, attempt: SignIn, browser: str) -> str:
        """Returns a value that only the page in this browser has: no other site can press its button."""
        return hmac.new(self._secret, f"{attempt.ticket} {browser}".encode(), hashlib.sha256).hexdigest()


def link_of(attempt: SignIn) -> str:
    """Returns the address of the attempt's page."""
    return f"{attempt.redirect_uri.removesuffix(CALLBACK)}{PAGE}/{attempt.ticket}"


def _cookie(attempt: SignIn) -> str:
    """Returns the name of the attempt's cookie. With the prefix, no other host of the domain can set it."""
    digest = hashlib.sha256(attempt.ticket.encode()).hexdigest()[:16]
    return f"{'__Host-' if attempt.is_secure else ''}toolroll-sign-in-{digest}"


def _browser(request: Request, attempt: SignIn) -> str:
    """Returns this browser's secret of the attempt; "" if it has none."""
    found = request.cookies.get(_cookie(attempt), "")
    return found if _SECRET.fullmatch(found) else ""


def _set_cookie(response: Response, attempt: SignIn, value: str) -> None:
    response.set_cookie(
        _cookie(attempt),
        value,
        max_age=int(LONGEST_S),
        secure=attempt.is_secure,
        httponly=True,
        samesite="lax",  # sent when the provider redirects, but not with another site's form
    )


async def _proof_in(request: Request) -> bytes:
    """Returns the field of the page's form; b"" if the body is no such form."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LARGEST_FORM:
            return b""
    return parse_qs(body.decode("latin-1")).get("page", [""])[0].encode()


def _html(text: str) -> str:
    """Escapes a foreign text for the page, and replaces characters that no reader sees."""
    shown = "".join(character if character.isprintable() else "\ufffd" for character in text[:_LONGEST])
    return escape(shown)


def _told(text: str, status: int) -> PlainTextResponse:
    return PlainTextResponse(text, status, _HEADERS)
