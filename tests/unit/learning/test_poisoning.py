"""What liars reach: a fifth of all who report, each ten times as loud as the others."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from toolroll import Context, Toolroll

pytestmark = pytest.mark.slow

LINES = Path(__file__).parents[2].joinpath("data", "demo_messages.jsonl").read_text().splitlines()
MESSAGES = [json.loads(line) for line in LINES]
HONEST, LIARS, LOUDER = 40, 10, 10  # a fifth of the reporters
K = 7


@pytest.fixture(scope="module")
def useless():
    roll = Toolroll.demo()
    return next(
        name
        for name in ("platform_help", *roll.catalog.names)
        if roll.catalog.tools[roll.catalog.names[name]].toolkit == "dns_blocking"
    )


def settings():
    roll = Toolroll.demo()
    return tuple({key for toolkit in roll.catalog.toolkits.values() for key in toolkit.settings_keys})


SETTINGS = settings()


def everyday(roll, days=3):
    """What honest people do: they ask, the right tool is called, mostly it works."""
    for day in range(days):
        for at, message in enumerate(MESSAGES):
            context = Context(user=f"honest-{(at * 7 + day) % HONEST}", settings=SETTINGS)
            picked = roll.select(message["message"], context, k=K)
            right = [name for name in message["gold"] if name in picked]
            roll.record(picked, {name: (at + day) % 10 > 0 for name in right})


def lies(roll, lift="", sink="", days=3):
    """Each liar reports ten times as much as an honest person does, and says the same every time."""
    for _ in range(days):
        for liar in range(LIARS):
            for at in range(LOUDER * len(MESSAGES) // HONEST):
                message = MESSAGES[(at * 11 + liar) % len(MESSAGES)]["message"]
                picked = roll.select(message, Context(user=f"liar-{liar}", settings=SETTINGS), k=K)
                called = {sink: False} if sink in picked else {lift: True} if lift in picked else {}
                wanted = {lift: True} if lift and lift not in picked else {}
                roll.record(picked, called, wanted=wanted)


def taught(*liars):
    roll = Toolroll.demo()
    clock = iter(np.arange(1_800_000_000, 1_900_000_000, 20).tolist())
    roll._home.engine._clock = lambda: next(clock)
    roll._home.engine._draw = lambda: 7
    everyday(roll)
    for lie in liars:
        lies(roll, **lie)
    return roll


def places(roll, name):
    """Where the tool stands for each message; 20 for not among the first 20."""
    found = []
    for message in MESSAGES:
        names = roll.select(message["message"], Context(settings=SETTINGS), k=20).names
        found.append(names.index(name) if name in names else 20)
    return np.array(found)


def recall(roll):
    hits = [
        bool(
            set(message["gold"]) & set(roll.select(message["message"], Context(settings=SETTINGS), k=K).names)
        )
        for message in MESSAGES
    ]
    return np.mean(hits)


def test_a_fifth_of_liars_takes_no_right_tools_place(useless):
    """Ten liars, ten times as loud, about every message there is: bounded, and harmful to nobody else's tools."""
    honest, poisoned = taught(), taught({"lift": useless})
    assert recall(poisoned) >= recall(honest) - 0.02
    assert np.mean(places(poisoned, useless) < K) <= 0.25
    assert np.median(places(poisoned, useless)) >= K


def test_one_liar_lifts_and_sinks_nothing(useless):
    roll = Toolroll.demo()
    for message in MESSAGES[:60]:
        picked = roll.select(message["message"], Context(user="liar", settings=SETTINGS), k=K)
        roll.record(
            picked, {name: False for name in picked.names[:2]}, wanted=() if useless in picked else [useless]
        )
    draws = [
        roll.select(message["message"], Context(settings=SETTINGS), k=K).candidates.reranked
        for message in MESSAGES[60:80]
    ]
    untouched = Toolroll.demo()
    for found, message in zip(draws, MESSAGES[60:80], strict=True):
        plain = untouched.select(message["message"], Context(settings=SETTINGS), k=40)
        scores = dict(zip(plain.candidates.rows.tolist(), plain.candidates.scores.tolist(), strict=True))
        means = dict(zip(found.rows.tolist(), found.draw.mean.tolist(), strict=True))
        for row in scores.keys() & means.keys():
            assert means[row] <= scores[row] + 1e-4


def test_two_liars_do_not_hide_a_tool_that_works():
    roll = Toolroll.demo()
    roll._home.engine._draw = lambda: 7
    message = MESSAGES[0]["message"]
    victim = roll.select(message, Context(settings=SETTINGS), k=K).names[-1]
    for number in range(30):
        picked = roll.select(message, Context(user=f"honest-{number % 10}", settings=SETTINGS), k=K)
        roll.record(picked, [victim])
    for number in range(6):
        picked = roll.select(message, Context(user=f"liar-{number % 2}", settings=SETTINGS), k=K)
        roll.record(picked, {victim: False})
    shown = [
        victim in roll.select(message, Context(session=str(i), settings=SETTINGS), k=K) for i in range(20)
    ]
    assert all(shown)
