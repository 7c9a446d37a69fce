"""An OpenID Connect issuer of tokens, over HTTP, made with joserfc."""

from __future__ import annotations

import base64
import hmac
import json
import time
from typing import Any

from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


class Issuer:
    """Signs tokens and publishes the key."""

    def __init__(self, url: str) -> None:
        self.url, self.is_away = url, False
        self.key = RSAKey.generate_key(2048, {"kid": "k1", "alg": "RS256", "use": "sig"})

    def app(self) -> Starlette:
        async def metadata(_: Request) -> JSONResponse:
            if self.is_away:
                return JSONResponse({}, 500)
            return JSONResponse({"issuer": self.url, "jwks_uri": f"{self.url}/keys"})

        async def keys(_: Request) -> JSONResponse:
            return JSONResponse({"keys": [self.key.as_dict(private=False)]})

        paths = {"/.well-known/openid-configuration": metadata, "/keys": keys}
        return Starlette(routes=[Route(path, answer) for path, answer in paths.items()])

    def token(self, audience: str, **claims: Any) -> str:
        whole = {"iss": self.url, "aud": audience, "sub": "ann", "exp": int(time.time()) + 600, **claims}
        given = {name: value for name, value in whole.items() if value is not None}
        return jwt.encode({"alg": "RS256", "kid": "k1"}, given, self.key)

    def forged(self, audience: str, how: str) -> str:
        """A token that nobody must accept."""
        claims = {
            "iss": self.url,
            "aud": audience,
            "sub": "ann",
            "org": "acme",
            "exp": int(time.time()) + 600,
        }
        if how == "with the public key as a shared secret":
            parts = [_base64(json.dumps(part).encode()) for part in ({"alg": "HS256", "kid": "k1"}, claims)]
            signed = hmac.digest(self.key.as_pem(private=False), ".".join(parts).encode(), "sha256")
            return ".".join((*parts, _base64(signed)))
        if how == "with another key":
            return jwt.encode({"alg": "RS256", "kid": "k1"}, claims, RSAKey.generate_key(2048))
        head, body, _ = self.token(audience, org="acme").split(".")
        if how == "with another body":
            return f"{head}.{body[:-2]}xx.{self.token(audience).split('.')[2]}"
        assert how == "without a signature"
        return f"{_base64(json.dumps({'alg': 'none', 'kid': 'k1'}).encode())}.{body}."


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
