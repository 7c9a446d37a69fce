"""Lists in pages, and ETags of single rows.

A client must name the version of a row (If-Match) before it changes the row, so nobody overwrites a change
that they have not seen. Source: RFC 9110, sections 8.8.3 and 13.1; RFC 6585.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from fastapi import HTTPException, Request, Response

from toolroll.model.errors import Conflict, InvalidInput
from toolroll.server.bodies import JsonAnswer

T = TypeVar("T")

# For the OpenAPI description of routes with `changed`.
CONDITIONAL: Mapping[str, Any] = {
    "responses": {412: {"description": "The row has another version."}, 428: {"description": "No If-Match."}},
    "openapi_extra": {
        "parameters": [
            {
                "name": "If-Match",
                "in": "header",
                "required": True,
                "description": "The ETag of what you have read, or *.",
                "schema": {"type": "string"},
                "example": '"3"',
            }
        ]
    },
}

_ETAG = re.compile(r'\s*"(\d{1,9})"\s*')


def etag_of(version: int) -> str:
    """The ETag of this version of a row."""
    return f'"{version}"'


def with_etag(content: Any, version: int, status: int = 200, **headers: str) -> Response:
    """A row as JSON, with the ETag of its version."""
    return JsonAnswer(content, status, {"ETag": etag_of(version), **headers})


def unless_known(request: Request, content: Callable[[], Any], version: int) -> Response:
    """The row with its ETag; 304 without the row if the client has this version (If-None-Match)."""
    known = request.headers.get("if-none-match", "")
    if known.strip() == "*" or version in _versions(known.replace("W/", "")):
        return Response(status_code=304, headers={"ETag": etag_of(version)})
    return with_etag(content(), version)


def changed(request: Request, version_now: Callable[[], int], change: Callable[[int], T]) -> T:
    """Calls `change` with the version that the client has read, and returns its result.

    version_now: of the row.

    Raises:
        HTTPException: 428 without If-Match, 412 if the row has another version.
        NotFound, Conflict, …: as `change`.
    """
    header = request.headers.get("if-match")
    if header is None:
        raise HTTPException(428, "If-Match is missing; it must have the ETag of what you have read, or be *")
    version = version_now()
    if header.strip() != "*" and version not in _versions(header):
        raise _outdated_error(version)
    try:
        return change(version)
    except Conflict as error:
        now = version_now()
        if now == version:
            raise
        raise _outdated_error(now) from error


def _versions(header: str) -> set[int]:
    found = (_ETAG.fullmatch(part) for part in header.split(","))
    return {int(match[1]) for match in found if match}


def _outdated_error(version: int) -> HTTPException:
    return HTTPException(
        412, f"the row is at version {version}: read it again, and apply the change to that version"
    )


def page_of(
    name: str, items: Sequence[T], id_of: Callable[[T], str], form: Callable[[T], Any], after: str, limit: int
) -> dict[str, Any]:
    """The items behind the one with the id `after`, under this name; `next` is the `after` of the next page.

    `total` is the number of items on all pages.

    Raises:
        InvalidInput: no item has this id.
    """
    begin = 0
    if after:
        places = [place for place, item in enumerate(items) if id_of(item) == after]
        if not places:
            raise InvalidInput(f"after is {after!r:.80}, must be the `next` of a page")
        begin = places[0] + 1
    part = items[begin : begin + limit]
    is_last = begin + limit >= len(items)
    return {
        name: [form(item) for item in part],
        "next": "" if is_last else id_of(part[-1]),
        "total": len(items),
    }
