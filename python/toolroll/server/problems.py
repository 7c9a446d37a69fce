"""Errors as problem details (RFC 9457). The statuses of our errors stand here and nowhere else."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic_core import PydanticSerializationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from toolroll.front.configuration_errors import demand, keys_at, one_of, path_in_file
from toolroll.model.errors import (
    Conflict,
    Denied,
    InvalidDefinition,
    InvalidInput,
    NotFound,
    ToolrollError,
    Unavailable,
)
from toolroll.server.admission import OrgRateExceeded, OrgRefused
from toolroll.server.bodies import JsonAnswer
from toolroll.server.large_requests import LargeRequests
from toolroll.server.metering import in_thread

MEDIA_TYPE = "application/problem+json"
STATUSES: Mapping[type[ToolrollError], tuple[int, str]] = {
    InvalidInput: (422, "Invalid input"),
    NotFound: (404, "Not found"),
    Denied: (403, "Denied"),
    Conflict: (409, "Conflict"),
    OrgRateExceeded: (429, "Too many requests"),
    OrgRefused: (503, "Busy"),
    Unavailable: (503, "Unavailable"),
}
_RETRY_AFTER_S = 1.0  # if an error has none


class ProblemRoute(APIRoute):
    """A route that answers our errors and wrong requests with problem details, in any host's application.

    Behind our gate, requests with long bodies take turns.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        if not inspect.iscoroutinefunction(endpoint):
            # The framework reads the types of the arguments, which are texts in the module of the endpoint.
            signature = inspect.signature(endpoint, eval_str=True)
            endpoint = in_thread(endpoint)
            endpoint.__signature__ = signature  # type: ignore[attr-defined]
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with the errors translated."""
        handle = super().get_route_handler()

        async def handle_errors(request: Request) -> Response:
            # A host's `identify` may read parameters of its own: only behind our gate do we know them all.
            if "caller" in request.scope.get("state", {}) and (unknown := self._unknown_parameters(request)):
                return _invalid_request(unknown)
            try:
                large = request.scope.get("state", {}).get("large")
                if isinstance(large, LargeRequests) and self.body_field is not None:
                    return await large.answered(request, handle)
                return await handle(request)
            except ToolrollError as error:
                return problem_of(error)
            except PydanticSerializationError:  # the registry has no such text, so the request brought it
                return problem(422, "Invalid input", "a text has half of a surrogate pair")
            except RequestValidationError as error:
                invalid = error.with_traceback(None)  # whose frames keep the body until the next collection
            except HTTPException as error:
                return await problem_of_http(request, error)
            except ClientDisconnect:
                return problem(400, "Bad request", "the client left before its body had come")
            # Outside the handler: an error of ours in there would bring this one, with its values, to the
            # log.
            model = None if self.body_field is None else self.body_field.field_info.annotation
            return _invalid_request(_problems_of(invalid, model, request.headers.get("content-type", "")))

        return handle_errors

    def _unknown_parameters(self, request: Request) -> dict[str, str]:
        """A problem for each parameter in the query that the route does not have."""
        parts = (self.dependant, *self.dependant.dependencies)
        known = [each.alias for part in parts for each in part.query_params]
        return {
            f"query.{name[:80]}": f"is no known parameter{one_of(name[:80], known)}"
            for name in request.query_params
            if name not in known
        }


def problem(status: int, title: str, detail: str, **more: Any) -> JsonAnswer:
    """An answer with problem details; `more` are members of its own."""
    content = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
    return JsonAnswer(content, status, media_type=MEDIA_TYPE)


def problem_of(error: ToolrollError) -> JsonAnswer:
    """The problem details of one of our errors. Those of a definition name its file, line, field and tool."""
    status, title = next(
        (found for kind, found in STATUSES.items() if isinstance(error, kind)), (500, "Internal error")
    )
    more: dict[str, Any] = {}
    if isinstance(error, InvalidDefinition):
        places = {name: getattr(error, name) for name in ("file", "line", "column", "field", "tool")}
        more = {name: value for name, value in places.items() if value is not None}
    if isinstance(error, OrgRefused):
        more["limit"] = error.limit
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
    """The answer to a bug of ours. Only the log has its details."""
    return problem(500, "Internal error", "the service failed; its log says why")


def _invalid_request(problems: Mapping[str, str]) -> JsonAnswer:
    """The answer to a wrong request. problems: by place."""
    errors = [{"field": place, "problem": sentence} for place, sentence in problems.items()]
    detail = "; ".join(f"{place}: {sentence}" for place, sentence in problems.items())
    return problem(422, "Invalid input", detail, errors=errors)


def _problems_of(error: RequestValidationError, model: Any, content_type: str) -> dict[str, str]:
    """The problems of a request, by place, without its values, which may be secrets.

    model: of the body.
    """
    found: dict[tuple[str | int, ...], list[Any]] = {}
    for each in error.errors():
        is_of_body = each["loc"][0] == "body"
        place = path_in_file({"body": error.body}, each) if is_of_body else each["loc"]  # without type names
        found.setdefault(tuple(place), []).append(each)
    # If one of several types fits in part, the problems below it say more.
    inner = {place[:length] for place in found for length in range(1, len(place))}
    return {
        ".".join(map(str, place)): _sentence(place, each, model, content_type)
        for place, each in found.items()
        if place not in inner
    }


def _sentence(place: tuple[str | int, ...], found: Sequence[Any], model: Any, content_type: str) -> str:
    first = found[0]
    if first["type"] == "missing":
        return "is missing"
    if first["type"] == "json_invalid":
        return f"is no JSON: {first['ctx']['error']}, at character {first['loc'][-1]}"
    if first["type"] == "extra_forbidden":
        return f"is no known field{one_of(str(place[-1])[:80], keys_at(model, place[1:-1]))}"
    if first["type"] == "value_error":
        return str(first["msg"])
    is_json = content_type.partition(";")[0].strip().lower().endswith(("/json", "+json"))
    if place == ("body",) and not is_json:
        return f"{demand(found)}, sent with the header Content-Type: application/json"
    return demand(found)
