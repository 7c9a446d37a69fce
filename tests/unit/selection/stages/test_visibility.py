"""The stage that forbids what policy denies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.candidates import Candidates
from tests.strategies import TIERS, callers, candidate_sets, rules
from tests.table import each_row
from toolroll import Context
from toolroll._core import Bitset
from toolroll.model.context import Turn
from toolroll.model.rules import Rule
from toolroll.model.tools import Toolkit
from toolroll.selection.policy.policy import Policy
from toolroll.selection.stages.visibility import Visibility

NAMES = {f"tool_{row}": row for row in range(8)}
HIDDEN = Policy.of(8, [Rule("r", "deny", "user", {"user": "ann"}, tool="tool_3")], NAMES, {}, {}, TIERS)


@given(rules(), callers(), candidate_sets())
def test_what_policy_denies_is_forbidden_and_nothing_else_changes(rule, context, candidates):
    policy = Policy.of(8, [rule], NAMES, {}, {}, TIERS)
    after = Visibility(policy)(candidates, Turn("", context))
    denied = policy.denied(context)
    expected = candidates.allowed if denied is None else candidates.allowed - denied
    assert after.allowed == expected
    play = candidates.rows if candidates.pool is None else candidates.pool.rows()
    left = after.rows if after.pool is None else after.pool.rows()
    assert left.tolist() == [row for row in play.tolist() if denied is None or row not in denied]


@each_row("tier", ["", "free", "pro", "unheard of"])
def test_a_tier_and_a_rule_are_two_reasons_for_the_same_answer(tier):
    kits = {"kit": Toolkit("kit", tier="pro")}
    below = {"kit": np.array([1, 2], np.int32)}
    rule = Rule("r", "deny", "user", {"user": "ann"}, tool="tool_2")
    policy = Policy.of(8, [rule], NAMES, below, kits, ("free", "pro"))
    context = Context(user="ann", tier=tier)
    after = Visibility(policy)(Candidates.everything(8), Turn("", context))
    assert after.allowed == Bitset.full(8) - policy.denied(context)
    above = policy.above(tier)
    assert (above is None) is (tier == "pro")
    steps = [step.reason for step in after.trail()]
    assert ("policy.tier" in steps) is (tier != "pro")
    if above is not None:
        assert above.rows().tolist() == [1, 2] and not above - policy.denied(context)


def test_a_forbidden_tool_comes_back_by_no_verb():
    after = Visibility(HIDDEN)(Candidates.everything(8), Turn("", Context(user="ann")))
    assert after.reason == "policy.deny"
    assert 3 not in after.admit(np.array([3], np.int32), "pinned").allowed


@pytest.mark.parametrize("policy", [None, HIDDEN])
def test_where_nothing_is_denied_the_input_is_handed_on(policy):
    candidates = Candidates.everything(8)
    assert Visibility(policy)(candidates, Turn("", Context(user="bob"))) is candidates


@given(callers(), candidate_sets(), st.sets(st.sampled_from(["", "acme", "globex"])))
def test_what_is_not_public_is_forbidden_to_the_contexts_of_a_closed_organisation(context, candidates, orgs):
    private = Bitset.of(8, np.array([1, 2, 5], np.int32))
    stage = Visibility(HIDDEN, dict.fromkeys(orgs, "damaged"), private)
    hidden = {1, 2, 5} if orgs & {"", context.org} else set()
    after = stage(candidates, Turn("", context)).allowed
    plain = Visibility(HIDDEN)(candidates, Turn("", context)).allowed
    assert set(after.rows().tolist()) == set(plain.rows().tolist()) - hidden
    assert {row for row in range(8) if stage.closes(row, context.org)} == hidden
    assert set(stage.could_forbid(Turn("", context)).rows().tolist()) == {3} | hidden
