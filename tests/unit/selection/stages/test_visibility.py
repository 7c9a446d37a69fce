"""The stage that forbids what policy denies."""

from __future__ import annotations

import traceback

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import TIERS, callers, candidate_sets, rules
from toolroll import Context
from toolroll.context import Turn
from toolroll.errors import StoreUnavailable
from toolroll.rules import Rule
from toolroll.selection.candidates import Candidates
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


def test_a_forbidden_tool_comes_back_by_no_verb():
    after = Visibility(HIDDEN)(Candidates.everything(8), Turn("", Context(user="ann")))
    assert after.reason == "policy.deny"
    assert 3 not in after.admit(np.array([3], np.int32), "pinned").allowed


@pytest.mark.parametrize("policy", [None, HIDDEN])
def test_where_nothing_is_denied_the_input_is_handed_on(policy):
    candidates = Candidates.everything(8)
    assert Visibility(policy)(candidates, Turn("", Context(user="bob"))) is candidates


@given(st.integers(1, 5))
def test_rules_that_could_not_be_read_fail_every_turn_with_the_same_error(turns):
    error = StoreUnavailable("database: refused the connection")
    stage = Visibility(None, {"": error})
    depths = set()
    for _ in range(turns):
        with pytest.raises(StoreUnavailable) as raised:
            stage(Candidates.everything(8), Turn("", Context()))
        assert raised.value is error
        depths.add(len(traceback.extract_tb(error.__traceback__)))
    assert len(depths) == 1  # frames of earlier turns do not pile up
