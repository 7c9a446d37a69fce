"""Rules that are refused, and what the refusal says."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import TIERS, rules
from tests.table import each_row
from toolroll.model.context import Context
from toolroll.model.errors import InvalidDefinition
from toolroll.model.rules import Rule
from toolroll.selection.policy.conditions import facts_of
from toolroll.selection.policy.policy import check
from toolroll.selection.policy.rule_checks import MAX_ANNOTATED, MAX_DEPTH, MAX_NODES, condition_of

RULE = Rule("r", "deny", "composite", {"org": "acme"}, toolkit="*")


def refusal(condition=RULE.condition, tiers=TIERS, **changes) -> InvalidDefinition:
    rule = replace(RULE, condition=condition, **changes)
    with pytest.raises(InvalidDefinition) as refused:
        check(rule, tiers)
    return refused.value


@each_row(
    ("condition", "place", "says"),
    [
        ({}, "condition", 'is {}, must say something: {"all": []} is always true'),
        ([], "condition", "is [], must be an object"),
        ("acme", "condition", "is 'acme', must be an object"),
        (None, "condition", "is None, must be an object"),
        (
            {"roles": "admin"},
            "condition",
            "has the key 'roles'; did you mean 'role'? must be one of org, user",
        ),
        (
            {1: "admin"},
            "condition",
            "has the key 1; must be one of org, user, page, role, tier, annotation, all, any, not",
        ),
        ({"org": {}}, "condition.org", "is {}, must compare"),
        ({"org": 7}, "condition.org", "is 7, must be a string"),
        ({"org": None}, "condition.org", "is None, must be a string"),
        ({"org": ["a"]}, "condition.org", "is ['a'], must be a string; a list goes with 'in'"),
        ({"org": {"in": "acme"}}, "condition.org.in", "is 'acme', must be a list of strings"),
        ({"org": {"in": ["a", 1]}}, "condition.org.in", "holds 1, must hold strings"),
        ({"org": {"eq": True}}, "condition.org.eq", "is True, must be a string"),
        (
            {"org": {"gte": "a"}},
            "condition.org",
            "compares by 'gte'; only tiers have an order: must be one of",
        ),
        ({"tier": {"gt3": "pro"}}, "condition.tier", "compares by 'gt3'; did you mean 'gt'?"),
        ({"tier": {"gte": "prp"}}, "condition.tier.gte", "is 'prp'; did you mean 'pro'? must be one of free"),
        ({"tier": "gold"}, "condition.tier", "is 'gold'; must be one of free, pro, team"),
        ({"tier": {"in": ["pro", "gold"]}}, "condition.tier.in", "is 'gold'; must be one of free, pro, team"),
        ({"tier": {"lt": ["pro"]}}, "condition.tier.lt", "is ['pro'], must be a string"),
        ({"page": "a*b"}, "condition.page", "is 'a*b', may have '*' only as its first or last character"),
        ({"all": {"org": "a"}}, "condition.all", "is {'org': 'a'}, must be a list of conditions"),
        ({"any": [{"org": "a"}, {"not": {"usr": "b"}}]}, "condition.any[1].not", "did you mean 'user'?"),
        ({"all": [{}]}, "condition.all[0]", "is {}, must say something"),
        ({"not": []}, "condition.not", "is [], must be an object"),
        ({"annotation": True}, "condition.annotation", "is True, must name annotations, such as"),
        ({"annotation": {}}, "condition.annotation", "is {}, must name annotations, such as"),
        ({"annotation": {1: True}}, "condition.annotation", "has the key 1, must be the name"),
        (
            {"annotation": {"destructivHint": True}},
            "condition.annotation",
            "has the key 'destructivHint'; did you mean 'destructiveHint'?",
        ),
        (
            {"annotation": {"readOnlyHint": "true"}},
            "condition.annotation.readOnlyHint",
            "is 'true', must be true or false",
        ),
        (
            {"annotation": {"readOnlyHint": 1}},
            "condition.annotation.readOnlyHint",
            "is 1, must be true or false",
        ),
        ({"annotation": {"x": 1}}, "condition.annotation.x", "is 1, must be true, false or a string"),
        ({"annotation": {"x": ["a"]}}, "condition.annotation.x", "or a string; a list goes with 'in'"),
        ({"annotation": {"x": {}}}, "condition.annotation.x", "is {}, must compare, such as"),
        ({"annotation": {"x": {"in": "a"}}}, "condition.annotation.x.in", "is 'a', must be a list"),
        (
            {"annotation": {"x": {"in": [None]}}},
            "condition.annotation.x.in",
            "holds None, must be true, false",
        ),
        ({"annotation": {"x": {"gt": "a"}}}, "condition.annotation.x", "compares by 'gt'; must be one of eq"),
        (
            {"any": [{"annotation": {f"x{at}": True}} for at in range(MAX_ANNOTATED + 1)]},
            "condition",
            "makes 9 different comparisons with annotations, must make at most 8: make several rules of it",
        ),
    ],
)
def test_a_wrong_condition_is_refused_with_its_place_and_what_is_allowed(condition, place, says):
    error = refusal(condition)
    assert error.field == place
    assert str(error).startswith(f"rule 'r': {place} ")
    assert says in str(error)


@each_row(
    ("changes", "field", "says"),
    [
        ({"name": ""}, "name", "is empty"),
        ({"name": None}, "name", "is None, must be a string"),
        ({"org": 1}, "org", "is 1, must be a string"),
        ({"effect": "denny"}, "effect", "is 'denny'; did you mean 'deny'? must be one of allow, deny"),
        ({"effect": ["deny"]}, "effect", "must be one of allow, deny"),
        ({"kind": "roles"}, "kind", "did you mean 'role'?"),
        ({"priority": True}, "priority", "is True, must be a whole number"),
        ({"priority": 1.5}, "priority", "is 1.5, must be a whole number"),
        ({"toolkit": ""}, "tool", "names nothing: a tool, or a toolkit, or toolkit '*' for everything"),
        ({"tool": "t"}, "tool", "names tool 't' and toolkit '*', must name one of them"),
        ({"tool": "*", "toolkit": ""}, "tool", "is '*', which is no tool: toolkit '*' means everything"),
    ],
)
def test_a_wrong_field_is_refused_with_what_is_allowed(changes, field, says):
    error = refusal(**changes)
    assert error.field == field
    assert says in str(error)


def test_a_kind_reads_its_own_attribute_alone():
    check(replace(RULE, kind="tier", condition={"any": [{"tier": "pro"}, {"not": {"tier": "free"}}]}), TIERS)
    error = refusal({"all": [{"tier": "pro"}, {"role": "admin"}]}, kind="tier")
    assert error.field == "condition.all[1].role"
    assert "reads 'role', but the rule is of kind 'tier'" in str(error)


def test_an_organisations_rule_is_named_with_its_organisation():
    assert str(refusal({}, org="acme")).startswith("rule 'r' of organisation 'acme': condition ")


def test_without_configured_tiers_no_rule_compares_them():
    assert "is 'pro', but no tiers are configured" in str(refusal({"tier": "pro"}, tiers=()))


def nested(depth: int) -> dict:
    condition: dict = {"org": "acme"}
    for _ in range(depth - 1):
        condition = {"not": condition}
    return condition


def test_conditions_nest_so_deep_and_no_deeper():
    check(replace(RULE, condition=nested(MAX_DEPTH)), TIERS)
    assert f"is nested {MAX_DEPTH + 1} deep, must be at most {MAX_DEPTH}" in str(
        refusal(nested(MAX_DEPTH + 1))
    )
    assert "is nested" in str(refusal(nested(100_000)))
    endless: dict = {}
    endless["not"] = endless
    assert "is nested" in str(refusal(endless))


def test_conditions_grow_so_large_and_no_larger():
    check(replace(RULE, condition={"any": [{"org": "a"}] * (MAX_NODES - 1)}), TIERS)
    assert "goes beyond 1,000" in str(refusal({"any": [{"org": "a"}] * MAX_NODES}))
    assert "goes beyond 1,000" in str(refusal({"any": [{"all": []}] * MAX_NODES}))
    check(replace(RULE, condition={"user": {"in": [f"user {at}" for at in range(50_000)]}}), TIERS)


def test_a_condition_may_be_any_mapping():
    frozen = MappingProxyType({"all": (MappingProxyType({"org": MappingProxyType({"in": ("acme",)})}),)})
    condition = condition_of(replace(RULE, condition=frozen), TIERS)
    assert condition.truth(facts_of(Context(org="acme"))) is True


def test_a_long_value_does_not_make_a_long_message():
    assert len(str(refusal({"tier": "x" * 10_000}, name="n" * 10_000))) < 500


@given(rules())
def test_rules_that_read_the_same_have_equal_conditions(rule):
    assert condition_of(rule, TIERS) == condition_of(replace(rule, name="another"), list(TIERS))
    assert hash(condition_of(rule, TIERS)) == hash(condition_of(rule, TIERS))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(("pro", "*a*b")),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    (
                        "org",
                        "tier",
                        "page",
                        "role",
                        "annotation",
                        "readOnlyHint",
                        "all",
                        "any",
                        "not",
                        "eq",
                        "in",
                        "gt",
                    )
                ),
                inner,
            )
        ),
        max_leaves=12,
    )
)
def test_any_json_is_read_or_refused(condition):
    try:
        read = condition_of(replace(RULE, condition=condition), TIERS)
    except InvalidDefinition as refused:
        assert str(refused).startswith("rule 'r': condition")
    else:
        assert read.truth(facts_of(Context())) in (True, False, None)
