"""An experiment deals selections out to profiles: the same to the same people, over one catalog."""

from __future__ import annotations

import pytest

from toolroll import Context, Tool, Toolkit, Toolroll
from toolroll.learning.experiments import Experiment
from toolroll.model.errors import NotFound

TOOLS = [Tool(f"tool_{i}", f"Does the thing number {i} with widgets") for i in range(30)]


def made(variants, **options):
    return Toolroll.from_tools(TOOLS, experiment=Experiment("ranking", variants, **options))


def variants_of(roll, contexts):
    return [roll.select("number 7", context, k=5).turn.variant for context in contexts]


def test_everybody_gets_one_variant_and_keeps_it():
    roll = made({"static": 0.5, "learned": 0.5})
    users = [Context(user=f"user-{i}") for i in range(200)]
    assigned = variants_of(roll, users)
    assert assigned == variants_of(roll, users)
    assert 60 < assigned.count("static") < 140
    assert set(assigned) == {"static", "learned"}


def test_users_of_the_same_name_in_two_organisations_are_two():
    roll = made({"static": 0.5, "learned": 0.5})
    here = variants_of(roll, [Context(org="a", user=f"user-{i}") for i in range(100)])
    there = variants_of(roll, [Context(org="b", user=f"user-{i}") for i in range(100)])
    assert here != there


def test_who_has_no_name_is_in_no_experiment():
    roll = made({"static": 0.5, "learned": 0.5})
    assert variants_of(roll, [Context(), Context(session="s")]) == ["", ""]


def test_a_variant_decides_as_its_profile_does():
    roll = made({"static": 0.5, "learned": 0.5})
    for name in ("static", "learned"):
        alone = Toolroll.from_tools(TOOLS, profile=name)
        alone._home.engine._draw = roll._home.engine._draw = lambda: 7
        user = next(f"u{i}" for i in range(99) if variants_of(roll, [Context(user=f"u{i}")]) == [name])
        context = Context(user=user)
        assert roll.select("number 7", context, k=5).names == alone.select("number 7", context, k=5).names


def test_variants_share_a_catalog_and_are_refreshed_with_it():
    roll = made({"static": 0.5, "default": 0.5})
    roll.refresh(tools=[*TOOLS, Tool("newcomer", "Peels potatoes")])
    users = [Context(user=f"user-{i}") for i in range(20)]
    shown = [roll.select("peel potatoes", context, k=3) for context in users]
    assert {picked.turn.variant for picked in shown} == {"static", "default"}
    assert all("newcomer" in picked for picked in shown)


def test_a_variant_is_a_known_profile():
    with pytest.raises(NotFound, match="profile 'mine': unknown; known are default"):
        made({"static": 0.5, "mine": 0.5})


def test_rules_hold_for_every_variant():
    from toolroll import Rule

    rule = Rule("not-seven", "deny", "user", {"user": {"ne": "nobody"}}, tool="tool_7")
    roll = Toolroll.from_tools(
        TOOLS, rules=[rule], experiment=Experiment("ranking", {"static": 0.5, "learned": 0.5})
    )
    for i in range(20):
        picked = roll.select("thing number 7", Context(user=f"user-{i}"), k=30)
        assert picked.turn.variant
        assert "tool_7" not in picked


def test_a_profile_that_goes_by_toolkits_finds_their_vectors_as_a_variant_too():
    kits = [Toolkit("weather", "Rain, snow and wind in any city"), Toolkit("music", "Songs and albums")]
    tools = [Tool("a", toolkit="weather"), Tool("b", toolkit="music")]
    roll = Toolroll.from_tools(
        tools, toolkits=kits, experiment=Experiment("layers", {"static": 0.5, "layers": 0.5})
    )
    users = [Context(user=f"user-{i}") for i in range(20)]
    found = [roll.select("snow and wind", user) for user in users]
    assigned = {picked.turn.variant: picked for picked in found}
    assert assigned["layers"].names == ("a",)
    assert assigned["layers"].activated["weather"].startswith("dense")
