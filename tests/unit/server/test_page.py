"""The page's sessions and files: who gets in by a cookie, and what browsers may do with the page."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("fastapi")

from fastapi import FastAPI, Request

from tests.table import each_row
from tests.unit.server.asgi import request
from toolroll import Registry
from toolroll.front.bodies import BodiesInFlight
from toolroll.registry.access.accounts import EndedSessions
from toolroll.server import page_sessions
from toolroll.server.admission import RequestLimits, read_rate
from toolroll.server.callers import caller_of
from toolroll.server.gate import Gate
from toolroll.server.key_reader import KeyReader
from toolroll.server.page import SESSION_PATH, add_page
from toolroll.server.page_sessions import COOKIE, PageSessions
from toolroll.server.sign_in import SignInAttempts

FROM_PAGE = {"X-Toolroll-Page": "1"}


@pytest.fixture
def registry(tmp_path):
    with Registry.open(f"sqlite:///{tmp_path}/tools.db", actor="ada") as registry:
        yield registry


@pytest.fixture
def built(tmp_path):
    """A folder as the build leaves it."""
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html>page")
    (folder / "assets" / "index-1.js").write_text("script")
    return folder


def gate(registry: Registry | None, folder: Any, sessions: PageSessions | None = None) -> Gate:
    """A service with the page and a route that says who calls."""
    application = FastAPI()
    sessions = sessions or PageSessions()

    @application.post("/who")
    async def who(request: Request) -> dict[str, Any]:
        return {"actor": caller_of(request).actor}

    ended = None if registry is None else EndedSessions(registry.database, timedelta(hours=12))
    keys = None if registry is None else KeyReader(registry.keys, sessions=ended)
    add_page(application, sessions, "default", keys, SignInAttempts(read_rate("10/minute")), folder)
    limits = RequestLimits("1000/second", 8)
    return Gate(application, keys, limits, frozenset({"localhost"}), BodiesInFlight(2_000, 4_000), sessions)


def cookie_of(service: Gate, key: str) -> str:
    """What a browser sends after a sign-in with this key."""
    status, headers, _ = request(service, "POST", SESSION_PATH, headers={"X-Service-Key": key})
    assert status == 200
    return headers["set-cookie"].split(";")[0]


def test_a_key_is_exchanged_for_a_cookie_that_acts_as_the_key(registry, built):
    key, text = registry.keys.add("ada", roles=["read"], org="acme")
    service = gate(registry, built)
    status, headers, who = request(service, "POST", SESSION_PATH, headers={"X-Service-Key": text})
    assert (status, who["name"], who["org"], who["roles"]) == (200, "ada", "acme", ["read"])
    attributes = {part.strip().lower() for part in headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= attributes
    assert text not in headers["set-cookie"]

    cookie = {"Cookie": f"other=1; {headers['set-cookie'].split(';')[0]}", **FROM_PAGE}
    assert request(service, "POST", "/who", {}, headers=cookie)[2]["actor"].startswith(
        f"ada (key {key.key_id})"
    )
    assert request(service, "GET", SESSION_PATH, headers=cookie)[2]["name"] == "ada"
    status, headers, _ = request(service, "DELETE", SESSION_PATH, headers=cookie)
    assert status == 204
    assert f'{COOKIE}=""' in headers["set-cookie"]
    assert request(service, "GET", SESSION_PATH, headers=cookie)[0] == 401


def test_a_cookie_counts_for_nothing_without_the_header_of_the_page_or_from_another_site(registry, built):
    text = registry.keys.add("ada", roles=["read"])[1]
    service = gate(registry, built)
    cookie = {"Cookie": cookie_of(service, text)}
    assert request(service, "POST", "/who", {}, headers=cookie)[0] == 401
    for site in ("cross-site", "same-site"):
        headers = {**cookie, **FROM_PAGE, "Sec-Fetch-Site": site}
        assert request(service, "POST", "/who", {}, headers=headers)[0] == 401
    headers = {**cookie, **FROM_PAGE, "Sec-Fetch-Site": "same-origin"}
    assert request(service, "POST", "/who", {}, headers=headers)[0] == 200


def test_without_keys_a_page_of_another_site_is_refused(built):
    service = gate(None, built)
    assert request(service, "POST", "/who", {})[0] == 200
    assert request(service, "POST", "/who", {}, headers={"Sec-Fetch-Site": "cross-site"})[0] == 401


def test_a_session_ends_with_its_key_with_its_time_and_with_another_secret(registry, built, monkeypatch):
    key, text = registry.keys.add("ada", roles=["read"])
    service = gate(registry, built, PageSessions("one" * 20))
    headers = {"Cookie": cookie_of(service, text), **FROM_PAGE}
    same, other = (gate(registry, built, PageSessions(secret * 20)) for secret in ("one", "two"))
    assert request(same, "POST", "/who", {}, headers=headers)[0] == 200
    assert request(other, "POST", "/who", {}, headers=headers)[0] == 401
    with monkeypatch.context() as later:
        later.setattr(page_sessions, "LIFETIME_S", -1)
        assert request(same, "POST", "/who", {}, headers=headers)[0] == 401
    registry.keys.revoke(key.key_id)
    assert (
        request(gate(registry, built, PageSessions("one" * 20)), "POST", "/who", {}, headers=headers)[0]
        == 401
    )


@each_row("cookie", [COOKIE, f"{COOKIE}=", f"{COOKIE}=a.b.c", f"{COOKIE}=ÿ", "=;=,", "\x7f"])
def test_a_broken_cookie_lets_nobody_in(registry, built, cookie):
    assert (
        request(gate(registry, built), "POST", "/who", {}, headers={"Cookie": cookie, **FROM_PAGE})[0] == 401
    )


def test_the_files_need_no_key_and_load_nothing_from_elsewhere(registry, built):
    service = gate(registry, built)
    status, headers, text = request(service, "GET", "/admin/")
    assert (status, text, headers["cache-control"]) == (200, "<!doctype html>page", "no-cache")
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert "http" not in headers["content-security-policy"]
    assert all("unsafe" not in sources for sources in policy.values())
    assert policy["frame-ancestors"] == "'none'"
    status, headers, _ = request(service, "GET", "/admin/assets/index-1.js")
    assert (status, "immutable" in headers["cache-control"]) == (200, True)
    for path in ("/admin/../gate.py", "/admin/none", "/admin/assets/%2e%2e/%2e%2e/tools.db"):
        assert request(service, "GET", path)[0] == 404


def test_the_page_is_not_served_under_a_host_name_that_is_not_ours(registry, built):
    assert request(gate(registry, built), "GET", "/admin/", headers={"Host": "evil.example"})[0] == 421


def test_without_a_build_the_address_says_how_to_make_one(registry, tmp_path):
    service = gate(registry, tmp_path / "none")
    status, _, text = request(service, "GET", "/admin/")
    assert status == 404
    assert "npm run build" in text
    assert request(service, "GET", SESSION_PATH)[0] == 401
