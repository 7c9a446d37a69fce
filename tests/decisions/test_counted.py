"""Whatever is degraded, denied or dropped is counted: once, under a name of a closed list."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import get_args

import pytest

from tests.decisions.faults import FAULTS, PICKERS, SOFT, Flaky, with_fault
from tests.table import each_row
from toolroll import Context, Rule, Session, Tool, Toolkit, Toolroll
from toolroll.model.errors import Denied
from toolroll.selection.calls import Denial
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.profiles import PROFILES

DOCS = Path(__file__).parents[2] / "docs"
ANYBODY = Context(user="ann")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def roll_of(profile: str = "default", embedder: Flaky | None = None) -> Toolroll:
    tools = [
        Tool(f"tool_{at}", f"Does the thing number {at}", toolkit="kit", public=True) for at in range(30)
    ]
    rule = Rule("no", "deny", "user", {"user": "eve"}, tool="tool_3")
    return Toolroll.from_tools(
        tools, toolkits=[Toolkit("kit")], rules=[rule], profile=profile, embedder=embedder or "static"
    )


def counted(roll: Toolroll, call: Callable[[], object]) -> dict[str, int]:
    """What the call adds to the counts of degraded parts."""
    before = roll.counters().degraded
    call()
    return {
        name: n - before.get(name, 0)
        for name, n in roll.counters().degraded.items()
        if n > before.get(name, 0)
    }


def entries(roll: Toolroll, stages: str) -> dict[str, Callable[[], object]]:
    """What runs these stages once."""
    session: Session = roll.session("talk", ANYBODY)
    if stages == "search":
        session.select("thing", 3)
        return {"search": lambda: session.search("thing number 4")}
    if stages == "continued":
        session.select("thing", 3)
        return {"a further step": lambda: session.select("thing", 3)}
    if stages == "hard":
        return {
            "select": lambda: roll.select("thing", ANYBODY),
            "visible": lambda: roll.visible(ANYBODY),
            "may": lambda: roll.may("tool_1", ANYBODY),
            "core": lambda: roll.core(ANYBODY),
        }
    whole = {
        "required": replace(ANYBODY, required=("tool_1",)),
        "everything": replace(ANYBODY, everything=True),
    }
    return {"select": lambda: roll.select("thing number 3", whole.get(stages, ANYBODY), 3)}


@each_row("profile", PROFILES)
def test_a_stage_that_fails_is_counted_once_for_each_selection_search_and_list(profile):
    roll = roll_of(profile)
    sound = roll._engine.snapshot
    faults = 0
    for stages in ("hard", *SOFT):
        if stages == "whole":
            pipeline = replace(sound.shared, passes_through=lambda candidates, turn: True)
        else:
            pipeline = replace(sound.shared, passes_through=lambda candidates, turn: False)
        name, kinds = ("pick", ["raises"]) if stages in PICKERS else ("faulty", list(FAULTS))
        for kind, at in product(kinds, range(len(pipeline.hard) if stages == "hard" else 1)):
            roll._engine.swap(replace(sound, shared=pipeline))
            for entry, call in entries(roll, stages).items():
                broken = with_fault(pipeline, stages, kind, at)
                roll._engine.swap(replace(sound, shared=broken))
                found = counted(roll, call)
                assert found == {name: 1}, (stages, at, kind, entry, found)
                faults += 1
    assert faults > 50


@each_row("mode", Flaky.MODES)
def test_an_embedder_that_fails_is_counted_once(mode):
    flaky = Flaky()
    roll = roll_of(embedder=flaky)
    session = roll.session("talk", ANYBODY)
    flaky.mode = mode
    assert counted(roll, lambda: roll.select("a thing", ANYBODY)) == {"embedder": 1}
    assert counted(roll, lambda: session.search("a thing")) == {"embedder": 1}


def test_a_denied_call_is_counted_once_with_its_reason():
    roll = roll_of()
    eve = Context(user="eve")
    picked, session = roll.select("thing 5", eve, 3), roll.session("talk", eve)
    session.select("thing 5", 3)
    delivery = picked.deliver("openai")
    unseen = next(f"tool_{at}" for at in range(30) if f"tool_{at}" not in picked.names)
    checks = (picked.check, delivery.check, session.check)
    for at, check in enumerate(checks):
        for name in (unseen, "nobody", "tool_3", 7):
            with pytest.raises(Denied):
                check(name)
        assert roll.counters().denied == {"not_offered": 4 * (at + 1)}
    shown = picked.names[0]
    session.load(shown)
    roll._engine.swap(replace(roll._engine.snapshot, shared=roll._engine.snapshot.shared.without([shown])))
    for at, check in enumerate(checks):
        with pytest.raises(Denied):
            check(shown)
        assert roll.counters().denied == {"not_offered": 12, "not_allowed": at + 1}
    for check in (picked.check, session.check):
        check(picked.names[1])
    assert set(roll.counters().denied) <= set(get_args(Denial))


def stages_of(pipeline: Pipeline) -> set[str]:
    stages = (*pipeline.hard, pipeline.required, pipeline.continued)
    return {type(stage).__name__ for stage in stages}


def test_the_names_that_are_counted_are_a_closed_list_in_the_documentation():
    stages = {name for profile in PROFILES for name in stages_of(roll_of(profile)._engine.snapshot.shared)}
    described = (DOCS / "parameters.md").read_text()
    assert [name for name in sorted(stages) if f"| `{name}` |" not in described] == []
    others = {
        "pick",
        "embedder",
        "policy",
        "registry",
        "organisation",
        "learning",
        "receipts",
        *get_args(Denial),
    }
    described = (DOCS / "observability.md").read_text()
    assert [name for name in sorted(others) if f"`{name}`" not in described] == []
