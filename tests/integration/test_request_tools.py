"""Tools that come with requests, beside a registry: its rules hold for them, and their outcomes are stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.integration.outcomes import eventually, rows_of
from toolroll import Context, Follow, Recording, Rule, Tool, Toolroll
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

NO_REFUNDS = Rule("no refunds", "deny", "org", {"org": "acme"}, tool="create_refund")


def listed() -> list[dict[str, Any]]:
    texts = {"create_refund": "Gives a customer the money back.", "get_forecast": "Weather for a city."}
    texts |= {f"other_{at}": f"Does the thing number {at}." for at in range(20)}
    return [{"name": name, "description": text, "input_schema": {}} for name, text in texts.items()]


def test_rules_of_the_registry_hold_for_the_tools_of_a_request(database_url: str, tmp_path: Path) -> None:
    with Registry.open(database_url, actor="ada") as registry:
        registry.create(Tool("create_refund", "Somebody else's tool of that name"))
        with Toolroll.open(database_url, recording=Recording(outbox=tmp_path / "outbox")) as roll:
            acme, others = Context(org="acme"), Context(org="globex")
            refund = "give the customer the money back"
            assert roll.with_tools(listed()).select(refund, acme, k=1).names == ("create_refund",)
            registry.rules.add(NO_REFUNDS)
            roll.refresh()
            assert "create_refund" not in roll.with_tools(listed()).select(refund, acme, k=1)
            assert roll.with_tools(listed()).select(refund, others, k=1).names == ("create_refund",)
            assert not roll.with_tools(listed()).why("create_refund", acme).visible


def test_outcomes_of_a_request_are_stored_and_learnt(database_url: str, tmp_path: Path) -> None:
    with (
        Registry.open(database_url, actor="ada"),
        Toolroll.open(
            database_url, follow=Follow(poll_s=0.1), recording=Recording(outbox=tmp_path / "outbox")
        ) as roll,
    ):
        context = Context(org="acme", user="bob")
        picked = roll.with_tools(listed()).select("give the money back", context, k=2)
        roll.record(roll.receipt(picked), {"create_refund": True})
        session = roll.with_tools(listed()).session("chat", context)
        session.select("what is the weather", k=1)
        session.used({"get_forecast": True})
        session.end_turn()
        assert roll.flush(10)
        database = Database.open(database_url, create=False, migrate=False)
        try:
            events = rows_of(database, tables.selection_events)
            assert {event.event_id for event in events} >= {picked.event_id}
        finally:
            database.close()
        eventually(lambda: roll._home.learned("acme") is not None)
        again = roll.with_tools(listed()).select("give the money back", context, k=2)
        assert again.candidates.reranked is not None
        held = roll.with_tools(listed()).session("chat", context).select("and the money back", k=1)
        assert {"get_forecast", "create_refund"} <= set(held.names)
