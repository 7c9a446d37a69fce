"""Rules that cannot be read hide what they could have hidden, and change nothing of the others."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.selection.policy.test_policy import (
    World,
    is_visible,
    random_context,
    random_world,
)
from toolroll import Context, Tool
from toolroll._core import Bitset
from toolroll.context import Turn
from toolroll.errors import InvalidDefinition
from toolroll.rules import EVERYTHING, PageMapping, Rule
from toolroll.selection.effective_policy import EffectivePolicy, PolicySource
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.pipeline_builder import PipelineBuilder
from toolroll.selection.policy.unreadable_rules import UnreadableRule
from toolroll.selection.profiles import Profile
from toolroll.selection.verdict import judge
from toolroll.tools import Definitions

BUILDER = PipelineBuilder(None, Profile(), is_deferred=True)
FAULTS = {
    "effect": ("perhaps", None, 7),
    "kind": ("astrology", b"\xff"),
    "condition": ({}, None, {"sign": "aries"}, {"tier": "unheard of"}, "{"),
    "tool": (b"\xff", None, 3),
    "toolkit": (b"\xff", None, 3),
    "priority": ("high", None),
    "name": ("", None),
}


def tools_visible(pipeline: Pipeline, context: Context) -> set[str]:
    allowed = pipeline.allowed(Turn("", context))
    return {tool.name for row, tool in enumerate(pipeline.catalog.tools) if row in allowed}


def pipeline_of(world: World, policy: EffectivePolicy) -> Pipeline:
    return BUILDER.pipeline(Definitions(world.tools, tuple(world.toolkits.values())), policy)


def public_world(draw: random.Random) -> World:
    world = random_world(draw)
    return replace(world, tools=tuple(replace(tool, public=draw.random() < 0.4) for tool in world.tools))


def damaged(draw: random.Random, rule: Rule) -> tuple[Rule | UnreadableRule, str]:
    """The rule with one field that cannot be read, as a value or as a row; and the field."""
    field = draw.choice(list(FAULTS))
    values = {name: getattr(rule, name) for name in Rule.__slots__} | {field: draw.choice(FAULTS[field])}
    if draw.random() < 0.5:
        return UnreadableRule.of(values, f"row of {rule.name} cannot be read"), field
    return Rule(**values), field


def stays(world: World, tool: Tool, context: Context, lost: list[tuple[Rule, str]]) -> bool:
    """The oracle: whether a tool is visible where of each lost rule one field cannot be read."""
    rest = replace(world, rules=tuple(r for r in world.rules if r not in [o for o, _ in lost]))
    if not is_visible(rest, tool, context):
        return False  # some readable rule, or a tier, hides it
    for rule, field in lost:
        if rule.org not in ("", context.org):
            continue
        effect = None if field == "effect" else rule.effect
        tool_is_known, kit_is_known = field != "tool", field != "toolkit"
        names_it = (tool_is_known and rule.tool == tool.name) or (
            kit_is_known and rule.toolkit in (EVERYTHING, *world.lineage(tool))
        )
        if effect != "allow" and names_it:
            return False
        is_known_to_deny_its_target = effect == "deny" and tool_is_known and kit_is_known
        if not is_known_to_deny_its_target and not tool.public:
            return False
    return True


@pytest.mark.parametrize("on_error", ["closed", "last_known"])
def test_no_damage_to_a_rule_makes_the_decisions_of_the_others_more_permissive(on_error):
    draw = random.Random(7)
    hidden = shown = 0
    for _ in range(400):
        world = public_world(draw)
        lost = [(rule, damaged(draw, rule)) for rule in world.rules if draw.random() < 0.4]
        if not lost:
            continue
        now = [bad for _, (bad, _) in lost]
        source = PolicySource(
            tuple(rule for rule in world.rules if rule not in [old for old, _ in lost])
            + tuple(bad for bad in now if isinstance(bad, Rule)),
            tiers=world.tiers,
            unreadable=tuple(bad for bad in now if isinstance(bad, UnreadableRule)),
        )
        policy = EffectivePolicy.of(source, on_error, None)
        pipeline = pipeline_of(world, policy)
        assert policy.failures.keys() == {rule.org for rule, _ in lost}
        for context in [random_context(draw) for _ in range(6)]:
            left = tools_visible(pipeline, context)
            for tool in world.tools:
                fields = [(rule, field) for rule, (_, field) in lost]
                assert (tool.name in left) == stays(world, tool, context, fields), (world, lost, context)
                if tool.name in left and not tool.public:
                    assert is_visible(world, tool, context)  # as if nothing were damaged
                verdict = judge(pipeline, tool.name, context, frozenset())
                assert verdict.visible == (tool.name in left)
                hidden, shown = hidden + (tool.name not in left), shown + (tool.name in left)
    assert min(hidden, shown) > 1_000


def test_damage_to_a_rule_of_one_organisation_changes_nothing_for_another():
    draw = random.Random(8)
    for _ in range(200):
        world = public_world(draw)
        lost = [rule for rule in world.rules if rule.org == "acme"]
        source = PolicySource(
            tuple(rule for rule in world.rules if rule.org != "acme"),
            tiers=world.tiers,
            unreadable=tuple(UnreadableRule.of({"org": "acme"}, "damaged") for _ in lost),
        )
        pipeline = pipeline_of(world, EffectivePolicy.of(source, "closed", None))
        for context in [random_context(draw) for _ in range(6)]:
            if context.org != "acme":
                expected = {tool.name for tool in world.tools if is_visible(world, tool, context)}
                assert tools_visible(pipeline, context) == expected


TOOLS = (Tool("a", public=True), Tool("b", public=True), Tool("c"), Tool("d"))
ALWAYS = {"all": []}


def visible_under(
    *unreadable: UnreadableRule, rules=(), on_error="closed", org="acme", known=None
) -> set[str]:
    policy = EffectivePolicy.of(PolicySource(tuple(rules), unreadable=unreadable), on_error, known)
    return tools_visible(BUILDER.pipeline(Definitions(TOOLS), policy), Context(org=org))


def lost(**values) -> UnreadableRule:
    return UnreadableRule.of({"org": "acme", "name": "r", "tool": "", "toolkit": ""} | values, "damaged")


def test_a_public_tool_that_the_platform_denies_stays_hidden_beside_an_unreadable_rule_of_an_organisation():
    rule = Rule("no", "deny", "org", {"org": "acme"}, tool="a")
    assert visible_under(lost(effect=None), rules=[rule]) == {"b"}
    assert visible_under(lost(effect=None), rules=[rule], org="globex") == {"a", "b", "c", "d"}


@pytest.mark.parametrize(
    ("values", "left"),
    [
        ({"effect": "deny", "tool": "c"}, {"a", "b", "d"}),
        ({"effect": "deny", "tool": "a"}, {"b", "c", "d"}),
        ({"effect": "deny", "toolkit": "*"}, set()),
        ({"effect": "deny", "tool": None}, {"a", "b"}),
        ({"effect": "deny"}, {"a", "b"}),
        ({"effect": "deny", "tool": "a", "toolkit": "kit"}, {"b"}),
        ({"effect": None, "tool": "a"}, {"b"}),
        ({"effect": "allow", "tool": "c"}, {"a", "b"}),  # all others would be hidden
    ],
)
def test_an_unreadable_rule_hides_its_target_or_all_that_is_not_public(values, left):
    assert visible_under(lost(**values)) == left


def test_no_priority_outweighs_an_unreadable_rule():
    allow = Rule("yes", "allow", "composite", ALWAYS, toolkit="*", priority=9)
    assert visible_under(lost(effect="deny", tool="c"), rules=[allow]) == {"a", "b", "d"}


def test_with_open_an_unreadable_rule_does_not_count_and_the_others_do():
    rule = Rule("no", "deny", "composite", ALWAYS, tool="a")
    assert visible_under(lost(effect=None), rules=[rule], on_error="open") == {"b", "c", "d"}


@pytest.mark.parametrize("by", ["rule_id", "name"])
def test_the_last_known_form_of_a_rule_counts_while_it_cannot_be_read(by):
    known = Rule(
        "r", "deny", "composite", ALWAYS, tool="d", org="acme", rule_id="7" if by == "rule_id" else ""
    )
    before = EffectivePolicy.of(PolicySource((known,)), "last_known", None)
    one = lost(effect=None, rule_id="7", **({"name": None} if by == "rule_id" else {}))
    assert visible_under(one, on_error="last_known", known=before) == {"a", "b", "c"}
    assert visible_under(one, on_error="closed", known=before) == {"a", "b"}
    assert visible_under(replace(one, rule_id="8", name="s"), on_error="last_known", known=before) == {
        "a",
        "b",
    }


def test_of_two_rules_with_one_name_neither_counts_as_readable():
    twice = [Rule("r", "deny", "composite", ALWAYS, tool=tool) for tool in "ac"]
    assert visible_under(rules=twice) == {"b", "d"}
    assert visible_under(rules=[twice[0], replace(twice[1], effect="allow")]) == {"b"}


def test_tiers_that_cannot_be_read_make_the_rules_unreadable_that_compare_with_them():
    rule = Rule("r", "deny", "tier", {"tier": {"lt": "pro"}}, tool="c")
    other = Rule("s", "deny", "user", {"user": "ann"}, tool="d")
    source = PolicySource((rule, other), tiers=("free", 5))  # type: ignore[arg-type]
    policy = EffectivePolicy.of(source, "last_known", None)
    pipeline = BUILDER.pipeline(Definitions(TOOLS), policy)
    assert tools_visible(pipeline, Context(user="bob", tier="pro")) == {"a", "b", "d"}
    assert "tiers" in str(policy.failures[""][0])
    sound = EffectivePolicy.of(PolicySource((rule, other), tiers=("free", "pro")), "last_known", None)
    pipeline = BUILDER.pipeline(Definitions(TOOLS), EffectivePolicy.of(source, "last_known", sound))
    assert tools_visible(pipeline, Context(user="bob", tier="pro")) == {"a", "b", "c", "d"}
    assert tools_visible(pipeline, Context(user="bob", tier="free")) == {"a", "b", "d"}


def test_a_page_mapping_that_cannot_be_read_is_left_out_and_hides_nothing():
    pages = (PageMapping("a*b*c", ("kit",), org="acme"), PageMapping("home", ("kit",)))
    policy = EffectivePolicy.of(PolicySource(pages=pages), "closed", None)
    assert policy.policy_source.pages == pages[1:]
    assert policy.failures.keys() == {"acme"}


class Raising:
    def __call__(self, candidates, turn):
        raise RuntimeError("out of order")


@pytest.mark.parametrize("fault", ["raises", "None", "text", "larger", "outside", "ragged"])
def test_a_visibility_stage_that_fails_shows_no_tool_that_some_rule_could_hide(fault):
    draw = random.Random(9)

    class Faulty:
        def __init__(self, stage):
            self.could_forbid = stage.could_forbid

        def __call__(self, candidates, turn):
            size, rows = candidates.allowed.size, np.arange(candidates.allowed.size, dtype=np.int32)
            larger = replace(candidates, allowed=Bitset.full(size), pool=Bitset.full(size))
            return {
                "raises": lambda: 1 / 0,
                "None": lambda: None,
                "text": lambda: "candidates",
                "larger": lambda: larger,
                "outside": lambda: replace(
                    candidates, pool=None, rows=rows + 1, scores=rows.astype(np.float32)
                ),
                "ragged": lambda: replace(candidates, rows=rows[:1]),
            }[fault]()

    shown = 0
    for _ in range(100):
        world = public_world(draw)
        tools = (*world.tools, Tool("asleep", status="retired", public=True))
        sound = pipeline_of(
            replace(world, tools=tools),
            EffectivePolicy.validated(PolicySource(world.rules, tiers=world.tiers)),
        )
        faulty = replace(sound, hard=(Faulty(sound.hard[0]), *sound.hard[1:]))
        for context in [random_context(draw) for _ in range(4)]:
            left = tools_visible(faulty, context)
            assert left <= {
                tool.name for tool in world.tools if tool.public and is_visible(world, tool, context)
            }
            selection = faulty.decide(Turn("tool", context))
            assert set(selection.names) <= left and "faulty" in selection.degraded
            shown += len(left)
    assert shown > 50


def test_a_hard_stage_of_which_nothing_is_known_hides_everything():
    sound = pipeline_of(World(TOOLS, {}), EffectivePolicy())
    assert tools_visible(replace(sound, hard=(Raising(), *sound.hard)), Context()) == set()


def test_tools_that_the_caller_excludes_stay_out_where_availability_fails():
    sound = pipeline_of(World(TOOLS, {}), EffectivePolicy())

    class Faulty(Raising):
        could_forbid = sound.hard[1].could_forbid

    faulty = replace(sound, hard=(sound.hard[0], Faulty()))
    assert tools_visible(faulty, Context(exclude=("a",))) == {"b"}
    assert tools_visible(faulty, Context(only=("a", "c"))) == {"a"}


@pytest.mark.parametrize("output", [None, "text", 7])
def test_a_soft_stage_that_returns_nonsense_hands_its_input_on(output):
    sound = pipeline_of(World(TOOLS, {}), EffectivePolicy())
    faulty = replace(sound, whole=(lambda candidates, turn: output, *sound.whole))
    assert faulty.decide(Turn("", Context())).names == sound.decide(Turn("", Context())).names


def test_rules_that_a_caller_passes_are_all_sound_or_an_error():
    with pytest.raises(InvalidDefinition):
        EffectivePolicy.validated(PolicySource((Rule("r", "deny", "astrology", ALWAYS, tool="a"),)))
