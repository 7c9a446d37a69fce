"""Sessions of the admin page: a cookie in place of a service key, for a browser.

The cookie says who signed in and when, signed: the id of a key, the name of an account and its version, or
what the identity provider said of a person. It has no key and no password. It is valid for `LIFETIME_S` at
most, and no longer than the key or the account. Nothing is stored, so each worker can check it.

Other sites cannot use the cookie. Browsers do not send it with their requests (SameSite=Strict). The service
ignores it without the header `X-Toolroll-Page`, which a script of another origin cannot send.
Source: OWASP, "Cross-Site Request Forgery Prevention Cheat Sheet": custom headers, Fetch Metadata.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any, TypeAlias

from fastapi import Request, Response
from itsdangerous import BadData, URLSafeTimedSerializer

COOKIE = "toolroll_session"
PAGE_HEADER = b"x-toolroll-page"
LIFETIME_S = 12 * 3_600
_SALT = "toolroll.page"
_OWN = (b"same-origin", b"none")  # none: the user, not a page, made the request


@dataclass(frozen=True, slots=True)
class KeySubject:
    """Somebody with this service key."""

    key_id: str


@dataclass(frozen=True, slots=True)
class AccountSubject:
    """A person with an account, as it was at this version."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Person:
    """A person whom an identity provider knows.

    Attributes:
        issuer, subject: who it is; the provider never gives the same pair to somebody else.
        name: for people, and for the audit log.
        groups: of the person, as far as the service's settings name them.
        orgs: claim → organisation, of the claims that the settings name.
    """

    issuer: str
    subject: str
    name: str
    groups: tuple[str, ...]
    orgs: Mapping[str, str]


Subject: TypeAlias = "KeySubject | AccountSubject | Person"
_KINDS: Mapping[str, type[Any]] = {kind.__name__: kind for kind in (KeySubject, AccountSubject, Person)}


class PageSessions:
    """Signs and reads the cookies of one service.

    Workers and replicas that have the same secret accept each other's cookies.
    """

    def __init__(self, secret: str = "", public_url: str = "") -> None:
        """secret: empty for a random one, with which sessions end when the process does.

        public_url: the service as browsers know it; empty to believe each request.
        """
        self._public_url = public_url
        self._signer = URLSafeTimedSerializer(secret or secrets.token_urlsafe(32), salt=_SALT)

    def is_secure(self, request: Request) -> bool:
        """Whether the browser speaks HTTPS, so that it shall send cookies over HTTPS alone."""
        return (self._public_url or str(request.url)).startswith("https:")

    def begin(self, request: Request, response: Response, subject: Subject) -> None:
        """Sets the cookie of a new session."""
        response.set_cookie(
            COOKIE,
            self._signer.dumps([type(subject).__name__, asdict(subject)]),
            max_age=LIFETIME_S,
            secure=self.is_secure(request),
            httponly=True,
            samesite="strict",
        )

    def end(self, response: Response) -> None:
        """Deletes the cookie."""
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")

    def subject(self, headers: Mapping[bytes, bytes]) -> Subject | None:
        """Who makes a request with these headers; None without a valid session of our page."""
        if not is_of_page(headers):
            return None
        try:
            cookie = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1")).get(COOKIE)
            if cookie is None:
                return None
            kind, fields = self._signer.loads(cookie.value, max_age=LIFETIME_S)
            subject: Subject = _KINDS[kind](**fields)
        except (
            BadData,
            CookieError,
            KeyError,
            TypeError,
            ValueError,
        ):  # the latter: of another version of ours
            return None
        return subject


def is_of_page(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the admin page makes the request, as far as a browser says so."""
    return PAGE_HEADER in headers and not is_of_another_site(headers)


def is_of_another_site(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a browser says that a page of another origin makes the request."""
    return headers.get(b"sec-fetch-site", b"none") not in _OWN
