"""Decisions under rules that nobody has saved."""

from __future__ import annotations

import pytest

from toolroll import Context, InvalidDefinition, Rule, Tool, Toolroll
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
