from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("fastapi")

from fastapi import APIRouter, FastAPI, Request

from tests.table import each_row
from tests.unit.server.asgi import request
from toolroll import Conflict, Denied, InvalidDefinition, InvalidInput, NotFound, ToolrollError
from toolroll.model.errors import StoreUnavailable, Unavailable
from toolroll.server.problems import MEDIA_TYPE, STATUSES, ProblemRoute, problem_of_bug


def answer(error: Exception | None, path: str = "/3") -> tuple[int, dict[str, str], dict[str, Any]]:
    """Status, headers and body of a host's application whose route, mounted from us, raises the error."""
    router = APIRouter(route_class=ProblemRoute)

    @router.get("/{number}")
    async def read(number: int) -> int:
        if error is not None:
            raise error
        return number

    host = FastAPI()
    host.include_router(router)
    return request(host, "GET", path)


@each_row(
    ("error", "status"),
    [
        (InvalidInput("k is -1, must be > 0"), 422),
        (NotFound("no such tool"), 404),
        (Denied("not allowed"), 403),
        (Conflict("moved on"), 409),
        (StoreUnavailable("away"), 503),
        (ToolrollError("odd"), 500),
    ],
)
def test_each_of_our_errors_has_its_status_and_says_what_it_says(error, status):
    found, headers, body = answer(error)
    assert (found, headers["content-type"]) == (status, MEDIA_TYPE)
    assert (body["type"], body["status"], body["detail"]) == ("about:blank", status, str(error))


def test_every_kind_of_error_has_a_status():
    kinds = [kind for kind in ToolrollError.__subclasses__() if kind.__module__ == ToolrollError.__module__]
    assert set(kinds) <= STATUSES.keys()
    for kind in kinds:
        assert any(issubclass(kind, known) for known in STATUSES), kind


def test_a_definitions_place_is_told_apart_from_its_problem():
    error = InvalidDefinition(
        "timeout_s is -1", file="crm.json", line=41, field="timeout_s", tool="crm_export"
    )
    body = answer(error)[2]
    assert (body["file"], body["line"], body["field"], body["tool"]) == (
        "crm.json",
        41,
        "timeout_s",
        "crm_export",
    )
    assert "column" not in body


@pytest.mark.parametrize(("seconds", "header"), [(None, "1"), (0.2, "1"), (2.1, "3")])
def test_an_answer_that_a_retry_may_change_says_when(seconds, header):
    assert answer(Unavailable("busy", retry_after_s=seconds))[1]["retry-after"] == header


def test_a_wrong_request_is_answered_with_its_places_and_without_its_values():
    status, headers, body = answer(None, "/s3cret")
    assert (status, headers["content-type"]) == (422, MEDIA_TYPE)
    assert body["errors"][0]["field"] == "path.number"
    assert "s3cret" not in json.dumps(body)


def test_an_error_that_is_ours_to_fix_says_nothing_of_itself():
    error = RuntimeError("s3cret")
    answer = asyncio.run(problem_of_bug(Request({"type": "http"}), error))
    assert answer.status_code == 500
    assert b"s3cret" not in answer.body
