"""Verifies callers over HTTP, by tokens of an OpenID Connect issuer and by keys.

The middleware of the package `mcp` asks for the token, answers 401 with the address of the metadata
(RFC 9728), and binds each session to the caller who opened it.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import jwt
from mcp.server.auth.provider import AccessToken
from starlette.authentication import AuthenticationError
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response

from toolroll.gateway.caller import Caller, FindCaller, page_of
from toolroll.gateway.options import CallerOptions, ClaimNames, IdentityOptions
from toolroll.gateway.protocol import httpx_client
from toolroll.gateway.references import resolved
from toolroll.gateway.server_side import Incoming
from toolroll.model.context import Context
from toolroll.model.errors import Denied, InvalidInput, StoreUnavailable
from toolroll.registry.access.service_keys import PREFIX, ServiceKeys

_log = logging.getLogger("toolroll.gateway")

SHORTEST_KEY = 32  # characters
_OF_KEY = "key:"  # the user's name of a service key of the registry begins so
_LONGEST_TOKEN = 16_384
_LEEWAY_S = 30  # that clocks may differ
_TIMEOUT_S = 10.0  # for a request to the issuer
_RETRY_S = 5
_KEYS_S = 300.0  # that the issuer's signing keys are believed
_METADATA = ("/.well-known/openid-configuration", "/.well-known/oauth-authorization-server")
# Signatures with a private key. A shared secret would let whoever can verify a token also make one.
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


class IssuerUnavailable(AuthenticationError):
    """The issuer or the registry does not answer, so the token cannot be checked."""


class KeyForbidden(AuthenticationError):
    """The key is valid, but does not allow the use of the gateway's tools."""


class VerifiedToken(AccessToken):  # type: ignore[misc]
    """A verified token, and its bearer."""

    caller: CallerOptions


class Identity:
    """Verifies bearer tokens, for `BearerAuthBackend` of the package `mcp`."""

    def __init__(
        self,
        options: IdentityOptions,
        others: CallerOptions,
        environ: Mapping[str, str],
        folder: Path,
        registry_keys: ServiceKeys | None = None,
    ) -> None:
        """others: values of fields that the options do not map. folder: of the configuration.

        registry_keys: the service keys of a registry, if they are accepted.

        Raises:
            InvalidInput: a key is too short, or its reference cannot be resolved.
        """
        self.options = options
        self._registry_keys = registry_keys
        self._others = others
        self._audience = options.audience or options.resource
        self._keys: list[tuple[bytes, str, CallerOptions]] = []
        self._signing: jwt.PyJWKClient | None = None
        self._discovering = anyio.Lock()
        for name, given in options.keys.items():
            try:
                key = resolved(given.key, environ, folder)
            except InvalidInput as error:
                raise InvalidInput(f"identity.keys.{name}.key: {error}") from error
            if len(key) < SHORTEST_KEY:
                raise InvalidInput(
                    f"identity.keys.{name}: has {len(key)} characters, must have {SHORTEST_KEY}; "
                    "`openssl rand -hex 32` makes one"
                )
            caller = CallerOptions(
                **{**given.model_dump(exclude={"key"}), "user": given.user or name, "page": others.page}
            )
            self._keys.append((_digest(key), name, caller))

    async def verify_token(self, token: str) -> VerifiedToken | None:
        """Returns the bearer of a token or key; None if it is not valid.

        Raises:
            IssuerUnavailable: the issuer or the registry does not answer.
            KeyForbidden: the key lacks the role "select".
        """
        digest = _digest(token)
        for known, name, caller in self._keys:
            if hmac.compare_digest(known, digest):
                return self._of_key(token, name, caller)
        if self._registry_keys is not None and token.startswith(f"{PREFIX}_"):
            return await self._registry_key(token, self._registry_keys)
        if not self.options.issuer or token.count(".") != 2 or len(token) > _LONGEST_TOKEN:
            return None
        signing = await self._signing_keys()
        try:  # in a thread: it may have to fetch the issuer's keys
            claims = await anyio.to_thread.run_sync(self._claims, token, signing)
            caller = self._caller(claims)
        except jwt.PyJWKClientConnectionError as error:
            raise IssuerUnavailable(f"the keys of {self.options.issuer} cannot be read: {error}") from error
        except (jwt.PyJWTError, Denied) as error:
            _log.warning("a bearer token is refused: %s", error)
            return None
        return VerifiedToken(
            token=token,
            client_id=str(claims.get("azp") or claims.get("client_id") or claims["sub"]),
            scopes=_scopes(claims),
            expires_at=int(claims["exp"]) + _LEEWAY_S,
            subject=str(claims["sub"]),
            claims={"iss": claims["iss"]},
            caller=caller,
        )

    async def _registry_key(self, token: str, keys: ServiceKeys) -> VerifiedToken | None:
        """Returns the bearer of a registry's key. Each request asks: a revoked key is refused at once."""
        mapped = self.options.registry_keys
        assert mapped is not None
        try:
            key = await anyio.to_thread.run_sync(keys.find, token, datetime.now(timezone.utc))
        except StoreUnavailable as error:
            raise IssuerUnavailable(f"service keys cannot be read: {error}") from error
        if key is None:
            return None
        if "select" not in key.roles:
            raise KeyForbidden(f"service key {key.key_id} lacks the role 'select'")
        roles = [each for role, given in mapped.roles.items() if role in key.roles for each in given]
        org = self._others.org if key.org is None else key.org
        caller = CallerOptions(
            org=org,
            user=f"{_OF_KEY}{key.name}",
            roles=tuple(dict.fromkeys(roles)),
            tier=mapped.tier,
            page=self._others.page,
        )
        return self._of_key(token, key.key_id, caller)

    def _of_key(self, token: str, name: str, caller: CallerOptions) -> VerifiedToken:
        """Returns the bearer of a key. A key counts as a token with all scopes."""
        scopes = list(self.options.scopes)
        return VerifiedToken(
            token=token, client_id=f"key {name}", scopes=scopes, subject=caller.user, caller=caller
        )

    def _claims(self, token: str, signing: jwt.PyJWKClient) -> dict[str, Any]:
        claims: dict[str, Any] = jwt.decode(
            token,
            signing.get_signing_key_from_jwt(token),
            algorithms=_ALGORITHMS,
            audience=self._audience,
            issuer=self.options.issuer,
            leeway=_LEEWAY_S,
            options={"require": ["exp", "iss", "aud", "sub"]},
        )
        return claims

    def _caller(self, claims: Mapping[str, Any]) -> CallerOptions:
        """Returns the caller that the claims describe.

        Raises:
            Denied: the claim of the organisation or user is missing, or a claim has the wrong type.
        """
        found = self._others.model_dump()
        for field in ClaimNames.model_fields:
            name = getattr(self.options.claims, field)
            if not name:
                continue
            value = _claim(claims, name)
            if field == "roles":
                value = value.split() if isinstance(value, str) else [] if value is None else value
                if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
                    raise Denied(f"claim {name!r}: must be a list of texts")
            elif field == "tier" and value is None:
                value = ""  # unknown: no rule shows it anything
            elif not isinstance(value, str) or not value:
                raise Denied(f"claim {name!r}: is {value!r:.80}, must be a text")
            found[field] = value
        if found["user"].startswith(_OF_KEY):
            raise Denied(f"user {found['user']!r:.80}: has the name of a service key")
        return CallerOptions.model_validate(found)

    async def _signing_keys(self) -> jwt.PyJWKClient:
        async with self._discovering:
            if self._signing is None:
                uri = await self._keys_uri()
                self._signing = jwt.PyJWKClient(uri, lifespan=_KEYS_S, timeout=_TIMEOUT_S)
            return self._signing

    async def _keys_uri(self) -> str:
        """Returns the address of the issuer's signing keys, from its metadata."""
        issuer, problem = self.options.issuer, ""
        async with httpx_client() as client:
            for path in _METADATA:
                try:
                    with anyio.fail_after(_TIMEOUT_S):
                        response = await client.get(issuer.rstrip("/") + path)
                    metadata = response.json() if response.status_code == 200 else {}
                    if metadata.get("issuer") == issuer and isinstance(metadata.get("jwks_uri"), str):
                        return str(metadata["jwks_uri"])
                    problem = problem or f"{path}: status {response.status_code}, no metadata of this issuer"
                except Exception as error:  # of whatever HTTP library the package uses
                    problem = problem or f"{path}: {error or type(error).__name__}"
        raise IssuerUnavailable(f"issuer {issuer}: {problem}")


def identified_caller(process: str) -> FindCaller:
    """Takes the caller from the request's token, and the page from its path.

    process: names the conversation of a client without a session.
    """

    async def caller_of(incoming: Incoming) -> Caller:
        if not isinstance(incoming.token, VerifiedToken):
            raise Denied("the request has no verified token")
        who = incoming.token.caller
        page = page_of(incoming.path) or who.page
        context = Context(who.org, who.user, who.roles, who.tier, page, provider="mcp")
        # A session that somebody else guesses is another conversation.
        named = "\0".join((context.org, context.user, incoming.session_id or f"{process}/{page}"))
        return Caller(context, hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest(), incoming)

    return caller_of


def on_authentication_error(_: HTTPConnection, error: AuthenticationError) -> Response:
    """Answers a request whose token cannot be checked now, or whose key has another purpose."""
    _log.warning("%s", error)
    if isinstance(error, KeyForbidden):
        return JSONResponse({"error": "insufficient_scope", "error_description": str(error)}, 403)
    told = "the issuer or the registry does not answer"
    answer = {"error": "temporarily_unavailable", "error_description": told}
    return JSONResponse(answer, 503, {"Retry-After": str(_RETRY_S)})


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """Returns a claim by its name, or by a path such as `realm_access.roles`."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _scopes(claims: Mapping[str, Any]) -> list[str]:
    given = claims.get("scope", claims.get("scp", ""))
    return given.split() if isinstance(given, str) else [str(each) for each in given or ()]
