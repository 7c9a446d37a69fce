"""What the hard stages leave to a caller is kept for the caller's next turn, and for nobody else's."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from tests.unit.selection.test_native_stages import pipeline_of
from toolroll import Context
from toolroll._core import Bitset
from toolroll.model.context import Turn
from toolroll.selection.pipeline import Pipeline

CONTEXT = Context(user="ann", settings=("key",))
STORED = frozenset(("key",))


@dataclass
class Counting:
    """A hard stage that forbids one row, and says how often it was called."""

    calls: int = 0
    raises: bool = False
    rows: Bitset = field(default_factory=lambda: Bitset.of(24, np.array([0], np.int32)))

    def could_forbid(self, turn):
        return self.rows

    def __call__(self, candidates, turn):
        self.calls += 1
        if self.raises:
            raise RuntimeError("out of order")
        return candidates.forbid(self.rows, "policy.deny")


def counted(stage: Counting) -> Pipeline:
    pipeline = pipeline_of()
    return replace(pipeline, hard=(stage, *pipeline.hard))


def turn_of(context: Context = CONTEXT, **fields: object) -> Turn:
    return Turn("rain at home", context, stored=STORED, **fields)


def test_a_second_turn_of_the_same_context_asks_no_hard_stage_and_selects_alike():
    stage = Counting()
    pipeline = counted(stage)
    first, second = pipeline.decide(turn_of()), pipeline.decide(turn_of())
    assert stage.calls == 1
    assert first.names == second.names and "tool_0" not in first.names
    assert [one.reason for one in first.candidates.trail()] == [
        one.reason for one in second.candidates.trail()
    ]
    assert pipeline.allowed(turn_of()) == first.candidates.allowed and stage.calls == 1


@pytest.mark.parametrize(
    "other",
    [replace(turn_of(), stored=frozenset(("other",))), turn_of(public_only=True)],
    ids=["stored", "old"],
)
def test_other_stored_settings_and_an_expired_policy_ask_the_hard_stages_again(other):
    stage = Counting()
    pipeline = counted(stage)
    pipeline.decide(turn_of())
    pipeline.decide(other)
    assert stage.calls == 2
    pipeline.decide(turn_of())
    assert stage.calls == 3


@pytest.mark.parametrize("other", [replace(CONTEXT), Context(user="bob")], ids=["equal", "another caller"])
def test_the_answers_for_several_contexts_are_kept_beside_each_other(other):
    stage = Counting()
    pipeline = counted(stage)
    for _ in range(3):
        pipeline.decide(turn_of())
        pipeline.decide(turn_of(other))
    assert stage.calls == 2


def test_contexts_that_nobody_uses_again_do_not_pile_up():
    stage = Counting()
    pipeline = counted(stage)
    for at in range(2_000):
        pipeline.decide(turn_of(Context(user=f"user {at}")))
    assert stage.calls == 2_000 and len(pipeline._permitted) <= 1_024


def test_settings_that_the_caller_can_change_are_read_in_each_turn():
    stage = Counting()
    pipeline = counted(stage)
    turn = turn_of(Context(settings={"key": 1}))
    pipeline.decide(turn)
    pipeline.decide(turn)
    assert stage.calls == 2


def test_the_answer_of_a_hard_stage_that_fails_is_not_kept():
    stage = Counting(raises=True)
    pipeline = counted(stage)
    assert pipeline.decide(turn_of()).degraded == ("counting",)
    stage.raises = False
    assert pipeline.decide(turn_of()).degraded == ()
    assert stage.calls == 2


def test_a_pipeline_under_other_rules_keeps_no_answer():
    stage = Counting()
    pipeline = counted(stage)
    pipeline.decide(turn_of())
    pipeline.governed(stage, pipeline.pages).decide(turn_of())
    pipeline.without(["tool_1"]).decide(turn_of())
    assert stage.calls == 3
