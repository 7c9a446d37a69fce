"""An organisation's pins: it always selects a tool of the platform, or no longer does, and nobody else notices."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.commands import Typed
from toolroll import Context, Follow, Tool, Toolroll
from toolroll.embedders.named import embedder
from toolroll.model.errors import InvalidInput, NotFound
from toolroll.model.rules import Rule
from toolroll.registry.events.replay import replay
from toolroll.registry.registry import Registry
from toolroll.selection.pipeline_builder import PipelineBuilder
from toolroll.selection.profiles import profile

ACME, GLOBEX = Context(org="acme"), Context(org="globex")
MESSAGE = "zzz"


@pytest.fixture
def registry(database_url: str) -> Iterator[Registry]:
    with Registry.open(database_url, actor="ada") as opened:
        for at in range(6):
            opened.create(Tool(f"tool_{at}", f"does the thing of number {at}", pinned=at == 0))
        yield opened


@pytest.fixture
def roll(registry: Registry, database_url: str) -> Iterator[Toolroll]:
    with Toolroll.open(database_url, follow=Follow(poll_s=0.2)) as opened:
        yield opened


def picked(roll: Toolroll, context: Context) -> tuple[str, ...]:
    roll.refresh()
    roll.warm_up(["acme"])
    return roll.select(MESSAGE, context, k=0).names


def test_a_pin_of_an_organisation_counts_for_it_alone(registry, roll):
    registry.pins.set("tool_3", org="acme")
    assert picked(roll, ACME) == ("tool_0", "tool_3")
    assert picked(roll, GLOBEX) == picked(roll, Context()) == ("tool_0",)


def test_the_heavier_pin_comes_first(registry, roll):
    registry.pins.set("tool_3", org="acme", weight=1)
    registry.pins.set("tool_5", org="acme", weight=2)
    assert picked(roll, ACME) == ("tool_5", "tool_3", "tool_0")
    registry.pins.set("tool_3", org="acme", weight=3)
    assert picked(roll, ACME) == ("tool_3", "tool_5", "tool_0")


def test_an_organisation_may_do_without_a_pin_of_the_platform(registry, roll):
    registry.pins.set("tool_0", org="acme", pinned=False)
    assert "tool_0" not in picked(roll, ACME)
    assert picked(roll, GLOBEX) == ("tool_0",)


def test_a_deleted_pin_leaves_what_the_platform_says(registry, roll):
    registry.pins.set("tool_0", org="acme", pinned=False)
    registry.pins.set("tool_3", org="acme")
    for name in ("tool_0", "tool_3"):
        registry.pins.delete(name, org="acme")
    assert picked(roll, ACME) == ("tool_0",) and registry.pins.list("acme") == ()
    assert len(registry.pins.list("acme", deleted=True)) == 2


def test_a_pin_shows_nothing_that_a_rule_denies(registry, roll):
    registry.pins.set("tool_3", org="acme")
    registry.rules.add(Rule("not here", "deny", "org", {"org": "acme"}, tool="tool_3"))
    assert picked(roll, ACME) == ("tool_0",)


def test_a_pin_stays_with_its_tool_and_not_with_the_name(registry, roll):
    registry.pins.set("tool_3", org="acme")
    registry.update("tool_3", {"name": "tool_7"}, version=1)
    registry.create(Tool("tool_3", "another tool"))
    assert picked(roll, ACME) == ("tool_0", "tool_7")
    registry.delete("tool_7")
    assert picked(roll, ACME) == ("tool_0",)
    registry.restore("tool_7")
    assert picked(roll, ACME) == ("tool_0", "tool_7")


def test_pins_and_own_tools_of_an_organisation_come_together(registry, roll):
    registry.create(Tool("own", "a tool of acme", pinned=True, pin_weight=1), org="acme")
    registry.pins.set("tool_3", org="acme", weight=2)
    assert picked(roll, ACME) == ("tool_3", "own", "tool_0")


def test_a_pin_of_the_platform_or_of_an_own_tool_is_a_field_of_the_tool(registry):
    registry.create(Tool("own", "a tool of acme"), org="acme")
    with pytest.raises(InvalidInput, match="update the tool's `pinned`"):
        registry.pins.set("tool_3", org="")
    with pytest.raises(InvalidInput, match="belongs to organisation 'acme'; update its fields"):
        registry.pins.set("own", org="acme")
    with pytest.raises(NotFound, match="did you mean"):
        registry.pins.set("tool_9", org="acme")
    with pytest.raises(NotFound, match="belongs to the platform.*`registry pins`"):
        registry.update("tool_3", {"pinned": True}, version=1, org="acme")
    with pytest.raises(NotFound, match="has no pin"):
        registry.pins.delete("tool_3", org="acme")


def test_each_change_of_a_pin_is_in_the_audit_log(registry):
    registry.pins.set("tool_3", org="acme", reason="asked for")
    registry.pins.set("tool_3", org="acme")  # changes nothing
    registry.pins.set("tool_3", org="acme", weight=2)
    registry.pins.delete("tool_3", org="acme")
    lines = registry.audit.list(org="acme")
    assert [line.action for line in lines] == ["pin.delete", "pin.update", "pin.create"]
    assert lines[-1].reason == "asked for" and lines[-1].subject == "tool_3"


def test_an_event_is_decided_again_with_the_pins_of_its_time(registry, roll):
    registry.pins.set("tool_3", org="acme")
    picked(roll, ACME)
    event = roll.select("number 5", ACME, k=2)
    assert roll.flush(10)
    registry.pins.set("tool_3", org="acme", weight=5)
    registry.pins.set("tool_4", org="acme")
    registry.pins.delete("tool_3", org="acme")

    def builder(name: str) -> PipelineBuilder:
        return PipelineBuilder(embedder("static"), profile(name))

    again = replay(registry.database, event.event_id, builder)
    assert again.is_same, str(again)


def test_pins_as_typed(database_url, registry, capsys):
    typed = Typed(database_url, capsys)
    done = typed.json("registry", "pins", "set", "tool_3", "--org", "acme", "--weight", "4")
    assert (done["tool"], done["pinned"], done["pin_weight"]) == ("tool_3", True, 4)
    assert "tool_3" in typed.picked(MESSAGE, "--org", "acme", "-k", "1")
    (listed,) = typed.json("registry", "pins", "list", "--org", "acme")["pins"]
    assert listed["tool"] == "tool_3"
    typed("registry", "pins", "set", "tool_0", "--org", "acme", "--unpinned")
    typed("registry", "pins", "delete", "tool_3", "--org", "acme")
    (left,) = typed.json("registry", "pins")["pins"]
    assert (left["tool"], left["pinned"]) == ("tool_0", False)
    assert typed.json("registry", "status")["pins"] == 1
