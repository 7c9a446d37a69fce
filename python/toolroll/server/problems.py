"""Errors as problem details (RFC 9457). The statuses of our errors stand here and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from toolroll.errors import (
    Conflict,
    Denied,
    InvalidDefinition,
    InvalidInput,
    NotFound,
    ToolrollError,
    Unavailable,
)

MEDIA_TYPE = "application/problem+json"
STATUSES: Mapping[type[ToolrollError], tuple[int, str]] = {
    InvalidInput: (422, "Invalid input"),
    NotFound: (404, "Not found"),
    Denied: (403, "Denied"),
    Conflict: (409, "Conflict"),
    Unavailable: (503, "Unavailable"),
}
_RETRY_AFTER_S = 1.0  # where an error does not say it


class ProblemRoute(APIRoute):
    """A route that answers our errors and wrong requests with problem details, in any host's application."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with the errors translated."""
        handle = super().get_route_handler()

        async def handle_errors(request: Request) -> Response:
            try:
                return await handle(request)
            except ToolrollError as error:
                return problem_of(error)
            except RequestValidationError as error:
                return _invalid_request(error)
            except HTTPException as error:
                return await problem_of_http(request, error)

        return handle_errors


def problem(status: int, title: str, detail: str, **more: Any) -> JSONResponse:
    """An answer with problem details; `more` are members of its own."""
    content = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
    return JSONResponse(content, status, media_type=MEDIA_TYPE)


def problem_of(error: ToolrollError) -> JSONResponse:
    """The problem details of one of our errors; a definition's have its file, line, field and tool."""
    status, title = next(
        (found for kind, found in STATUSES.items() if isinstance(error, kind)), (500, "Internal error")
    )
    more = {}
    if isinstance(error, InvalidDefinition):
        places = {name: getattr(error, name) for name in ("file", "line", "column", "field", "tool")}
        more = {name: value for name, value in places.items() if value is not None}
    answer = problem(status, title, str(error), **more)
    if isinstance(error, Unavailable):
        wait_s = _RETRY_AFTER_S if error.retry_after_s is None else error.retry_after_s
        answer.headers["Retry-After"] = str(max(1, math.ceil(wait_s)))
    return answer


async def problem_of_http(_: Request, error: Exception) -> Response:
    """The problem details of an error of the framework, such as a path that does not exist."""
    assert isinstance(error, HTTPException)
    answer = problem(error.status_code, HTTPStatus(error.status_code).phrase, str(error.detail))
    answer.headers.update(error.headers or {})
    return answer


async def problem_of_bug(_: Request, error: Exception) -> Response:
    """The answer to an error that is ours to fix: it says nothing more, the log does."""
    return problem(500, "Internal error", "the service failed; its log says why")


def _invalid_request(error: RequestValidationError) -> JSONResponse:
    """The places and problems in a request, without its values: they may be secrets."""
    errors = [{"field": ".".join(map(str, each["loc"])), "problem": each["msg"]} for each in error.errors()]
    detail = "; ".join(f"{each['field']}: {each['problem']}" for each in errors)
    return problem(422, "Invalid input", detail, errors=errors)
