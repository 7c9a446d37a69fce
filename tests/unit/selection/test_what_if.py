"""Decisions under rules that nobody has saved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toolroll import Context, InvalidDefinition, NotFound, Registry, Rule, Tool, Toolroll
from toolroll.selection.policy.sample_contexts import sample_contexts

INTERN = Context(roles=("intern",))
NO_EXPORTS = Rule("no exports", "deny", "role", {"role": "intern"}, tool="export", priority=1)


@pytest.fixture
def roll():
    tools = [Tool("export", "Exports deals"), Tool("list", "Lists deals")]
    with Toolroll.from_tools(tools, rules=[NO_EXPORTS]) as roll:
        yield roll


def test_a_rule_counts_where_it_is_tried_and_nowhere_else(roll):
    rule = Rule("no lists", "deny", "role", {"role": "intern"}, tool="list")
    changed = roll.what_if([rule])
    assert changed.visible(INTERN).names == ()
    assert changed.why("list", INTERN).rule == rule
    assert changed.preview("list my deals", INTERN).names == ()
    assert roll.visible(INTERN).names == ("list",)


def test_a_rule_of_the_same_name_is_replaced_and_one_left_out_does_not_count(roll):
    other = Rule("no exports", "deny", "role", {"role": "intern"}, tool="list")
    assert roll.what_if([other]).visible(INTERN).names == ("export",)
    assert roll.what_if(without_rules=[("", "no exports")]).visible(INTERN).names == ("export", "list")


def test_an_organisations_rule_is_tried_for_its_own_contexts_alone(roll):
    rule = Rule("own", "deny", "composite", {"all": []}, tool="list", org="acme")
    changed = roll.what_if([rule])
    assert changed.visible(Context(org="acme")).names == roll.what_if().visible(Context(org="acme")).names[:0]
    assert "list" in changed.visible(Context(org="globex"))


def test_a_trial_leaves_no_trace(roll):
    before = roll.counters()
    roll.what_if([]).preview("list my deals", INTERN)
    assert roll.counters().latency == before.latency


@pytest.mark.parametrize(
    "rules",
    [
        [Rule("bad", "deny", "tier", {"tier": {"gte": "gold"}}, tool="list")],
        [NO_EXPORTS, NO_EXPORTS],
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(roll, rules):
    with pytest.raises(InvalidDefinition):
        roll.what_if(rules)


def test_samples_are_anyone_whom_each_rule_is_about_and_each_value():
    condition = {"all": [{"tier": {"lt": "pro"}}, {"not": {"role": ["intern", "guest"]}}, {"page": "deals*"}]}
    found = sample_contexts([Rule("r", "deny", "composite", condition, tool="x")], ["free", "pro"], "acme")
    assert found[:2] == (
        Context(org="acme"),
        Context(org="acme", tier="pro", roles=("intern",), page="deals"),
    )
    assert {Context(org="acme", tier=tier) for tier in ("free", "pro")} < {*found}
    assert Context(org="acme", roles=("guest",)) in found
    assert len(set(found)) == len(found)


def test_samples_are_few_however_many_rules_there_are():
    rules = [Rule(f"r{n}", "deny", "user", {"user": f"u{n}"}, tool="x") for n in range(500)]
    assert len(sample_contexts(rules, (), "")) == 24


def test_a_tools_text_is_tried_and_the_tool_stays_as_it_is(roll):
    tool = replace(roll.catalog.tools[roll.catalog.names["list"]], description="Finds an umbrella")
    tried = roll.what_if(tools=[tool])
    assert "Finds an umbrella" in str(tried.preview("umbrella").schemas("mcp"))
    assert "umbrella" not in str(roll.select("umbrella").schemas("mcp"))


def test_a_trial_of_texts_selects_as_a_catalog_that_is_built_of_them():
    tools = [Tool(f"tool_{number}", f"Sorts drawer {number}") for number in range(1_200)]
    other = replace(tools[7], description="Calls a taxi to the airport", examples=("get me a cab",))
    messages = ["I need a taxi to the airport", "sort drawer 7"]
    with Toolroll.from_tools(tools) as roll, Toolroll.from_tools([*tools[:7], other, *tools[8:]]) as built:
        tried = roll.what_if(tools=[other])
        for message in messages:
            assert tried.preview(message, k=3).names == built.preview(message, k=3).names
        assert "tool_7" in tried.preview(messages[0], k=3).names


def test_a_tool_that_is_not_there_cannot_be_tried(roll):
    with pytest.raises(NotFound, match="no_such"):
        roll.what_if(tools=[Tool("no_such", "Does nothing")])


@pytest.mark.parametrize("name", ["remind", "trace"])
def test_own_and_shared_tools_are_tried_for_an_organisation_and_a_rule_with_them(tmp_path, name):
    acme, url = Context(org="acme"), f"sqlite:///{tmp_path / 'tools.db'}"
    with Registry.open(url) as registry:
        registry.create(Tool("ping", "Asks whether a host is there"))
        registry.create(Tool("trace", "Names the hosts on the way"))
        registry.create(Tool("remind", "Sends a reminder"), org="acme")
    with Toolroll.open(url) as roll:
        roll.warm_up()
        catalog = roll.preview("", acme).catalog
        changed = replace(catalog.tools[catalog.names[name]], description="Waters plants")
        rule = Rule("no", "deny", "composite", {"all": []}, tool="ping")
        tried = roll.what_if([rule], tools=[changed], orgs=["acme"])
        assert set(tried.visible(acme).names) == {"remind", "trace"}
        assert "Waters plants" in str(tried.preview("water", acme).schemas("mcp"))
        assert "Waters plants" not in str(roll.preview("water", acme).schemas("mcp"))


def test_scores_follow_each_tool_through_the_steps(roll):
    selection = roll.preview("list my deals", INTERN)
    (listed, hidden) = selection.scores(["list", "export"], known=False)
    steps = selection.steps(known=False)
    assert len(listed) == len(hidden) == len(steps)
    in_play = [sum(scores[at] is not None for scores in (listed, hidden)) for at in range(len(steps))]
    assert in_play == [step.in_play for step in steps]
    assert listed[-1] is not None
    assert hidden[-1] is None
