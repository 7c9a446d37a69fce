"""Sign-in at an identity provider, by OpenID Connect: the authorization code flow with PKCE, state and nonce.

authlib does the flow and checks the provider's token. A signed cookie of the browser holds the state of the
sign-in, so any worker can finish it. Needs `toolroll[oidc]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx2
from authlib.integrations.starlette_client import OAuth, OAuthError
from fastapi import Request, Response
from itsdangerous import BadData, URLSafeTimedSerializer
from joserfc.errors import JoseError

from toolroll.model.errors import Denied, Unavailable
from toolroll.server.callers import Person, caller_of_person
from toolroll.server.settings import ServerSettings

COOKIE = "toolroll_sign_in"
LIFETIME_S = 600.0  # of an unfinished sign-in: people look for their password, or their telephone
TIMEOUT_S = 10.0  # of a request to the provider
_SALT = "toolroll.sign-in"
_NAMES = ("preferred_username", "email", "name", "sub")  # the first that the token has names the person
_CLIENT = "provider"


class IdentityProvider:
    """One OpenID Connect provider, which signs people in.

    Attributes:
        label: its name on the page's button.
    """

    def __init__(self, settings: ServerSettings, secret: str, path: str) -> None:
        """secret: signs the cookies. path: of the routes, to which the cookies are bound."""
        self.label = settings.oidc_label or urlsplit(settings.oidc_issuer).hostname or settings.oidc_issuer
        self._issuer, self._path = settings.oidc_issuer, path
        self._client_id = settings.oidc_client_id
        self._groups_claim, self._grants = settings.oidc_groups_claim, settings.oidc_grants
        self._signer = URLSafeTimedSerializer(secret, salt=_SALT)
        self._client = OAuth().register(
            _CLIENT,
            client_id=settings.oidc_client_id,
            client_secret=settings.oidc_client_secret or None,
            server_metadata_url=f"{self._issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={
                "scope": settings.oidc_scopes,
                "code_challenge_method": "S256",
                "timeout": TIMEOUT_S,
                **({} if settings.oidc_client_secret else {"token_endpoint_auth_method": "none"}),
            },
        )

    async def begin(self, request: Request, callback: str, *, secure: bool) -> Response:
        """Sends the browser to the provider, which sends it back to `callback`.

        Raises:
            Unavailable: the provider does not answer.
        """
        request.scope["session"] = state = dict[str, Any]()
        try:
            response: Response = await self._client.authorize_redirect(request, callback)
        except (httpx2.HTTPError, ValueError, RuntimeError) as error:
            raise Unavailable(f"{self._issuer}: cannot be asked: {error}") from error
        response.set_cookie(
            COOKIE,
            self._signer.dumps(state),
            max_age=int(LIFETIME_S),
            path=self._path,
            secure=secure,
            httponly=True,
            samesite="lax",  # the provider, another site, sends the browser back
        )
        return response

    async def finish(self, request: Request) -> Person:
        """The person that signed in, from the request that comes back from the provider.

        Raises:
            Denied: this browser did not begin the sign-in, the token is wrong, or no grant applies to the
                person.
            Unavailable: the provider does not answer.
        """
        try:
            state = self._signer.loads(request.cookies.get(COOKIE, ""), max_age=int(LIFETIME_S))
        except BadData as error:
            raise Denied("no sign-in has begun in this browser, or it took too long") from error
        request.scope["session"] = state
        known = {
            "iss": {"essential": True, "value": self._issuer},
            "aud": {"essential": True, "value": self._client_id},
        }
        try:
            token = await self._client.authorize_access_token(request, claims_options=known)
        except httpx2.HTTPError as error:
            raise Unavailable(f"{self._issuer}: cannot be asked: {error}") from error
        except (OAuthError, JoseError, ValueError, RuntimeError) as error:
            raise Denied(f"{self._issuer}: no valid sign-in: {str(error)!r:.200}") from error
        claims = token.get("userinfo")
        if not claims:
            raise Denied(f"{self._issuer}: sent no ID token")
        person = self._person(claims)
        if caller_of_person(person, self._grants, "") is None:
            raise Denied(f"{person.name} ({person.subject}): no grant of the service applies")
        return person

    def forget(self, response: Response) -> None:
        """Deletes the cookie of an unfinished sign-in."""
        response.delete_cookie(COOKIE, path=self._path, httponly=True, samesite="lax")

    def _person(self, claims: Mapping[str, Any]) -> Person:
        """The person of these claims, with the groups and organisations that the grants name."""
        groups = claims.get(self._groups_claim)
        groups = [groups] if isinstance(groups, str) else groups
        theirs = {each for each in groups if isinstance(each, str)} if isinstance(groups, list) else set()
        return Person(
            issuer=self._issuer,
            subject=str(claims["sub"]),
            name=next(str(claims[name]) for name in _NAMES if claims.get(name)),
            groups=tuple(sorted(theirs & {grant.group for grant in self._grants})),
            orgs={
                grant.org_claim: claims[grant.org_claim]
                for grant in self._grants
                if grant.org_claim and isinstance(claims.get(grant.org_claim), str)
            },
        )
