"""An OpenID Connect issuer of tokens, over HTTP, made with joserfc. People sign in there without a page."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlencode

from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse
from starlette.routing import Route


class Issuer:
    """Signs tokens and publishes the key.

    Attributes:
        claims: of whoever signs in. "nonce" and "aud" are those of the request where they are not here.
        signs: makes the ID token of these claims; None for the issuer's own key.
    """

    def __init__(self, url: str) -> None:
        self.url, self.is_away = url, False
        self.claims: dict[str, Any] = {}
        self.signs: Callable[[dict[str, Any]], str] | None = None
        self._requests: dict[str, dict[str, str]] = {}  # by code
        self.key = RSAKey.generate_key(2048, {"kid": "k1", "alg": "RS256", "use": "sig"})

    def app(self) -> Starlette:
        async def metadata(_: Request) -> JSONResponse:
            if self.is_away:
                return JSONResponse({}, 500)
            endpoints = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
            return JSONResponse(
                {
                    "issuer": self.url,
                    "id_token_signing_alg_values_supported": ["RS256"],
                    **{name: f"{self.url}/{path}" for name, path in endpoints.items()},
                }
            )

        async def keys(_: Request) -> JSONResponse:
            return JSONResponse({"keys": [self.key.as_dict(private=False)]})

        async def authorize(request: Request) -> RedirectResponse:
            asked = dict(request.query_params)
            assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
            code = secrets.token_urlsafe(16)
            self._requests[code] = asked
            answer = urlencode({"code": code, "state": asked["state"]})
            return RedirectResponse(f"{asked['redirect_uri']}?{answer}", 302)

        async def token(request: Request) -> JSONResponse:
            form = dict(parse_qsl((await request.body()).decode()))
            asked = self._requests.pop(form["code"], None)  # a code works once
            if asked is None or form["redirect_uri"] != asked["redirect_uri"]:
                return JSONResponse({"error": "invalid_grant"}, 400)
            if _base64(hashlib.sha256(form["code_verifier"].encode()).digest()) != asked["code_challenge"]:
                return JSONResponse({"error": "invalid_grant", "error_description": "PKCE"}, 400)
            now = int(time.time())
            claims = {"iat": now, "nonce": asked["nonce"], **self.claims}
            audience = claims.pop("aud", asked["client_id"])
            signed = self.token(audience, **claims) if self.signs is None else self.signs(claims)
            return JSONResponse({"access_token": "opaque", "token_type": "Bearer", "id_token": signed})

        paths = {"/.well-known/openid-configuration": metadata, "/keys": keys, "/authorize": authorize}
        return Starlette(
            routes=[
                *(Route(path, answer) for path, answer in paths.items()),
                Route("/token", token, methods=["POST"]),
            ]
        )

    def token(self, audience: str, **claims: Any) -> str:
        whole = {"iss": self.url, "aud": audience, "sub": "ann", "exp": int(time.time()) + 600, **claims}
        given = {name: value for name, value in whole.items() if value is not None}
        return jwt.encode({"alg": "RS256", "kid": "k1"}, given, self.key)

    def forged(self, audience: str, how: str, **more: Any) -> str:
        """A token that nobody must accept."""
        claims = {
            "iss": self.url,
            "aud": audience,
            "sub": "ann",
            "org": "acme",
            "exp": int(time.time()) + 600,
            **more,
        }
        if how == "with the public key as a shared secret":
            parts = [_base64(json.dumps(part).encode()) for part in ({"alg": "HS256", "kid": "k1"}, claims)]
            signed = hmac.digest(self.key.as_pem(private=False), ".".join(parts).encode(), "sha256")
            return ".".join((*parts, _base64(signed)))
        if how == "with another key":
            return jwt.encode({"alg": "RS256", "kid": "k1"}, claims, RSAKey.generate_key(2048))
        head, body, _ = self.token(audience, **{"org": "acme", **more}).split(".")
        if how == "with another body":
            return f"{head}.{body[:-2]}xx.{self.token(audience).split('.')[2]}"
        assert how == "without a signature"
        return f"{_base64(json.dumps({'alg': 'none', 'kid': 'k1'}).encode())}.{body}."


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
