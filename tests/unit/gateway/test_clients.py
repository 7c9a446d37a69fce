"""What is kept of clients is bounded, and a client reads its own results alone."""

from __future__ import annotations

import pytest

pytest.importorskip("mcp")

from toolroll.gateway import clients
from toolroll.gateway.clients import Clients


def test_the_client_that_was_not_heard_of_for_longest_makes_room_unless_it_is_in_use(monkeypatch):
    monkeypatch.setattr(clients, "_MOST", 3)
    some = Clients()
    some.of("in use").subscriptions.add(("a", "", "r:/x"))
    for key in ("ann", "bob", "ann", "eve"):
        some.of(key)
    assert [key for key, _ in some] == ["in use", "ann", "eve"]


def test_results_are_their_clients_and_the_oldest_make_room(monkeypatch):
    monkeypatch.setattr(clients, "_MOST_KEPT", 25)
    some = Clients()
    first, second = some.keep_result("ann", "a" * 10), some.keep_result("bob", "b" * 10)
    assert some.result("ann", first) == "a" * 10 and some.result("bob", first) is None
    third = some.keep_result("ann", "c" * 10)
    assert some.result("ann", first) is None and some.get("ann").results == [third] and some.kept == 20
    some.forget("ann")
    assert some.result("ann", third) is None and some.result("bob", second) and some.kept == 10
