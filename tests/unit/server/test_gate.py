"""The gate: which requests get to the routes, and as whom."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("fastapi")

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException

from tests.table import each_row
from tests.unit.server.asgi import arequest, request
from toolroll import Denied, Registry
from toolroll.front.bodies import BodiesInFlight
from toolroll.model.errors import StoreUnavailable
from toolroll.server.admission import RequestLimits
from toolroll.server.callers import Caller, caller_of, trusted
from toolroll.server.gate import Gate
from toolroll.server.key_reader import STALE_S, KeyReader


@pytest.fixture
def registry(tmp_path):
    with Registry.open(f"sqlite:///{tmp_path}/tools.db", actor="ada") as registry:
        yield registry


def gate(registry: Registry | None, **changes: Any) -> Gate:
    """A gate before an application that says who calls, and how long the body is."""
    application = FastAPI()

    @application.post("/who")
    async def who(request: Request) -> dict[str, Any]:
        caller = caller_of(request)
        size = len(await request.body())
        return {"actor": caller.actor, "org": caller.org, "roles": sorted(caller.roles), "size": size}

    @application.get("/healthz")
    async def is_alive() -> str:
        return "ok"

    values: dict[str, Any] = {
        "keys": None if registry is None else KeyReader(registry.keys),
        "limits": RequestLimits("1000/second", 8),
        "hosts": frozenset({"localhost", "[::1]"}),
        "bodies": BodiesInFlight(2_000, 4_000),
    }
    return Gate(application, **{**values, **changes})


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def test_a_caller_has_the_name_organisation_and_roles_of_the_key(registry):
    key, text = registry.keys.add("backend", roles=["select", "report"], org="acme")
    for headers in (bearer(text), {"Authorization": f"bearer {text}"}, {"X-Service-Key": text}):
        status, _, body = request(gate(registry), "POST", "/who", {}, headers=headers)
        assert status == 200
        assert (body["org"], body["roles"]) == ("acme", ["report", "select"])
        assert body["actor"] == f"backend (key {key.key_id}) from 10.0.0.7"


@each_row(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Basic YTpi"},
        bearer("trk_00000000_" + "A" * 43),
        bearer("ÿ\x7f"),
        {"X-Service-Key": "trk"},
    ],
)
def test_without_a_valid_key_nobody_is_let_in(registry, headers):
    status, found, body = request(gate(registry), "POST", "/who", {}, headers=headers)
    assert (status, found["www-authenticate"]) == (401, "Bearer")
    assert (body["status"], found["content-type"]) == (401, "application/problem+json")


def test_probes_need_no_key_and_no_host_name(registry):
    assert request(gate(registry), "GET", "/healthz", headers={"host": "10.1.2.3:8080"})[0] == 200


def test_without_keys_anybody_may_do_everything():
    body = request(gate(None), "POST", "/who", {})[2]
    assert (body["org"], "administer" in body["roles"]) == (None, True)
    assert body["actor"] == "anyone from 10.0.0.7"  # the author of changes


@each_row("host", ["localhost", "LOCALHOST:8080", "[::1]", "[::1]:80"])
def test_a_host_is_known_by_its_name_whatever_its_port(host):
    assert request(gate(None), "POST", "/who", {}, headers={"host": host})[0] == 200


@each_row("host", ["evil.example", "localhost.evil.example", "", "127.0.0.1", "localhost:x", "*"])
def test_a_request_under_another_host_name_is_refused(host):
    assert request(gate(None), "POST", "/who", {}, headers={"host": host})[0] == 421


def test_any_host_name_will_do_where_that_is_allowed():
    assert request(gate(None, hosts=frozenset("*")), "POST", "/who", {}, headers={"host": "a.b"})[0] == 200


def test_a_body_that_is_too_long_is_refused_with_its_length_and_without():
    from toolroll.server.problems import problem_of_http

    body = {"text": "x" * 3_000}
    behind = gate(None)
    status, _, answer = request(behind, "POST", "/who", body, headers={"content-length": "3012"})
    assert (status, answer["status"]) == (413, 413)
    behind.application.add_exception_handler(413, problem_of_http)
    assert request(behind, "POST", "/who", body)[0] == 413
    assert request(behind, "POST", "/who", body, headers={"content-length": "1" * 50})[0] == 413
    assert request(behind, "POST", "/who", body, headers={"content-length": "-1"})[0] == 413
    assert request(behind, "POST", "/who", {"text": "x"})[0] == 200


def test_a_key_that_has_used_up_its_requests_is_told_when_to_come_again_and_others_go_on(registry):
    (_, one), (_, other) = (registry.keys.add(name, roles=["select"]) for name in ("one", "other"))
    behind = gate(registry, limits=RequestLimits("3/hour", 8))
    found = [request(behind, "POST", "/who", {}, headers=bearer(one)) for _ in range(5)]
    assert [status for status, _, _ in found] == [200, 200, 200, 429, 429]
    assert 1 <= int(found[-1][1]["retry-after"]) <= 3_600
    scope = {
        "type": "http",
        "path": "/who",
        "headers": [(b"host", b"localhost"), (b"x-service-key", one.encode())],
    }
    assert asyncio.run(behind._admit(scope, dict(scope["headers"]))).status_code == 429
    assert scope["state"]["caller"].name == "one"  # for the log
    assert request(behind, "POST", "/who", {}, headers=bearer(other))[0] == 200


def test_more_requests_at_a_time_than_a_key_may_have_are_shed_and_the_places_come_free(registry):
    (_, one), (_, other) = (registry.keys.add(name, roles=["select"]) for name in ("one", "other"))
    release = asyncio.Event()

    async def application(scope, receive, send):
        await release.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def run() -> list[int]:
        behind = Gate(
            application,
            KeyReader(registry.keys),
            RequestLimits("1000/second", 2),
            frozenset({"localhost"}),
            BodiesInFlight(100, 200),
        )
        first = [
            asyncio.create_task(arequest(behind, "POST", "/", {}, headers=bearer(one))) for _ in range(4)
        ]
        await asyncio.sleep(0.05)
        shed = [task.result() for task in first if task.done()]
        assert [(status, headers["retry-after"]) for status, headers, _ in shed] == [(503, "1")] * 2
        also = asyncio.create_task(arequest(behind, "POST", "/", {}, headers=bearer(other)))
        await asyncio.sleep(0.05)
        assert not also.done()
        release.set()
        await asyncio.gather(*first, also)
        assert not behind.limits.in_flight
        return [(await arequest(behind, "POST", "/", {}, headers=bearer(one)))[0]]

    assert asyncio.run(run()) == [200]


def test_an_application_that_fails_gives_the_place_back():
    async def application(scope, receive, send):
        raise RuntimeError("odd")

    behind = Gate(
        application, None, RequestLimits("9/second", 1), frozenset({"localhost"}), BodiesInFlight(100, 200)
    )
    for _ in range(2):
        with pytest.raises(RuntimeError):
            request(behind, "POST", "/", {})
    assert not behind.limits.in_flight


class Keys:
    """Service keys whose registry may be away; and a clock."""

    def __init__(self, keys):
        self.keys, self.is_away, self.now, self.reads = keys, False, 0.0, 0

    def ring(self):
        self.reads += 1
        if self.is_away:
            raise StoreUnavailable("away")
        return self.keys.ring()


def test_keys_are_followed_and_stay_valid_while_the_database_is_away(registry, caplog):
    _, old = registry.keys.add("old", roles=["select"])
    keys = Keys(registry.keys)
    reader = KeyReader(keys, lambda: keys.now)

    async def statuses(*texts: str) -> list[int]:
        keys.now += STALE_S + 0.1
        behind = gate(None, keys=reader)
        return [(await arequest(behind, "POST", "/who", {}, headers=bearer(text)))[0] for text in texts]

    async def run() -> None:
        key, new = registry.keys.add("new", roles=["select"])
        assert await statuses(old, new) == [200, 200]
        keys.is_away = True
        registry.keys.revoke(key.key_id)
        assert await statuses(old, new) == [200, 200]
        assert reader.is_failing
        assert await statuses(old, new) == [200, 200]  # without waiting
        keys.is_away = False
        await statuses(old)
        await asyncio.sleep(0.1)  # until it is read again in the background
        assert not reader.is_failing
        assert await statuses(old, new) == [200, 401]

    asyncio.run(run())
    assert [record.getMessage() for record in caplog.records] == [
        "service keys cannot be read, those read last stay valid: away",
        "service keys are read again",
    ]


def test_keys_are_not_read_for_each_request(registry):
    keys = Keys(registry.keys)
    reader = KeyReader(keys, lambda: keys.now)

    async def run() -> None:
        for _ in range(100):
            await reader.ring()

    asyncio.run(run())
    assert keys.reads == 1


def test_a_caller_is_bound_to_the_organisation_of_the_key():
    bound, any_org = Caller("a", frozenset(), "acme"), Caller("b", frozenset(), None)
    assert (bound.org_of(None), bound.org_of(""), bound.org_of("acme")) == ("acme", "acme", "acme")
    assert (any_org.org_of(None), any_org.org_of("acme")) == ("", "acme")
    platform = Caller("c", frozenset(), "")
    assert platform.org_of(None) == ""
    for caller, org in ((bound, "globex"), (platform, "acme")):
        with pytest.raises(Denied, match="is not of organisation"):
            caller.org_of(org)
        with pytest.raises(Denied, match="is bound to one"):
            caller.require_any_org()
    with pytest.raises(Denied, match="lacks the role 'report', which lets it report outcomes"):
        bound.require("report")


def test_routes_without_a_gate_know_nobody():
    scope = {"type": "http", "headers": [], "client": None}
    with pytest.raises(Denied, match="pass `identify`"):
        caller_of(Request(scope))
    assert trusted(Request(scope)).actor == "anyone"


def test_a_caller_has_as_many_bytes_in_flight_as_are_free_and_another_one_finds_some() -> None:
    bodies = BodiesInFlight(100, 400)

    async def read(receive, n: int) -> None:
        for _ in range(n):
            await receive()

    async def part():
        return {"type": "http.request", "body": b"y" * 50, "more_body": True}

    with bodies.limited(part, "a") as first, bodies.limited(part, "a") as second:
        asyncio.run(read(first, 2))
        with pytest.raises(HTTPException) as too_long:
            asyncio.run(read(first, 1))
        asyncio.run(read(second, 2))  # 200 of 400
        with bodies.limited(part, "a") as third, pytest.raises(HTTPException) as too_many:
            asyncio.run(read(third, 1))
        with bodies.limited(part, "b") as of_another:
            asyncio.run(read(of_another, 2))
    assert (too_long.value.status_code, too_many.value.status_code) == (413, 503)
    with bodies.limited(part, "a") as again:
        asyncio.run(read(again, 2))
