"""Selections over time, tools that do badly and plugins, over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

pytest.importorskip("fastapi")

from tests.integration.served import Served, served
from toolroll import Context, Recording, Toolroll
from toolroll.learning.experiments import Experiment
from toolroll.model.tools import Tool
from toolroll.registry.analytics import experiments
from toolroll.registry.analytics.plugins import plugins
from toolroll.registry.analytics.tools import Break
from toolroll.registry.registry import Registry
from toolroll.server.tool_registry.router import PREFIX

MESSAGE = "send a mail to Ada"
TOOLS = [Tool("send_mail", "Sends a mail"), Tool("ping", "Asks whether a host is there")]


@pytest.fixture
def registry(sqlite_url: str) -> Iterator[Registry]:
    with Registry.open(sqlite_url, actor="ada") as registry:
        registry.sync(TOOLS, plugin="mail", plugin_version="1.2")
        registry.sync([Tool("acme_report", "Reports sales")], plugin="reports", org="acme", review="all")
        with Toolroll.open(sqlite_url) as roll:
            for turn in range(4):
                picked = roll.select(MESSAGE, Context(org="acme", user=f"u{turn}"))
                roll.record(picked, {"send_mail": turn != 0})
            roll.select(MESSAGE)
        yield registry


@pytest.fixture
def keys(registry: Registry) -> dict[str, str]:
    """Texts of keys by name."""
    orgs = {"reader": None, "acme": "acme", "globex": "globex"}
    found = {name: registry.keys.add(name, roles=["read"], org=org)[1] for name, org in orgs.items()}
    return {**found, "caller": registry.keys.add("caller", roles=["select"], org=None)[1]}


@pytest.fixture
def service(registry: Registry, keys: dict[str, str], sqlite_url: str) -> Iterator[Served]:
    with served(registry, sqlite_url) as service:
        yield service


Ask = Callable[..., Any]


@pytest.fixture
def ask(service: Served, keys: dict[str, str]) -> Ask:
    """Reads a path below the prefix, asserts the status, returns the answer."""

    def ask(path: str, key: str = "reader", status: int = 200, method: str = "GET") -> Any:
        found, _, answer = service(method, PREFIX + path, key=keys[key])
        assert found == status, answer
        return answer

    return ask


@pytest.mark.parametrize("per", ["day", "hour"])
def test_the_timeline_adds_up_the_selections_of_those_whom_the_key_may_read(ask: Ask, per: str) -> None:
    def total(key: str, of: str = "selections") -> float:
        return sum(point[of] for point in ask(f"/analytics/timeline?per={per}", key)["points"])

    assert (total("reader"), total("acme"), total("globex")) == (5, 4, 0)
    (point,) = ask(f"/analytics/timeline?per={per}", "acme")["points"][-1:]
    assert point["success"] == pytest.approx(0.75)
    assert point["latency_us"] > 0
    assert len(point["at"]) == (10 if per == "day" else 17)
    ask("/analytics/timeline?org=globex", "acme", 403)
    ask("/analytics/timeline", "caller", 403)
    ask("/analytics/timeline?per=week", status=422)


def test_arms_have_an_interval_around_their_mean(ask: Ask) -> None:
    (arm,) = (each for each in ask("/analytics/arms", "acme")["arms"] if each["tool"] == "send_mail")
    assert (arm["called"], arm["succeeded"]) == (4, 3)
    assert 0 < arm["low"] < arm["mean"] < arm["high"] < 1
    assert ask("/analytics/arms", "globex")["arms"] == []


def test_unused_and_broken_tools_are_those_of_the_organisation(ask: Ask) -> None:
    unused = ask("/analytics/unused?shown_often=1", "acme")
    assert "send_mail" not in {each["name"] for each in unused["never_called"]}
    assert "acme_report" not in {
        each["name"] for each in ask("/analytics/unused", "globex")["never_selected"]
    }
    assert ask("/analytics/broken", "acme")["broken"] == []


def test_plugins_say_what_their_last_sync_changed_and_how_their_tools_do(
    ask: Ask, registry: Registry
) -> None:
    registry.sync(TOOLS[:1], plugin="mail", plugin_version="1.3")
    mail, reports = ask("/plugins")["plugins"]
    assert (mail["name"], mail["org"], mail["plugin_version"], mail["tools"]) == ("mail", "", "1.3", 1)
    assert mail["changes"]["delete"] == ["ping"]
    assert (mail["called"], mail["succeeded"], mail["waiting"]) == (4, 3, 0)
    assert (reports["org"], reports["waiting"], reports["called"]) == ("acme", 1, 0)


def test_plugins_say_when_they_were_called_and_failed_last(ask: Ask, registry: Registry) -> None:
    found = ask("/plugins")
    mail, reports = found["plugins"]
    assert mail["last_day"] == {"calls": 4, "failed": 1}
    assert mail["last_failure"] <= mail["last_call"]  # the first of four failed
    assert (reports["last_day"], reports["last_call"]) == ({"calls": 0, "failed": 0}, None)
    assert mail["left_out"] == []

    called = datetime.fromisoformat(mail["last_call"])
    assert (called.minute, called.second) == (0, 0)
    day = called.replace(hour=0)

    def at(**later: int) -> Any:
        return plugins(registry.database, "", now=called + timedelta(**later))[0]

    assert (at(hours=23).last_call, at(hours=23).last_day["calls"]) == (called, 4)
    assert (at(days=3).last_call, at(days=3).last_day["calls"]) == (day, 0)
    assert at(days=40).last_call is None
    assert at(days=40).left_out is None


def test_plugins_name_the_tools_that_selections_leave_out_and_since_when(registry: Registry) -> None:
    first, later = (datetime(2026, 3, day, 12, tzinfo=timezone.utc) for day in (1, 2))

    def broke(org: str, tool: str, at: datetime, back: datetime | None = None) -> Break:
        return Break(org, tool, 0.9, at, at, 6, 0, 3, back)

    breaks = [
        broke("globex", "send_mail", later),
        broke("acme", "send_mail", first),
        broke("acme", "ping", first, back=later),
        broke("acme", "acme_report", later),
        broke("globex", "acme_report", first),  # no tool of that name is Globex's
        broke("acme", "of_nobody", first),
    ]
    mail, reports = plugins(registry.database, breaks=breaks)
    assert mail.left_out == ({"tool": "send_mail", "since": first.isoformat()},)
    assert reports.left_out == ({"tool": "acme_report", "since": later.isoformat()},)


def test_an_organisation_reads_its_own_plugins_alone(ask: Ask) -> None:
    assert [each["name"] for each in ask("/plugins", "acme")["plugins"]] == ["reports"]
    assert ask("/plugins", "globex")["plugins"] == []
    ask("/plugins?org=acme", "globex", 403)
    ask("/plugins", "caller", 403)


def test_calls_of_plugins_are_those_of_the_window_and_the_organisation(
    ask: Ask, registry: Registry, sqlite_url: str
) -> None:
    registry.sync([Tool("globex_fax", "Transmits pages by telephone")], plugin="own", org="globex")
    with Toolroll.open(sqlite_url) as roll:
        context = Context(org="globex")
        roll.warm_up(["globex"])
        picked = roll.select(MESSAGE, context)
        slow = {"globex_fax": {"succeeded": False, "duration_ms": 2_000}, "ping": True}
        roll.record(picked, slow)  # type: ignore[arg-type]
    send = {"name": "send_mail", "calls": 4, "failed": 1}
    (mail,) = ask("/plugins/calls", "acme")["plugins"]
    unknown = {"timed": 0, "duration_ms": {"mean": None, "p95": None}, "slow": []}
    assert mail == {
        "org": "", "plugin": "mail", "calls": 4, "succeeded": 3, "failed": 1, "failing": [send], **unknown
    }  # fmt: skip
    calls = {(each["org"], each["plugin"]): each for each in ask("/plugins/calls")["plugins"]}
    assert calls["", "mail"] == {**mail, "calls": 5, "succeeded": 4}  # ping for Globex, too
    assert calls["globex", "own"]["failing"] == [{"name": "globex_fax", "calls": 1, "failed": 1}]
    assert calls["globex", "own"]["duration_ms"]["mean"] == 2_000
    assert [tool["name"] for tool in calls["globex", "own"]["slow"]] == ["globex_fax"]
    slowest, *_ = ask("/analytics/tools?by=p95")["tools"]
    assert (slowest["org"], slowest["tool"], slowest["timed"]) == ("globex", "globex_fax", 1)
    assert slowest["duration_ms"]["p95"] == pytest.approx(2_000, rel=0.063)
    assert {each["org"] for each in ask("/analytics/tools", "acme")["tools"]} == {"acme"}
    ask("/analytics/tools?by=age", status=422)
    assert ask("/plugins/calls?since=2999-01-01T00:00:00Z")["plugins"] == []
    ask("/plugins/calls?org=globex", "acme", 403)


def test_experiments_have_their_intervals_and_are_those_of_the_organisation(
    ask: Ask, registry: Registry, sqlite_url: str
) -> None:
    for org in ("acme", ""):
        experiment = Experiment(f"ranking {org}", {"default": 0.5, "learned": 0.5})
        experiments.start(registry.database, experiment, actor="ada", org=org)
        if org:
            with Toolroll.open(sqlite_url) as roll:
                for user in range(160):
                    picked = roll.select(MESSAGE, Context(org=org, user=f"user {user}"))
                    roll.record(picked, {"send_mail": picked.turn.variant == "learned"})
            experiments.stop(registry.database, experiment.name, actor="ada")
    assert [each["name"] for each in ask("/analytics/experiments")["experiments"]] == [
        "ranking ",
        "ranking acme",
    ]
    assert [each["name"] for each in ask("/analytics/experiments?active=true")["experiments"]] == ["ranking "]
    assert ask("/analytics/experiments", "globex")["experiments"] == []
    (found,) = ask("/analytics/experiments", "acme")["experiments"]
    default, learned = found["variants"]
    assert (default["mean"], learned["mean"], default["assigned"] + learned["assigned"]) == (0, 1, 160)
    (contrast,) = found["contrasts"]
    assert (contrast["variant"], contrast["value"]) == ("learned", 1)
    assert 0 < contrast["low"] < 1 <= contrast["high"]
    assert (found["state"], found["winner"], found["active"]) == ("winner", "learned", False)
    assert "salt" not in found


def test_a_past_selection_is_decided_again_for_those_who_may_read_it(ask: Ask, sqlite_url: str) -> None:
    with Toolroll.open(sqlite_url, recording=Recording(messages="kept")) as roll:
        roll.select(MESSAGE, Context(org="globex"))
    (event,) = ask("/events", "globex")["events"]
    assert "message" not in event and MESSAGE not in str(event)
    assert event["event_id"] in {each["event_id"] for each in ask("/events")["events"]}
    assert len(ask("/events?limit=2")["events"]) == 2
    path = f"/events/{event['event_id']}/replay"
    found = ask(path, "globex", method="POST")
    assert (found["same"], found["decided"]) == (True, event["selected"])
    assert [each["name"] for each in found["tools"] if each["selected"]] == event["selected"]
    assert found["stages"][-1]["in_play"] == len(event["selected"])
    assert found == ask(path, method="POST")
    ask(path, "acme", 404, method="POST")
    ask(path, "caller", 403, method="POST")
    assert len(ask("/events", "globex")["events"]) == 1  # a replay is not logged


def test_a_past_selection_without_its_message_says_why_it_cannot_be_decided_again(
    ask: Ask, sqlite_url: str
) -> None:
    with Toolroll.open(sqlite_url, recording=Recording(messages="dropped")) as roll:
        roll.select(MESSAGE, Context(org="globex"))
    (event,) = ask("/events", "globex")["events"]
    found = ask(f"/events/{event['event_id']}/replay", "globex", method="POST")
    assert (found["same"], found["decided"], found["tools"]) == (False, None, [])
    assert "message was not kept" in found["missing"][0]
