"""Strangers at the sign-in of the page: guessing, locking others out, forged addresses, copied cookies.

Before (commit 68f3067c): ten wrong passwords for ann, from anywhere, refused ann's right one with 429 for a minute,
and everybody behind the same address; 40 attempts with 40 forged `X-Forwarded-For` were all tried; a cookie that was
copied before somebody signed out worked until its end, 12 hours later.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("argon2")

import httpx

from tests.attacks import bounded
from tests.integration.conftest import (  # noqa: F401  # fixtures
    database_url,
    new_database_url,
    postgresql,
    postgresql_template,
    sqlite_template,
)
from tests.integration.outcomes import eventually
from tests.integration.served import Served, served
from tests.ports import free_port
from toolroll.registry.access.accounts import Accounts
from toolroll.registry.editing.audit import Audit
from toolroll.registry.registry import Registry
from toolroll.server.admission import read_rate
from toolroll.server.sign_in import LONGEST_DELAY_S, PLACES, SignInAttempts

FROM_PAGE = {"X-Toolroll-Page": "1", "Sec-Fetch-Site": "same-origin"}
PASSWORD = "correct horse battery"
SECRET = "s" * 40


@contextmanager
def services(url: str, *settings: dict[str, str]) -> Iterator[list[int]]:
    """Ports of a `toolroll serve` with each of the settings, over the same registry."""
    ports = [free_port() for _ in settings]
    command = [sys.executable, "-c", "from toolroll.cli import main; main()", "serve", "--catalog", url]
    started = [
        subprocess.Popen(
            [*command, "--port", str(port)],
            env={
                **os.environ,
                "FORWARDED_ALLOW_IPS": "*",  # says nothing any more
                "TOOLROLL_SERVER_SESSION_SECRET": SECRET,
                **{f"TOOLROLL_SERVER_{name.upper()}": value for name, value in given.items()},
            },
            stderr=subprocess.DEVNULL,
        )
        for port, given in zip(ports, settings, strict=True)
    ]
    try:
        for port in ports:
            end = time.monotonic() + 120
            while not is_up(port):
                assert time.monotonic() < end, "the service did not start"
                time.sleep(0.2)
        yield ports
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(60)


def is_up(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def browser(port: int, **headers: str) -> httpx.Client:
    return httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={**FROM_PAGE, **headers}, timeout=60)


def sign_in(client: httpx.Client, name: str, password: str) -> int:
    return client.post("/admin/sign-in", json={"name": name, "password": password}).status_code


@pytest.mark.slow
def test_strangers_lock_nobody_out_forge_no_address_and_use_no_copied_cookie(tmp_path: Path) -> None:
    """40 attempts with 40 forged addresses: before, all were tried. Now as many as one address has."""
    url = f"sqlite:///{tmp_path}/tools.db"
    with Registry.open(url) as registry:
        for name in ("ann", "bob"):
            Accounts(registry.database).add(name, PASSWORD, roles=["read"])
        key = registry.keys.add("ops", roles=["read", "administer"])[1]
    behind_proxy = {"trusted_proxies": json.dumps(["127.0.0.0/8"])}
    with services(url, {}, behind_proxy) as (port, other), browser(port) as ann, browser(port) as eve:
        assert sign_in(ann, "ann", PASSWORD) == 204
        begun = time.monotonic()
        assert [sign_in(eve, "ann", "wrong") for _ in range(10)] == [401] * 10
        assert sign_in(ann, "ann", PASSWORD) == 204  # in a browser that it knows
        tried = asyncio.run(forged(port, bounded(40, 1_000)))
        taken_s = time.monotonic() - begun
        assert tried.count(401) <= (taken_s + LONGEST_DELAY_S) / 6 + 1, tried
        assert set(tried) <= {401, 429, 503}
        assert sign_in(ann, "ann", PASSWORD) == 204
        with browser(port) as new:  # bob behind the same address waits for his turn
            end = time.monotonic() + 6 * LONGEST_DELAY_S
            while (status := sign_in(new, "bob", PASSWORD)) in (429, 503) and time.monotonic() < end:
                time.sleep(0.5)
            assert status == 204

        assert author(url, port, key, "one").endswith("from 127.0.0.1")
        assert author(url, other, key, "two").endswith("from 203.0.113.9")

        with browser(port) as thief, browser(other) as elsewhere:
            for copy in (thief, elsewhere):
                copy.cookies.update({"toolroll_session": ann.cookies["toolroll_session"]})
                assert copy.get("/admin/session").json()["name"] == "ann"
            assert ann.delete("/admin/session").status_code == 204
            assert thief.get("/admin/session").status_code == 401
            time.sleep(3.5)
            assert elsewhere.get("/admin/session").status_code == 401


async def forged(port: int, count: int) -> list[int]:
    """Statuses of so many wrong passwords at a time, each with an address of its own."""
    async with httpx.AsyncClient(headers=FROM_PAGE, timeout=60) as client:
        answers = await asyncio.gather(
            *(
                client.post(
                    f"http://127.0.0.1:{port}/admin/sign-in",
                    json={"name": "ann", "password": "wrong"},
                    headers={"X-Forwarded-For": f"203.0.{number // 250}.{number % 250}"},
                )
                for number in range(count)
            )
        )
    return [answer.status_code for answer in answers]


def author(url: str, port: int, key: str, name: str) -> str:
    """Who made a tool, as the audit log says, in a request that claims to come from 203.0.113.9."""
    with browser(port, **{"X-Service-Key": key, "X-Forwarded-For": "203.0.113.9"}) as client:
        made = client.post("/internal/tool-registry/tools", json={"name": name, "description": "x"})
        assert made.status_code == 201, made.text
    with Registry.open(url) as registry:
        (change,) = Audit(registry.database).list(subject=name)
    return change.actor


def test_a_session_that_was_ended_is_of_no_use_to_any_worker(database_url: str) -> None:  # noqa: F811
    with Registry.open(database_url) as registry:
        Accounts(registry.database).add("ann", PASSWORD, roles=["read"])
        key = registry.keys.add("ops", roles=["read"])[1]
        settings = {"session_secret": SECRET}
        with (
            served(registry, database_url, **settings) as one,
            served(registry, database_url, **settings) as two,
        ):

            def begin() -> dict[str, str]:
                body = {"name": "ann", "password": PASSWORD}
                _, headers, _ = one("POST", "/admin/sign-in", body, headers=FROM_PAGE)
                return {**FROM_PAGE, "Cookie": headers["set-cookie"].split(";")[0]}

            def status(service: Served, headers: dict[str, str], method: str = "GET") -> int:
                return service(method, "/admin/session", headers=headers)[0]

            with_key = one("POST", "/admin/session", key=key)[1]["set-cookie"].split(";")[0]
            hers, others, keys = begin(), begin(), {**FROM_PAGE, "Cookie": with_key}
            for headers in (hers, keys):
                assert status(two, headers) == 200
                assert status(one, headers, "DELETE") == 204
                assert status(one, headers) == 401
            eventually(lambda: (status(two, hers), status(two, keys)) == (401, 401))
            assert (status(one, others), status(two, others)) == (200, 200)
            (change, *_) = Audit(registry.database).list(action="session")
            assert (change.action, "key" in change.actor) == ("session.end", True)
        with served(registry, database_url, **settings) as restarted:
            assert (status(restarted, hers), status(restarted, others)) == (401, 200)


def test_whatever_strangers_try_an_account_has_turns_in_a_browser_that_it_knows() -> None:
    """A flood from many addresses, with a clock of its own: what is tried is bounded, and ann never waits."""
    now = 0.0
    attempts = SignInAttempts(read_rate("10/minute"), lambda: now)
    tried, minutes = 0, bounded(5, 500)
    for second in range(minutes * 60):
        now = float(second)
        for stranger in range(20):
            turns = attempts.account("ann", f"2001:db8:{second * 20 + stranger:x}::1", "")
            tried += attempts.wait_s(turns) <= LONGEST_DELAY_S
        if second % 10 == 0:
            assert attempts.wait_s(attempts.account("ann", "10.0.0.7", "browser of ann")) == 0
    assert tried <= (minutes + 1.2) * 10 * PLACES
    assert len(attempts._used) < 3_000


def test_one_address_uses_up_its_own_turns_and_not_those_of_an_account() -> None:
    now = 0.0
    attempts = SignInAttempts(read_rate("10/minute"), lambda: now)
    waits_s = [attempts.wait_s(attempts.account("ann", "2001:db8::1", "")) for _ in range(40)]
    assert waits_s[:10] == [0.0] * 10
    assert 0 < waits_s[10] <= LONGEST_DELAY_S
    assert min(waits_s[11:]) > LONGEST_DELAY_S
    assert (
        attempts.wait_s(attempts.account("ann", "2001:db8::ffff", "")) > LONGEST_DELAY_S
    )  # the same network
    assert attempts.wait_s(attempts.account("ann", "10.0.0.7", "")) == 0
