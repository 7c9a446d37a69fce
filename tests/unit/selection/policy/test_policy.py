"""Rules as sets of rows, against an evaluator that asks rule by rule and tool by tool."""

from __future__ import annotations

import os
import random
import threading
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import TIERS, callers, rules
from tests.table import each_row
from toolroll import Context, Tool, Toolkit
from toolroll._core import Bitset
from toolroll.catalog.stacked import StackedTools
from toolroll.model.errors import InvalidDefinition, NotFound
from toolroll.model.rules import Rule
from toolroll.selection.policy.policy import Policy, attribute_key

DECISIONS = int(os.environ.get("TOOLROLL_DECISIONS", "20000"))
ATTRIBUTES = ("org", "page", "role", "tier", "user")


@dataclass(frozen=True)
class World:
    """Tools, toolkits, rules and tiers, without an index over them."""

    tools: tuple[Tool, ...]
    toolkits: dict[str, Toolkit]
    rules: tuple[Rule, ...] = ()
    tiers: tuple[str, ...] = TIERS

    def lineage(self, tool: Tool) -> list[str]:
        """The tool's toolkit and those above it."""
        names, at = [], tool.toolkit
        while at:
            names.append(at)
            at = self.toolkits[at].parent or ""
        return names

    def policy(self, rules: tuple[Rule, ...] | None = None) -> Policy:
        below = {
            kit: np.array([row for row, tool in enumerate(self.tools) if kit in self.lineage(tool)], np.int32)
            for kit in self.toolkits
        }
        names = {tool.name: row for row, tool in enumerate(self.tools)}
        all_rules = self.rules if rules is None else rules
        tools = self.tools
        return Policy.of(len(tools), all_rules, names, below, self.toolkits, self.tiers, tools=tools)


SAYS = (
    None,
    {"readOnlyHint": True},
    {"destructiveHint": True},
    {"destructiveHint": False, "x-pii": "high"},
    {},
)
WORLD = World(
    tuple(
        Tool(f"tool_{at}", toolkit=kit, annotations=SAYS[at])
        for at, kit in enumerate(("", "weather", "email", "email", "crm"))
    ),
    {
        "weather": Toolkit("weather"),
        "sales": Toolkit("sales"),
        "email": Toolkit("email", parent="sales"),
        "crm": Toolkit("crm", parent="sales"),
    },
)


def policy_of(*rules: Rule, **toolkits: Toolkit) -> Policy:
    return replace(WORLD, toolkits={**WORLD.toolkits, **toolkits}).policy(rules)


def visible(policy: Policy, context: Context) -> set[str]:
    denied = policy.denied(context)
    return {name for name, row in policy.names.items() if denied is None or row not in denied}


ALL = {f"tool_{at}" for at in range(5)}
ALWAYS = {"all": []}


def deny(name: str = "no", condition=ALWAYS, kind="composite", **fields) -> Rule:
    return Rule(
        name, "deny", kind, condition, **({"toolkit": "*"} | fields if "tool" not in fields else fields)
    )


def allow(name: str = "yes", condition=ALWAYS, kind="composite", **fields) -> Rule:
    return replace(deny(name, condition, kind, **fields), effect="allow")


# The oracle: truth is a number (0 false, 1/2 unknown, 1 true), so `not` is 1 - x, all is min and any is max.


def page_fits(pattern: str, page: str) -> bool:
    if pattern == "*":
        return True
    if len(pattern) > 2 and pattern[0] == "*" == pattern[-1]:
        return page.find(pattern[1:-1]) >= 0
    if pattern[:1] == "*":
        return page[-len(pattern[1:]) :] == pattern[1:]
    if pattern[-1:] == "*":
        return page[: len(pattern) - 1] == pattern[:-1]
    return pattern == page


def compared(attribute: str, operator: str, operand, context: Context, tiers: tuple[str, ...]) -> float:
    said = context.roles if attribute == "role" else getattr(context, attribute)
    if len(said) == 0:
        return 0.5
    if attribute == "tier" and said not in tiers:
        return 0.5
    if operator in ("gt", "gte", "lt", "lte"):
        mine, theirs = tiers.index(said), tiers.index(operand)
        return float(
            {"gt": mine > theirs, "gte": mine >= theirs, "lt": mine < theirs, "lte": mine <= theirs}[operator]
        )
    wanted = operand if operator == "in" else [operand]
    held = said if attribute == "role" else [said]
    if attribute == "page":
        found = any(page_fits(pattern, said) for pattern in wanted)
    else:
        found = any(value == one for value in held for one in wanted)
    return float(found != (operator == "ne"))


MCP_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def annotated(name: str, operator: str, operand, tool: Tool) -> float:
    """What a tool tells of itself; what it does not tell, or tells in the wrong type, is unknown."""
    said = tool.annotations or {}
    value = said.get(name)
    if value is None and said.get("readOnlyHint") is True:  # it changes nothing
        value = {"destructiveHint": False, "idempotentHint": True}.get(name)
    if not (value is True or value is False or (isinstance(value, str) and name not in MCP_HINTS)):
        return 0.5
    found = any(
        value is one or (isinstance(value, str) and value == one)
        for one in (operand if operator == "in" else [operand])
    )
    return float(found != (operator == "ne"))


def truth(
    condition, context: Context, tiers: tuple[str, ...], tool: Tool, best: float | None = None
) -> float:
    """best: what comparisons with annotations are worth, whatever the tool; None for what they are of it."""
    found = [1.0]
    for key, value in condition.items():
        if key == "all":
            found.append(min([1.0] + [truth(part, context, tiers, tool, best) for part in value]))
        elif key == "any":
            found.append(max([0.0] + [truth(part, context, tiers, tool, best) for part in value]))
        elif key == "not":
            found.append(1 - truth(value, context, tiers, tool, None if best is None else 1 - best))
        elif key == "annotation":
            for name, compare in value.items():
                for operator, operand in (compare if isinstance(compare, dict) else {"eq": compare}).items():
                    of_it = annotated(name, operator, operand, tool)
                    found.append(of_it if best is None else best)
        elif isinstance(value, str):
            found.append(compared(key, "eq", value, context, tiers))
        else:
            found += [compared(key, operator, operand, context, tiers) for operator, operand in value.items()]
    return min(found)


def matching(world: World, context: Context, tool: Tool) -> list[Rule]:
    """The rules in force that match the tool, of both levels, if they name it."""
    found = []
    for rule in world.rules:
        if rule.org in ("", context.org):
            is_true = truth(rule.condition, context, world.tiers, tool)
            if is_true == 1 or (is_true == 0.5 and rule.effect == "deny"):
                found.append(rule)
    return found


def allow_lists(world: World, context: Context) -> list[Rule]:
    """The allow rules that match some tool or could match one."""
    return [
        rule
        for rule in world.rules
        if rule.org in ("", context.org)
        and rule.effect == "allow"
        and truth(rule.condition, context, world.tiers, Tool("any"), best=1.0) == 1
    ]


def is_visible(world: World, tool: Tool, context: Context) -> bool:
    matched, allowing = matching(world, context, tool), allow_lists(world, context)
    for kit in world.lineage(tool):
        lowest = world.toolkits[kit].tier
        if lowest is not None and compared("tier", "gte", lowest, context, world.tiers) != 1:
            return False
    for org in {"", context.org}:
        level = [rule for rule in matched if rule.org == org]
        naming = [
            rule
            for rule in level
            if rule.tool == tool.name or rule.toolkit == "*" or rule.toolkit in world.lineage(tool)
        ]
        if naming:
            top = max(rule.priority for rule in naming)
            if any(rule.effect == "deny" for rule in naming if rule.priority == top):
                return False
        elif any(rule.org == org for rule in allowing):
            return False
    return True


# Random worlds.

ORGS, USERS, ROLES = ("acme", "globex", "a|b"), ("ann", "bob", "a\x00b"), ("admin", "sales", "dev")
PAGES = ("contacts", "contacts/7", "deals", "my/contacts", "home")
PATTERNS = (*PAGES, "contacts*", "*contacts", "*tact*", "*", "h*")
ANNOTATIONS = {
    "readOnlyHint": (True, False),
    "destructiveHint": (True, False),
    "openWorldHint": (True, False),
    "x-pii": ("high", "low", True),
}
VALUES = {"org": ORGS, "user": USERS, "page": PATTERNS, "role": ROLES, "tier": TIERS}


def random_annotation(draw: random.Random) -> dict:
    """Of one annotation, by its value or by operators."""
    name = draw.choice(list(ANNOTATIONS))
    values, operator = ANNOTATIONS[name], draw.choice(("", "eq", "ne", "in"))
    value = draw.choices(values, k=draw.randrange(3)) if operator == "in" else draw.choice(values)
    return {"annotation": {name: {operator: value} if operator else value}}


def random_annotations(draw: random.Random) -> dict | None:
    """What a tool says of itself: nothing, a little, or something damaged."""
    if draw.random() < 0.3:
        return None
    said = {
        name: draw.choice((*values, *values, None, 1, "true", [True]))
        for name, values in ANNOTATIONS.items()
        if draw.random() < 0.5
    }
    return said | ({"title": "T"} if draw.random() < 0.2 else {})


def random_comparison(draw: random.Random, attribute: str) -> dict:
    if attribute == "annotation":
        return random_annotation(draw)
    values = VALUES[attribute]
    operators = ["eq", "ne", "in"] + (["gt", "gte", "lt", "lte"] * 2 if attribute == "tier" else [])
    if draw.random() < 0.3:
        return {attribute: draw.choice(values)}
    chosen = draw.sample(operators, 2 if draw.random() < 0.2 else 1)
    return {
        attribute: {
            operator: draw.choices(values, k=draw.randrange(4)) if operator == "in" else draw.choice(values)
            for operator in chosen
        }
    }


def random_condition(draw: random.Random, attributes: tuple[str, ...], depth: int) -> dict:
    """All forms: comparisons, several keys in one object, all, any and not within each other."""
    form = draw.random()
    if depth == 0 or form < 0.45:
        return random_comparison(draw, draw.choice(attributes))
    if form < 0.55:
        several = draw.sample(attributes, min(2, len(attributes)))
        return {key: value for one in several for key, value in random_comparison(draw, one).items()}
    if form < 0.7:
        return {"not": random_condition(draw, attributes, depth - 1)}
    parts = [random_condition(draw, attributes, depth - 1) for _ in range(draw.randrange(4))]
    return {draw.choice(("all", "any")): parts}


def random_rule(draw: random.Random, name: str, tools: tuple[Tool, ...], kits: list[str]) -> Rule:
    kind = draw.choice(("org", "user", "page", "role", "tier", "annotation", "composite", "composite"))
    attributes = (*ATTRIBUTES, "annotation") if kind == "composite" else (kind,)
    target = (
        {"tool": draw.choice([tool.name for tool in tools] + ["unheard_of"])}
        if draw.random() < 0.5
        else {"toolkit": draw.choice([*kits, "*", "unheard_of"])}
    )
    return Rule(
        name,
        draw.choice(("allow", "deny")),
        kind,
        random_condition(draw, attributes, draw.randrange(4)),
        priority=draw.randrange(-1, 3),
        org=draw.choice(("", "", "acme", "globex")),
        **target,
    )


def random_world(draw: random.Random) -> World:
    kits: dict[str, Toolkit] = {}
    for name in ("one", "two", "three", "four"):
        parent = draw.choice([None, *kits])
        kits[name] = Toolkit(name, parent=parent, tier=draw.choice((None, None, None, *TIERS)))
    tools = tuple(
        Tool(f"tool_{at}", toolkit=draw.choice(["", *kits]), annotations=random_annotations(draw))
        for at in range(6)
    )
    count = draw.choice((0, 1, 2, 4, 8))
    return World(
        tools, kits, tuple(random_rule(draw, f"rule_{at}", tools, list(kits)) for at in range(count))
    )


def random_context(draw: random.Random) -> Context:
    return Context(
        org=draw.choice(("", "", "other", *ORGS)),
        user=draw.choice(("", *USERS)),
        roles=tuple(draw.choices(ROLES, k=draw.randrange(3))),
        tier=draw.choice(("", "unheard_of", *TIERS)),
        page=draw.choice(("", *PAGES)),
    )


@pytest.mark.slow
def test_random_rule_sets_and_contexts_are_decided_as_rule_by_rule():
    """Masks, what the cache then answers, and `why`: no difference, six contexts to a set of rules."""
    draw = random.Random(4)
    pairs = hidden = 0
    for _ in range(DECISIONS // 6):
        world = random_world(draw)
        policy = world.policy()
        asked = [random_context(draw) for _ in range(6)]
        expected = []
        for context in asked:
            expected.append([is_visible(world, tool, context) for tool in world.tools])
        for context, rows in zip(asked * 2, expected * 2, strict=True):  # the second time from the cache
            denied = policy.denied(context)
            assert [denied is None or row not in denied for row in range(6)] == rows, (world, context)
        for context, rows in zip(asked, expected, strict=True):
            told = [policy.why(tool.name, context).visible for tool in world.tools]
            assert told == rows, (world, context)
            hidden += not all(rows)
        pairs += len(asked)
    assert pairs > DECISIONS - 6
    assert 0.2 < hidden / pairs < 0.9  # else the worlds would ask nothing


def test_why_names_the_deciding_rule_for_every_tool_of_a_thousand_worlds():
    """The rule that it names does name the tool, and none of a higher priority does."""
    draw = random.Random(5)
    for _ in range(1_000):
        world, context = random_world(draw), random_context(draw)
        policy, allowing = world.policy(), allow_lists(world, context)
        for tool in world.tools:
            matched = matching(world, context, tool)
            verdict = policy.why(tool.name, context)
            assert verdict.visible == is_visible(world, tool, context)
            if verdict.rule is None:
                assert verdict.level == "" or "is for tier" in verdict.reason
                continue
            assert verdict.rule in matched or verdict.rule in allowing
            assert verdict.level == ("organisation" if verdict.rule.org else "platform")
            assert repr(verdict.rule.name) in verdict.reason
            level = [rule for rule in matched if rule.org == verdict.rule.org]
            lineage = (*world.lineage(tool), "*")
            naming = [rule for rule in level if rule.tool == tool.name or rule.toolkit in lineage]
            if verdict.rule in naming:
                assert verdict.rule.priority == max(rule.priority for rule in naming)
                assert (verdict.rule.effect == "allow") == verdict.visible
            else:  # an allow list
                assert not naming and not verdict.visible and verdict.rule.effect == "allow"


# What the rules mean, one by one.


def test_without_rules_nothing_is_denied():
    assert policy_of().denied(Context()) is None
    assert policy_of().why("tool_0", Context()).reason == "no rule names it"


def test_a_rule_that_names_a_tool_without_effect_is_named_with_the_reason():
    reason = (
        policy_of(deny("a", {"org": {"ne": "acme"}}, toolkit="sales")).why("tool_2", Context("acme")).reason
    )
    assert "names it, its condition does not hold: " in reason and '{"org": {"ne": "acme"}}' in reason
    reason = policy_of(allow("b", {"role": "admin"}, tool="tool_0")).why("tool_0", Context()).reason
    assert "is not known to hold (role): " in reason
    own = deny("c", {"user": "bo"}, tool="tool_0", org="acme")
    reason = policy_of(own).why("tool_0", Context("acme", "ann")).reason
    assert reason.startswith("'acme''s rule 'c' names it")
    both = (
        policy_of(own, deny("d", {"user": "cy"}, tool="tool_0")).why("tool_0", Context("acme", "ann")).reason
    )
    assert both.startswith("the platform's rule") and "; 'acme''s rule" in both
    assert policy_of(own).why("tool_1", Context("acme", "ann")).reason == "no rule names it"


def test_a_rule_on_a_toolkit_reaches_those_below_it():
    assert visible(policy_of(deny(toolkit="sales")), Context()) == {"tool_0", "tool_1"}


def test_the_higher_priority_decides_and_deny_at_equal_priority():
    everything_but = (deny(priority=1), allow(tool="tool_0", priority=2))
    assert visible(policy_of(*everything_but), Context()) == {"tool_0"}
    tie = (deny(tool="tool_0"), allow(tool="tool_0"), allow("all", toolkit="*", priority=-1))
    assert visible(policy_of(*tie), Context()) == ALL - {"tool_0"}


def test_an_allow_rule_that_matches_makes_the_level_an_allow_list():
    policy = policy_of(allow(condition={"org": "acme"}, toolkit="email"))
    assert visible(policy, Context(org="acme")) == {"tool_2", "tool_3"}
    assert visible(policy, Context(org="globex")) == ALL
    verdict = policy.why("tool_0", Context(org="acme"))
    assert verdict.reason.startswith(
        "an allow list is in force and does not name it: the platform's rule 'yes'"
    )


def test_an_allow_list_whose_tool_does_not_exist_shows_nothing():
    policy = policy_of(allow(tool="unheard_of"))
    assert visible(policy, Context()) == set()


@each_row(
    "condition",
    [
        {"tier": {"lt": "pro"}},
        {"user": "bob"},
        {"role": {"ne": "admin"}},
        {"page": "home"},
        {"not": {"org": "acme"}},
        {"any": [{"user": "bob"}, {"tier": "free"}]},
    ],
)
def test_what_a_caller_does_not_say_helps_against_no_deny_and_opens_no_allow(condition):
    nobody = Context()
    assert visible(policy_of(deny(condition=condition)), nobody) == set()
    assert visible(policy_of(deny(priority=1), allow(condition=condition, priority=2)), nobody) == set()


def test_a_tier_that_is_not_configured_is_unknown():
    stranger = Context(tier="platinum")
    assert visible(policy_of(deny(condition={"tier": {"lt": "pro"}})), stranger) == set()
    assert visible(policy_of(deny(condition={"tier": "pro"})), stranger) == set()  # "Pro", misspelt
    assert visible(policy_of(allow(condition={"tier": {"ne": "pro"}})), stranger) == ALL  # no allow list


def test_a_toolkits_lowest_tier_is_outweighed_by_no_priority_and_reaches_those_below():
    policy = policy_of(allow(priority=1_000_000), sales=Toolkit("sales", tier="pro"))
    assert visible(policy, Context(tier="free")) == {"tool_0", "tool_1"}
    assert visible(policy, Context()) == {"tool_0", "tool_1"}
    assert visible(policy, Context(tier="unheard_of")) == {"tool_0", "tool_1"}
    assert visible(policy, Context(tier="pro")) == visible(policy, Context(tier="team")) == ALL
    reason = policy.why("tool_4", Context(tier="free")).reason
    assert reason == "toolkit 'sales' is for tier 'pro' and above, the context has tier 'free'"


def test_an_organisation_takes_away_and_never_adds():
    policy = policy_of(
        deny(tool="tool_0"),
        allow("all", toolkit="*", org="acme", priority=99),
        deny("mail", toolkit="email", org="acme", priority=100),
    )
    assert visible(policy, Context(org="acme")) == {"tool_1", "tool_4"}
    assert visible(policy, Context(org="globex")) == visible(policy, Context()) == ALL - {"tool_0"}
    assert policy.why("tool_2", Context(org="acme")).level == "organisation"
    assert policy.why("tool_0", Context(org="acme")).level == "platform"


def test_why_says_rule_effect_priority_condition_and_what_it_could_not_know():
    policy = policy_of(deny("payers", {"tier": {"lt": "pro"}}, "tier", toolkit="crm", priority=5))
    assert policy.why("tool_4", Context(tier="free")).reason == (
        'hidden by the platform\'s rule \'payers\' (deny, priority 5): {"tier": {"lt": "pro"}}'
    )
    assert policy.why("tool_4", Context()).reason.endswith("; unknown of this context, so it counts: tier")
    with pytest.raises(NotFound, match="tool 'unheard_of': is not in the catalog"):
        policy.why("unheard_of", Context())


def test_a_reason_can_be_printed_whatever_the_condition_compares_with():
    policy = policy_of(deny(condition={"user": {"in": ["\u202e", "x" * 10_000]}}))
    reason = policy.why("tool_0", Context()).reason
    assert len(reason.encode()) < 400


# Annotations.

DESTRUCTIVE = {"annotation": {"destructiveHint": True}}


def test_a_denial_of_destructive_tools_reaches_those_that_do_not_tell():
    policy = policy_of(deny("no harm", DESTRUCTIVE, "annotation"))
    assert visible(policy, Context()) == {"tool_1", "tool_3"}, "a tool that only reads destroys nothing"
    assert policy.why("tool_2", Context()).reason == (
        "hidden by the platform's rule 'no harm' (deny, priority 0): "
        '{"annotation": {"destructiveHint": true}}'
    )
    assert policy.why("tool_0", Context()).reason.endswith(
        "; unknown of this tool, so it counts: annotation destructiveHint"
    )


def test_an_allow_list_of_tools_that_only_read_needs_them_to_tell():
    policy = policy_of(allow("readers", {"annotation": {"readOnlyHint": True}}, "annotation"))
    assert visible(policy, Context()) == {"tool_1"}
    verdict = policy.why("tool_0", Context())
    assert verdict.rule is not None and verdict.rule.name == "readers"
    assert verdict.reason.startswith("an allow list is in force and does not name it")
    assert verdict.reason.endswith("; unknown of this tool: annotation readOnlyHint")


def test_an_allow_list_of_annotations_that_no_tool_has_shows_nothing():
    assert visible(policy_of(allow(condition={"annotation": {"x-new": True}})), Context()) == set()


@each_row("damaged", [1, 0, "true", "false", [], {}, 1.0])
def test_a_damaged_hint_hides_the_tool_from_every_rule_that_asks_for_it(damaged):
    world = World((Tool("t", annotations={"readOnlyHint": True, "destructiveHint": damaged}),), {})
    for value in (True, False):
        asked = {"annotation": {"destructiveHint": value}}
        for rule in (deny(condition=asked), allow(condition=asked)):
            for one in (rule, replace(rule, condition={"not": asked})):
                assert visible(world.policy((one,)), Context()) == set()


def test_annotations_stand_beside_attributes_of_the_context():
    condition = {"role": "intern", "annotation": {"destructiveHint": {"ne": False}}}
    policy = policy_of(deny(condition=condition, toolkit="sales"))
    assert visible(policy, Context(roles=("intern",))) == {"tool_0", "tool_1", "tool_3"}
    assert visible(policy, Context(roles=("boss",))) == ALL
    assert policy.why("tool_4", Context()).reason.endswith(
        "; unknown of this context, so it counts: role; unknown of this tool, so it counts: "
        "annotation destructiveHint"
    )
    either = policy_of(
        allow(condition={"any": [{"role": "boss"}, {"annotation": {"x-pii": {"in": ["high"]}}}]})
    )
    assert visible(either, Context(roles=("intern",))) == {"tool_3"}
    assert visible(either, Context(roles=("boss",))) == ALL


def test_annotations_are_looked_at_when_a_policy_is_compiled_and_in_no_selection():
    class Counted(tuple):
        looks = 0

        def __getitem__(self, row):
            Counted.looks += 1
            return super().__getitem__(row)

    tools = Counted(WORLD.tools)
    below, names = WORLD.policy().below, WORLD.policy().names
    policy = Policy.of(5, [deny(condition=DESTRUCTIVE)], names, below, WORLD.toolkits, TIERS, tools=tools)
    compiled = Counted.looks
    assert compiled > 0
    for user in ("ann", "bob"):
        assert visible(policy, Context(user=user)) == {"tool_1", "tool_3"}
    assert Counted.looks == compiled


def test_the_annotations_of_a_shared_catalog_are_looked_at_once_for_all_catalogs_over_it():
    own = (Tool("own_0", annotations={"readOnlyHint": True}), Tool("own_1"))
    rule = deny(condition=DESTRUCTIVE)
    shared = WORLD.policy((rule,))
    tools = StackedTools(WORLD.tools, own)
    names = {**shared.names, "own_0": 5, "own_1": 6}
    for platform in (shared, replace(WORLD, tools=tuple(reversed(WORLD.tools))).policy((rule,))):
        policy = Policy.of(7, [], names, shared.below, WORLD.toolkits, TIERS, tools=tools, platform=platform)
        assert visible(policy, Context()) == {"tool_1", "tool_3", "own_0"}
        assert (policy.tools.shared is shared.tools) == (platform is shared)


# Properties.


@given(st.lists(rules(), max_size=5), rules(), callers())
def test_adding_a_deny_never_shows_a_tool(some, another, context):
    some = numbered(some)
    more = [*some, replace(another, effect="deny", name="another")]
    assert visible(policy_of(*more), context) <= visible(policy_of(*some), context)


@given(st.lists(rules(), max_size=5), st.randoms(use_true_random=False), callers())
def test_order_and_repetition_of_rules_change_nothing(some, draw, context):
    some = numbered(some)
    others = [*some, *(replace(rule, name=f"again {rule.name}") for rule in some)]
    draw.shuffle(others)
    assert visible(policy_of(*others), context) == visible(policy_of(*some), context)


@given(st.lists(rules(), max_size=5), callers())
def test_rules_of_one_organisation_are_nothing_to_another(some, context):
    some = numbered(some)
    own = [rule for rule in some if rule.org in ("", context.org)]
    assert visible(policy_of(*some), context) == visible(policy_of(*own), context)


@given(st.lists(rules(), max_size=6), st.integers(0, 63), st.integers(0, 63), callers())
def test_a_policy_after_an_earlier_one_over_the_same_catalog_decides_as_one_of_its_own(
    some, then, now, context
):
    some = numbered(some)
    before = policy_of(*(rule for at, rule in enumerate(some) if then >> at & 1))
    present = [rule for at, rule in enumerate(some) if now >> at & 1]
    policy = Policy.of(
        *(5, present, before.names, before.below, WORLD.toolkits, WORLD.tiers),
        tools=WORLD.tools,
        before=before,
    )
    expected = policy_of(*present)
    assert visible(policy, context) == visible(expected, context)
    assert policy.attributes == expected.attributes
    for name in before.names:
        assert policy.why(name, context) == expected.why(name, context)


@given(st.lists(rules(), max_size=5), callers())
def test_platform_rules_taken_from_another_policy_decide_the_same(some, context):
    some = numbered(some)
    shared = policy_of(*(rule for rule in some if not rule.org))
    own = [rule for rule in some if rule.org]
    policy = Policy.of(
        *(5, own, shared.names, shared.below, WORLD.toolkits, WORLD.tiers),
        tools=WORLD.tools,
        platform=shared,
    )
    assert visible(policy, context) == visible(policy_of(*some), context)


def numbered(some: list[Rule]) -> list[Rule]:
    return [replace(rule, name=f"rule {at}") for at, rule in enumerate(some)]


# Whose answer it is.

TRICKY = (
    "",
    "a",
    "b",
    "|",
    "a|b",
    "a\x00b",
    "1:a",
    "a1:b",
    "user1:a",
    "role1:",
    "\ud800",
    "é",
    "e\u0301",
    "한",
)


def tricky_context(draw: random.Random) -> Context:
    def text() -> str:
        return "".join(draw.choices(TRICKY, k=draw.randrange(3)))

    return Context(
        org=text(),
        user=text(),
        roles=tuple(text() for _ in range(draw.randrange(3))),
        tier=text(),
        page=text(),
    )


def attributes_of(context: Context, attributes: tuple[str, ...]) -> tuple[object, ...]:
    return tuple(
        frozenset(context.roles) if name == "role" else getattr(context, name) for name in attributes
    )


def test_keys_are_equal_exactly_where_the_attributes_are():
    draw = random.Random(6)
    seen: dict[bytes, tuple[object, ...]] = {}
    for _ in range(40_000):
        attributes = tuple(sorted(draw.sample(ATTRIBUTES, draw.randrange(1, 6))))
        context = tricky_context(draw)
        said = (attributes, *attributes_of(context, attributes))
        assert seen.setdefault(attribute_key(context, attributes), said) == said
    assert len(set(seen.values())) == len(seen) > 10_000


@each_row("kind", ["org", "user", "page", "role", "tier"])
def test_nobody_ever_sees_the_entry_of_another_user_role_page_tier_or_organisation(kind):
    """Two policies of which one forgets before each question: what was asked before makes no difference."""
    draw = random.Random(kind)
    tiers = tuple(sorted(set(TRICKY) - {"", "\ud800"}))  # a rule's texts are valid Unicode
    world = replace(WORLD, tiers=tiers)
    for _ in range(60):
        values = [draw.choice(tiers) for _ in range(3)]
        some = tuple(
            Rule(
                f"{at}",
                draw.choice(("allow", "deny")),
                kind,
                {kind: value},
                toolkit=draw.choice(["*", *WORLD.toolkits]),
                org=draw.choice(("", "a", "a|b")),
            )
            for at, value in enumerate(values)
        )
        remembers, forgets = world.policy(some), world.policy(some)
        for _ in range(60):
            context = replace(tricky_context(draw), org=draw.choice(TRICKY))
            forgets._forget()
            assert visible(remembers, context) == visible(forgets, context)


def test_only_attributes_that_the_rules_in_force_read_are_part_of_the_key():
    policy = policy_of(
        deny(condition={"tier": "free"}, tool="tool_0"), deny("own", {"user": "ann"}, org="acme")
    )
    for at in range(50):
        policy.denied(Context(user=f"user {at}", page=f"page {at}", tier="free", org=f"org {at}"))
    assert len(policy._answers) == 1
    for at in range(50):
        policy.denied(Context(user=f"user {at}", page=f"page {at}", tier="free", org="acme"))
    assert len(policy._answers) == 51
    assert len(policy._sets) == 2  # fifty users for whom the same rules match share one set of rows


def test_memory_is_bounded_however_many_ask():
    policy = policy_of(deny(condition={"user": {"in": ["ann", "user 77"]}}, tool="tool_0"))
    for at in range(10_000):
        context = Context(user=f"user {at}")
        assert (policy.denied(context) is not None) == (at == 77)
        assert len(policy._answers) <= 4096


def test_sets_of_rows_are_bounded_in_bytes():
    size, count = 1_000_000, 60
    rules = [deny(f"{at}", {"user": f"user {at}"}, tool="t") for at in range(count)]
    policy = Policy.of(size, rules, {"t": 7}, {}, {}, ())
    for at in range(count):
        denied = policy.denied(Context(user=f"user {at}"))
        assert denied == Bitset.of(size, np.array([7], np.int32))
        assert len(policy._sets) * size / 8 <= 4 << 20


def test_threads_that_ask_at_once_get_their_own_answers():
    users = [f"user {at}" for at in range(200)]
    rules = [deny(f"{at}", {"user": user}, tool=f"tool_{at % 5}") for at, user in enumerate(users)]
    policy = policy_of(*rules)
    wrong = []

    def ask(first: int) -> None:
        for turn in range(4 * len(users)):
            at = (first + turn) % len(users)
            if turn % 97 == 0:
                policy._forget()
            if visible(policy, Context(user=users[at])) != ALL - {f"tool_{at % 5}"}:
                wrong.append(at)

    threads = [threading.Thread(target=ask, args=(50 * at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# What is refused.


def test_two_rules_of_one_organisation_have_different_names():
    with pytest.raises(InvalidDefinition, match="rule 'no': name is taken by another rule"):
        policy_of(deny(), deny())
    policy_of(deny(), deny(org="acme"), deny(org="globex"))


def test_a_toolkit_whose_tier_is_not_configured_is_refused():
    with pytest.raises(InvalidDefinition, match=r"toolkit 'crm': tier is 'prp'; did you mean 'pro'\?"):
        policy_of(crm=Toolkit("crm", tier="prp"))
    with pytest.raises(InvalidDefinition, match="toolkit 'crm': tier is 'pro', but no tiers are configured"):
        replace(WORLD, tiers=(), toolkits={**WORLD.toolkits, "crm": Toolkit("crm", tier="pro")}).policy()


@each_row("tiers", ["free", ("free", "free"), ("free", ""), ("free", 1), None])
def test_tiers_are_different_names(tiers):
    with pytest.raises(InvalidDefinition, match="tiers: "):
        Policy.of(0, (), {}, {}, {}, tiers)


def test_an_empty_catalog_has_a_policy():
    policy = Policy.of(0, [deny()], {}, {}, {}, TIERS)
    assert policy.denied(Context()) is None


@each_row("blank", ["", " ", "\t", "\u3000", " \n ", "\u200b", "\ufeff\u2060", "\x00", "\u2800", "\u00ad"])
@each_row("attribute", ["org", "user", "page", "tier", "role"])
def test_a_blank_attribute_is_unknown_as_an_empty_one_is(attribute, blank):
    known = {"org": "acme", "user": "ann", "page": "home", "tier": "pro", "role": "intern"}[attribute]
    said = {"roles": (blank,)} if attribute == "role" else {attribute: blank}
    context = Context(**said)
    for compared in (known, {"ne": known}):
        condition = {attribute: compared}
        assert visible(policy_of(deny(condition=condition, kind=attribute)), context) == set()
        assert visible(policy_of(allow(condition=condition, kind=attribute)), context) == ALL
        assert visible(policy_of(deny(condition={"not": condition})), context) == set()


def test_a_blank_role_beside_another_says_nothing():
    policy = policy_of(deny(condition={"role": {"ne": "intern"}}, kind="role"))
    assert visible(policy, Context(roles=("", " ", "intern"))) == ALL
    assert visible(policy, Context(roles=(" ", "chef"))) == set()


def test_a_blank_tier_gets_no_toolkit_with_a_tier():
    policy = policy_of(email=Toolkit("email", parent="sales", tier="free"))
    assert visible(policy, Context(tier=" ")) == visible(policy, Context()) == ALL - {"tool_2", "tool_3"}
