"""An MCP server over HTTP that wants its users to sign in, with an authorization server made with the package mcp."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    ProviderTokenVerifier,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.routes import (
    build_resource_metadata_url,
    create_auth_routes,
    create_protected_resource_routes,
)
from mcp.server.auth.settings import ClientRegistrationOptions
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.routing import Route

from toolroll.gateway.protocol import Json, httpx_client
from toolroll.gateway.server_side import Incoming, ServerSide


class Authorization:
    """The authorization server. Whoever comes is `user`, who agrees at once.

    Attributes:
        user: who sits at the browser; "" for somebody who refuses.
        lifetime_s: of access tokens.
        signs: makes a user's access token; None for one that says nothing.
        renewals: how many were renewed.
        registrations: how many clients have registered.
    """

    def __init__(self) -> None:
        self.user, self.lifetime_s, self.renewals = "ann", 3_600, 0
        self.signs: Callable[[str], str] | None = None
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[str(client_info.client_id)] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        if not self.user:
            return construct_redirect_uri(str(params.redirect_uri), error="access_denied", state=params.state)
        code = AuthorizationCode(
            code=secrets.token_hex(16),
            scopes=[],
            expires_at=time.time() + 60,
            client_id=str(client.client_id),
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
            subject=self.user,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: Any, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._tokens(client, str(authorization_code.subject), authorization_code.resource)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: Any, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        if self.refresh.pop(refresh_token.token, None) is None:
            raise TokenError("invalid_grant", "it was used already")
        self.renewals += 1
        return self._tokens(client, str(refresh_token.subject), refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        found = self.access.get(token)
        return found if found is not None and (found.expires_at or 0) > time.time() else None

    async def revoke_token(self, token: Any) -> None:
        """Not offered."""

    def _tokens(self, client: Any, user: str, resource: str | None) -> OAuthToken:
        access, refresh = self.signs(user) if self.signs else secrets.token_hex(16), secrets.token_hex(16)
        client_id = str(client.client_id)
        expires_at = int(time.time()) + self.lifetime_s
        self.access[access] = AccessToken(
            token=access,
            client_id=client_id,
            scopes=[],
            expires_at=expires_at,
            resource=resource,
            subject=user,
        )
        self.refresh[refresh] = RefreshToken(
            token=refresh, client_id=client_id, scopes=[], resource=resource, subject=user
        )
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=self.lifetime_s)


def protected_app(authorization: Authorization, url: str) -> Starlette:
    """The server with its authorization server, at this URL. Its tool `whoami` names the token's user."""
    schema = {"type": "object", "properties": {}}

    async def listed(_: Incoming) -> Json:
        return {"tools": [{"name": "whoami", "description": "Says who calls", "inputSchema": schema}]}

    async def called(incoming: Incoming) -> Json:
        return {"content": [{"type": "text", "text": incoming.token.subject}]}

    side = ServerSide("protected", "1", "", {"tools/list": listed, "tools/call": called})
    manager = side.http(TransportSecuritySettings(allowed_hosts=["127.0.0.1:*"]))
    resource = AnyHttpUrl(f"{url}/mcp")
    guarded = RequireAuthMiddleware(_Endpoint(manager), [], build_resource_metadata_url(resource))

    @asynccontextmanager
    async def lifespan(_: Any):
        async with manager.run():
            yield

    return Starlette(
        routes=[
            Route("/mcp", guarded),
            *create_auth_routes(
                authorization,  # type: ignore[arg-type]
                AnyHttpUrl(url),
                client_registration_options=ClientRegistrationOptions(enabled=True),
            ),
            *create_protected_resource_routes(resource, [AnyHttpUrl(url)]),
        ],
        middleware=[
            Middleware(
                AuthenticationMiddleware,
                backend=BearerAuthBackend(ProviderTokenVerifier(authorization)),  # type: ignore[arg-type]
            )
        ],
        lifespan=lifespan,
    )


class _Endpoint:
    def __init__(self, manager: Any) -> None:
        self._manager = manager

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._manager.handle_request(scope, receive, send)


def browser() -> Any:
    """A browser with cookies of its own."""
    return httpx_client()


async def browse(url: str) -> str:
    """What a new browser shows at the end of the redirects, in which somebody presses each page's button."""
    async with browser() as opened:
        return str((await followed(opened, url)).text)


async def followed(opened: Any, url: str) -> Any:
    """The last answer that a browser gets: it follows redirects and presses the button of each page."""
    response = await opened.get(url, follow_redirects=False)
    while True:
        if response.status_code in (302, 303, 307):
            url = str(response.url.join(response.headers["location"]))
            response = await opened.get(url, follow_redirects=False)
        elif form := re.search('name="page" value="([0-9a-f]+)"', response.text):
            response = await opened.post(url, data={"page": form[1]}, follow_redirects=False)
        else:
            return response
