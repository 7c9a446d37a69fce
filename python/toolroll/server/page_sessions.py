"""Sessions of the admin page: a cookie in place of a service key, for a browser.

The cookie has the id of the key and the time of the sign-in, signed. It does not have the key. It is valid
while the key is, and for `LIFETIME_S` at most. Nothing is stored, so each worker can check it.

Other sites cannot use the cookie. Browsers do not send it with their requests (SameSite=Strict). The service
ignores it without the header `X-Toolroll-Page`, which a script of another origin cannot send.
Source: OWASP, "Cross-Site Request Forgery Prevention Cheat Sheet": custom headers, Fetch Metadata.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

from fastapi import Response
from itsdangerous import BadData, URLSafeTimedSerializer

COOKIE = "toolroll_session"
PAGE_HEADER = b"x-toolroll-page"
LIFETIME_S = 12 * 3_600
_SALT = "toolroll.page"
_OWN = (b"same-origin", b"none")  # none: the user, not a page, made the request


class PageSessions:
    """Signs and reads the cookies of one service.

    Workers and replicas that have the same secret accept each other's cookies.
    """

    def __init__(self, secret: str = "") -> None:
        """secret: empty for a random one, with which sessions end when the process does."""
        self._signer = URLSafeTimedSerializer(secret or secrets.token_urlsafe(32), salt=_SALT)

    def begin(self, response: Response, key_id: str, *, secure: bool) -> None:
        """Sets the cookie of a new session. secure: whether browsers send it over HTTPS alone."""
        response.set_cookie(
            COOKIE,
            self._signer.dumps(key_id),
            max_age=LIFETIME_S,
            secure=secure,
            httponly=True,
            samesite="strict",
        )

    def end(self, response: Response) -> None:
        """Deletes the cookie."""
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")

    def key_id(self, headers: Mapping[bytes, bytes]) -> str | None:
        """The id of the key whose session makes a request; None without a valid session."""
        if PAGE_HEADER not in headers:
            return None
        try:
            cookie = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1")).get(COOKIE)
            found = None if cookie is None else self._signer.loads(cookie.value, max_age=LIFETIME_S)
        except (BadData, CookieError):
            return None
        return found if isinstance(found, str) else None


def is_of_another_site(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a browser says that a page of another origin makes the request."""
    return headers.get(b"sec-fetch-site", b"none") not in _OWN
