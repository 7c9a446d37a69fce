"""The OpenAPI description: FastAPI's own, completed with keys, problem details and readable names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Response
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from toolroll.server.gate import OPEN_PATHS
from toolroll.server.page import is_open
from toolroll.server.problems import MEDIA_TYPE

ABOUT = """Selects the tools that a message needs, and keeps the registry they come from.

Each request but a probe has a service key: `Authorization: Bearer KEY` or `X-Service-Key: KEY`.
"""

PATH = "/openapi.json"
_METHODS = ("get", "put", "post", "delete")
_KEYS: Mapping[str, Any] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "service-key": {"type": "apiKey", "in": "header", "name": "X-Service-Key"},
}
_PROBLEM: Mapping[str, Any] = {
    "title": "Problem",
    "description": "Problem details, as RFC 9457 has them.",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "const": "about:blank"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"field": {"type": "string"}, "problem": {"type": "string"}},
            },
        },
        **{name: {"type": "string"} for name in ("file", "field", "tool", "limit")},
        **{name: {"type": "integer"} for name in ("line", "column")},
    },
    "examples": [
        {"type": "about:blank", "title": "Invalid input", "status": 422, "detail": "k is -1, must be > 0"}
    ],
}
_OF_ALL = (400, 401, 403, 413, 421, 422, 429, 503)
_OF_ROWS = (404, 409)  # of routes that name a row
_RETRY_AFTER = (429, 503)


def operation_id(route: APIRoute) -> str:
    """The operation's name in generated clients: its tag and the function's name."""
    return f"{route.tags[0]}_{route.name}".replace(" ", "_") if route.tags else route.name


def describe(application: FastAPI) -> None:
    """Replaces the application's `openapi` by the complete description, and adds a route for it."""

    def openapi() -> dict[str, Any]:
        if application.openapi_schema is None:
            application.openapi_schema = _whole_description(application)
        return application.openapi_schema

    application.openapi = openapi  # type: ignore[method-assign]  # as FastAPI's documentation extends it
    written: list[bytes] = []  # once: writing it takes milliseconds, and nobody needs a key to read it

    @application.get(PATH, include_in_schema=False)
    async def description() -> Response:
        """The description."""
        if not written:
            written.append(json.dumps(openapi(), ensure_ascii=False, separators=(",", ":")).encode())
        return Response(written[0], media_type="application/json")


def _whole_description(application: FastAPI) -> dict[str, Any]:
    found: dict[str, Any] = get_openapi(
        title=application.title, version=application.version, description=ABOUT, routes=application.routes
    )
    components = found.setdefault("components", {})
    components["securitySchemes"] = dict(_KEYS)
    schemas = components.setdefault("schemas", {})
    schemas["Problem"] = dict(_PROBLEM)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    found["security"] = [{name: []} for name in _KEYS]
    for path, methods in found["paths"].items():
        for method in _METHODS:
            if method in methods:
                _complete(path, methods[method])
    return found


def _complete(path: str, operation: dict[str, Any]) -> None:
    """Adds the answers that every route may give. Marks the routes that need no key."""
    responses = operation["responses"]
    if path in OPEN_PATHS or is_open(path):
        operation["security"] = []
    if path in OPEN_PATHS:
        return
    names_rows = "{" in path or "requestBody" in operation
    for status in (*_OF_ALL, *(_OF_ROWS if names_rows else ())):
        if status == 422 or str(status) not in responses:
            responses[str(status)] = _problem(status)
    for status, answer in responses.items():
        if int(status) >= 400 and "content" not in answer:
            responses[status] = {**_problem(int(status)), **answer}


def _problem(status: int) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    if status in _RETRY_AFTER:
        answer["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
    return answer
