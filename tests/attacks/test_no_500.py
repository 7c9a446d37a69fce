"""A stranger with a key sends what no client sends: no answer is a 500, and no log line has a value of a request.

Before (commit 68f3067c): `POST /plugins/sync` with an unknown key in `pageMappings`, and half of a surrogate pair in a
name of `/sessions/…/check`, `used`, `load` and `unload`, were answered with 500; the log then had the request.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from tests.attacks import bounded
from tests.attacks.hostile_requests import HostileRequests
from tests.integration.conftest import (  # noqa: F401  # fixtures
    database_url,
    new_database_url,
    postgresql,
    postgresql_template,
    sqlite_template,
)
from tests.integration.served import Served, served
from tests.table import each_row
from tests.unit.server.asgi import arequest
from toolroll import Context, Toolroll, repair
from toolroll.model.errors import ToolrollError
from toolroll.model.rules import PageMapping, Rule
from toolroll.model.tools import Tool, Toolkit
from toolroll.registry.registry import Registry
from toolroll.server.logs import TextLines
from toolroll.server.setting_sources import read_settings
from toolroll.server.tool_registry.router import PREFIX

CANARY = "canary_of_a_request"
ROLES = ("select", "report", "read", "administer")


@pytest.fixture
def registry(database_url: str) -> Iterator[Registry]:  # noqa: F811
    with Registry.open(database_url, actor="ada") as registry:
        registry.set_tiers(["free", "pro"])
        registry.toolkits.put(Toolkit("net"))
        registry.create(Tool("ping", "Asks whether a host is there", toolkit="net"))
        registry.create(Tool("own", "Of acme"), org="acme")
        registry.rules.add(Rule("interns", "deny", "role", {"role": "intern"}, tool="ping"))
        registry.pages.add(PageMapping("deals*", ("net",)))
        registry.keys.add("probe", roles=ROLES, org=None)
        yield registry


@pytest.fixture
def keys(registry: Registry) -> list[str]:
    return [registry.keys.add("attacker", roles=ROLES, org=org)[1] for org in (None, "acme")]


@pytest.fixture
def service(registry: Registry, keys: list[str], database_url: str) -> Iterator[Served]:  # noqa: F811
    with served(registry, database_url, key_rate="1000000/second", org_rate="1000000/second") as service:
        yield service


@pytest.mark.slow
def test_generated_hostile_requests_are_answered_and_never_with_500(
    service: Served, registry: Registry, keys: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    _, _, selected = service("POST", "/select", {"message": "is the host there"}, key=keys[0])
    names = ["ping", "own", "net", "interns", "acme", "s", selected["event_id"], "admin", "deals/1", CANARY]
    statuses: Counter[int] = Counter()
    requests = HostileRequests(service.application.openapi(), names, seed=bounded(1, 2))
    for at, request in enumerate(islice(requests, bounded(750, 30_000))):
        method, path, body, headers = request
        headers = {**headers, "X-Service-Key": keys[at % 2], "X-Toolroll-Page": "1"}
        try:
            status = answered(service, method, path, body, headers)
        except BaseException as error:
            raise AssertionError(f"{method} {path[:300]} {body and body[:600]!r}") from error
        assert status < 500 or status == 503, (method, path, body)
        statuses[status] += 1
    assert statuses[200] > 50, statuses
    assert statuses[422] > 50, statuses
    assert CANARY not in caplog.text


def answered(service: Served, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> int:
    """The status of the answer, whose JSON must be JSON, and which nobody between may keep."""
    path, _, query = path.partition("?")
    found = service.loop.run_until_complete(
        arequest(service.application, method, path, None, query, headers, content=body or b"")
    )
    status, answer_headers, _ = found
    assert "cache-control" in answer_headers
    return int(status)


def test_what_was_answered_with_500_is_answered(
    service: Served, keys: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    half, sync = "\ud800", f"{PREFIX}/plugins/sync"
    page = {"pattern": CANARY, "categories": ["b"], "zz": 1}
    for path, body in (
        ("/sessions/s/check", {"name": half}),
        ("/sessions/s/used", {"called": {half: True}}),
        ("/sessions/s/load", {"names": [half]}),
        ("/sessions/s/unload", {"names": [half]}),
        (f"{PREFIX}/test-selection", {"message": "x", "context": {"required": [half]}}),
        (sync, {"pluginId": "p", "tools": [], "pageMappings": [page]}),
        (sync, {"pluginId": "p", "tools": [], "categories": [{"name": CANARY, "zz": 1}]}),
        ("/outcomes", {"selection": "x", "called": {CANARY: {"succeeded": True, "zz": 1}}}),
    ):
        status, headers, _ = service("POST", path, body, key=keys[0])
        assert status in (200, 422)
        assert headers["cache-control"] == "no-store"
    assert CANARY not in caplog.text


def test_a_tool_that_goes_while_a_call_is_reported_is_no_error() -> None:
    """Before: a raw KeyError in 9 of some 3,000 turns beside a catalog that changes."""
    tools = [Tool("stays", "Sends a mail"), Tool("goes", "Sends a fax")]
    roll = Toolroll.from_tools(tools)
    problems: list[BaseException] = []
    is_over = threading.Event()

    def change() -> None:
        try:
            while not is_over.is_set():
                roll.refresh(tools[:1])
                roll.refresh(tools)
        except BaseException as error:
            problems.append(error)

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for turn in range(bounded(150, 3_000)):
            session = roll.session(f"s{turn}", Context(user="u"))
            session.select("send a fax and a mail")
            session.load(["goes", "stays"])
            session.used({"goes": True, "stays": True})
            session.unload(["goes"])
    finally:
        is_over.set()
        changing.join()
        roll.close()
    assert not problems


def test_a_setting_in_another_case_is_said(tmp_path: Path) -> None:
    """Before: a traceback of a ValueError."""
    file = tmp_path / "server.toml"
    file.write_text('catalog = "sqlite:///t.db"\nmax_body_Bytes = 1000\nPORT = "x"\n')
    with pytest.raises(ToolrollError, match="max_body_Bytes: is no known key; did you mean 'max_body_bytes'"):
        read_settings(file)


@each_row("digits", [400, 4_299, 4_300, 4_301, 50_000])
def test_numbers_of_thousands_of_digits_in_schemas_and_arguments_are_no_error(digits: int) -> None:
    """Before: a raw ValueError above 4,300 digits."""
    number = 10**digits
    for keyword in ("const", "minimum", "maxLength", "default", "multipleOf", "type"):
        for kind in ("integer", "number", "string", "boolean"):
            schema = {
                "type": "object",
                "properties": {"a": {"type": kind, keyword: number}, "b": {"enum": [number]}},
            }
            for value in (5, 5.5, "5", "9" * digits, number, None, [number], {"q": number}):
                try:
                    repair.repair({"a": value, "b": value}, schema)
                    repair.relax(schema)
                except ToolrollError:
                    pass


def test_no_value_makes_a_log_line_or_a_field_of_its_own() -> None:
    """Before: a display name from the identity provider wrote 20 lines of its own."""
    forged = "ann\ntoolroll: signed in person=admin address=10.0.0.1\r\u2028\x1b[2J"
    logger = logging.getLogger("toolroll.server")
    record = logger.makeRecord(
        "toolroll.server", logging.INFO, "x.py", 1, "sign-in of %s", (forged,), None, extra={"person": forged}
    )
    line = TextLines().format(record)
    assert line.isprintable()
    assert line.count(" address=") == 2  # in the message, and within the quotes of the value
    try:
        raise ValueError(forged)
    except ValueError as error:
        record.exc_info = (type(error), error, error.__traceback__)
    lines = TextLines().format(record).split("\n")
    assert all(line.startswith("  ") and line.isprintable() for line in lines[1:])
    assert json.loads(line[line.index(' person="') + 8 :]) == forged.encode("unicode_escape").decode()
