"""Sessions of the admin page: a cookie in place of a service key, for a browser.

The cookie is signed and names who signed in and when: the id of a key, an account and its version, or a
person of the identity provider. It holds no key and no password. It is valid for `LIFETIME_S` at most, and no
longer than the key or the account. No server stores it, so each worker can check it. A sign-out is stored
(`toolroll.registry.access.accounts`).

A second cookie names the accounts that signed in with a browser before. Their attempts to sign in there have
turns of their own. This cookie lets nobody in.

Other sites cannot use the cookie. Browsers do not send it with their requests (SameSite=Strict). The service
ignores it without the header `X-Toolroll-Page`, which a script of another origin cannot send.
Source: OWASP, "Cross-Site Request Forgery Prevention Cheat Sheet": custom headers, Fetch Metadata.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any, TypeAlias

from fastapi import Request, Response
from itsdangerous import BadData, URLSafeTimedSerializer

from toolroll.server.callers import Person

COOKIE = "toolroll_session"
KNOWN_COOKIE = "toolroll_known"
PAGE_HEADER = b"x-toolroll-page"
LIFETIME_S = 12 * 3_600
KNOWN_S = 180 * 86_400  # for how long a browser is known after a sign-in
_MOST_KNOWN = 5  # accounts of a browser
_SALT, _KNOWN_SALT = "toolroll.page", "toolroll.known"
_OWN = (b"same-origin", b"none")  # none: the user, not a page, made the request


@dataclass(frozen=True, slots=True)
class KeySubject:
    """Somebody with this service key."""

    key_id: str


@dataclass(frozen=True, slots=True)
class AccountSubject:
    """A person with this version of an account."""

    name: str
    version: str


Subject: TypeAlias = "KeySubject | AccountSubject | Person"
_KINDS: Mapping[str, type[Any]] = {kind.__name__: kind for kind in (KeySubject, AccountSubject, Person)}


@dataclass(frozen=True, slots=True)
class PageSession:
    """A valid session. session_id: names it in a sign-out."""

    session_id: str
    subject: Subject


@dataclass(frozen=True, slots=True)
class KnownBrowser:
    """A browser, with digests of the accounts that signed in with it, latest first."""

    browser_id: str = ""
    accounts: tuple[str, ...] = ()

    def knows(self, name: str) -> bool:
        """Whether the account has signed in with this browser."""
        return _digest(name) in self.accounts


class PageSessions:
    """Signs and reads cookies. Workers and replicas with the same secret accept each other's."""

    def __init__(self, secret: str = "", public_url: str = "") -> None:
        """secret: empty for a random one; then sessions end with the process.

        public_url: the service's URL in browsers; empty to take it from each request.
        """
        self._public_url = public_url
        secret = secret or secrets.token_urlsafe(32)
        self._signer = URLSafeTimedSerializer(secret, salt=_SALT)
        self._known_signer = URLSafeTimedSerializer(secret, salt=_KNOWN_SALT)

    def is_secure(self, request: Request) -> bool:
        """Whether the browser uses HTTPS; then cookies are sent over HTTPS alone."""
        return (self._public_url or str(request.url)).startswith("https:")

    def begin(self, request: Request, response: Response, subject: Subject) -> None:
        """Sets the cookie of a new session."""
        response.set_cookie(
            COOKIE,
            self._signer.dumps([type(subject).__name__, asdict(subject), secrets.token_hex(16)]),
            max_age=LIFETIME_S,
            secure=self.is_secure(request),
            httponly=True,
            samesite="strict",
        )

    def end(self, response: Response) -> None:
        """Deletes the cookie."""
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")

    def session(self, headers: Mapping[bytes, bytes]) -> PageSession | None:
        """The session in the headers of a request of our page; None without a valid one."""
        if not is_of_page(headers):
            return None
        try:
            kind, fields, session_id = _cookie_value(headers, COOKIE, self._signer, LIFETIME_S)
            return PageSession(session_id, _KINDS[kind](**fields))
        except _UNREADABLE:
            return None

    def remember(
        self, request: Request, response: Response, browser: KnownBrowser, name: str, path: str
    ) -> None:
        """Sets the cookie that remembers the account in this browser. path: of the sign-in routes."""
        accounts = [*dict.fromkeys((_digest(name), *browser.accounts))][:_MOST_KNOWN]
        response.set_cookie(
            KNOWN_COOKIE,
            self._known_signer.dumps([browser.browser_id or secrets.token_hex(16), accounts]),
            max_age=KNOWN_S,
            path=path,
            secure=self.is_secure(request),
            httponly=True,
            samesite="strict",
        )

    def browser(self, headers: Mapping[bytes, bytes]) -> KnownBrowser:
        """The browser of a request; without a browser_id if nobody signed in with it."""
        try:
            browser_id, accounts = _cookie_value(headers, KNOWN_COOKIE, self._known_signer, KNOWN_S)
            return KnownBrowser(browser_id, tuple(accounts))
        except _UNREADABLE:
            return KnownBrowser()


# The latter three: there is no cookie, or it is of another version of ours.
_UNREADABLE = (BadData, CookieError, KeyError, TypeError, ValueError)


def _cookie_value(
    headers: Mapping[bytes, bytes], name: str, signer: URLSafeTimedSerializer, lifetime_s: int
) -> Any:
    """The signed value of a cookie. Raises one of `_UNREADABLE`."""
    cookies = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
    return signer.loads(cookies[name].value, max_age=lifetime_s)


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def is_of_page(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the admin page makes the request, according to the browser."""
    return PAGE_HEADER in headers and not is_of_another_site(headers)


def is_of_another_site(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a page of another origin makes the request, according to the browser."""
    return headers.get(b"sec-fetch-site", b"none") not in _OWN
