"""An experiment of a registry: begun while a roll serves, logged with every turn, counted by unit."""

from __future__ import annotations

import time

import pytest

from toolroll import Context, Follow, Profile, Tool, Toolroll
from toolroll.learning.experiments import Experiment
from toolroll.model.errors import InvalidInput
from toolroll.registry.analytics.experiments import counts, find, start, stop
from toolroll.registry.registry import Registry


def until(said, seconds=60.0):
    give_up = time.monotonic() + seconds
    while not said():
        assert time.monotonic() < give_up
        time.sleep(0.02)


@pytest.fixture
def roll(database_url):
    with Registry.open(database_url, actor="test", create=False) as registry:
        for n in range(12):
            registry.create(Tool(f"tool_{n}", f"Does the thing of number {n}."))
    with Toolroll.open(database_url, follow=Follow(poll_s=0.05, listens=False)) as opened:
        yield opened


def test_units_get_their_variant_which_stands_in_the_event_and_is_counted(database, roll):
    variants = {"default": 0.5, "learned": 0.5}
    trial = start(database, Experiment("ranking", variants), actor="ann", org="acme")

    def selected(user, org="acme"):
        return roll.select("do the thing", Context(org=org, user=user), k=2)

    until(lambda: any(selected(f"probe-{n}").turn.variant for n in range(8)))
    assert selected("u1", org="other").turn.variant == "" and selected("").turn.variant == ""
    assigned = {}
    for n in range(40):
        user = f"u{n % 20}"
        picked = selected(user)
        assert assigned.setdefault(user, picked.turn.variant) == picked.turn.variant
        roll.record(picked, {picked.names[0]: n % 4 != 0})
    assert set(assigned.values()) == set(variants)
    assert assigned == {user: trial.experiment.variant(Context(org="acme", user=user)) for user in assigned}
    assert roll.flush()
    found = counts(database, find(database, "ranking"))
    for name in variants:
        assert found.tallies[name].units == sum(variant == name for variant in assigned.values())
    assert sum(tally.events for tally in found.tallies.values()) == 40
    assert sum(tally.reward for tally in found.tallies.values()) == 30
    assert found.strays == 0 and sum(found.unknown.values()) >= 1  # the probes, of which nothing was said

    stop(database, "ranking", actor="ann")
    until(lambda: not selected("u1").turn.variant)


def test_a_variant_whose_package_is_broken_or_gone_costs_only_itself(database, database_url, monkeypatch):
    looked_up = []

    def plugin(group, name):
        looked_up.append(name)
        return Profile()

    monkeypatch.setattr("toolroll.selection.profiles.plugin", plugin)
    start(database, Experiment("profiles", {"default": 0.4, "mine": 0.3, "gone": 0.3}), actor="ann")
    looked_up.clear()

    def broken(group, name):
        looked_up.append(name)
        if name == "mine":
            raise InvalidInput("toolroll.profiles 'mine': mine:P of package mine cannot be imported: OSError")

    monkeypatch.setattr("toolroll.selection.profiles.plugin", broken)
    with Toolroll.open(database_url) as roll:
        assert roll.ready and set(roll._engine.snapshot.shared.variants) == {"default"}
    assert set(looked_up) == {"gone", "mine"}  # no package is read for a profile of ours
