from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.affinity import Affinity
from tests.oracle.candidates import Candidates
from toolroll import Context, Tool
from toolroll._core import Bitset
from toolroll.model.context import Turn
from toolroll.model.conversation import Conversation

TOOLS = tuple(Tool(f"tool_{at}", toolkit=f"kit_{at % 3}") for at in range(9))
NAMES = {tool.name: at for at, tool in enumerate(TOOLS)}
BELOW = {f"kit_{kit}": np.arange(kit, 9, 3, dtype=np.int32) for kit in range(3)}
STAGE = Affinity(0.2, TOOLS, NAMES, BELOW)


def turn(*called: tuple[int, tuple[str, ...]], number: int = 5) -> Turn:
    return Turn("", Context(), conversation=Conversation(number, called=called))


def test_the_toolkit_of_the_last_call_gains_most_and_older_ones_half_of_it_each_turn():
    after = STAGE(Candidates.everything(9), turn((4, ("tool_0",)), (2, ("tool_1", "gone"))))
    scores = dict(zip(after.rows.tolist(), after.scores.tolist(), strict=True))
    assert scores == pytest.approx({0: 0.2, 3: 0.2, 6: 0.2, 1: 0.05, 4: 0.05, 7: 0.05})


@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.lists(st.sampled_from([*NAMES, "gone"]), max_size=3)), max_size=4
    ),
    st.dictionaries(st.integers(0, 8), st.sampled_from((0.125, 0.25, 1.0)), max_size=5),
    st.sets(st.integers(0, 8)),
)
def test_scores_are_what_a_loop_over_all_tools_gives(calls, routed, allowed):
    called = tuple((at, tuple(names)) for at, names in sorted(calls, key=lambda call: -call[0]))
    pool = Bitset.of(9, np.array(sorted(allowed), np.int32))
    rows = np.array(sorted(row for row in routed if row in allowed), np.int32)
    scores = np.array([routed[row] for row in rows.tolist()], np.float32)
    before = Candidates.everything(9).narrow(pool, "x").rescore(scores, "route.hit", rows)
    after = STAGE(before, turn(*called))
    expected = {}
    for row, tool in enumerate(TOOLS):
        gains = [
            0.2 * 0.5 ** max(5 - at - 1, 0)
            for at, names in called
            for name in names
            if name in NAMES and TOOLS[NAMES[name]].toolkit == tool.toolkit
        ]
        score = max(gains, default=0.0) + routed.get(row, 0.0)
        if row in allowed and score:
            expected[row] = score
    assert dict(zip(after.rows.tolist(), after.scores.tolist(), strict=True)) == pytest.approx(expected)


def test_a_toolkit_of_thousands_gains_nothing():
    tools = tuple(Tool(f"t{at}", toolkit="all") for at in range(1_000))
    stage = Affinity(
        0.2, tools, {t.name: at for at, t in enumerate(tools)}, {"all": np.arange(1_000, dtype=np.int32)}
    )
    everything = Candidates.everything(1_000)
    assert stage(everything, turn((4, ("t0",)))) is everything


@pytest.mark.parametrize("conversation", [None, Conversation(3), Conversation(3, called=((2, ("gone",)),))])
def test_where_nothing_was_called_nothing_changes(conversation):
    everything = Candidates.everything(9)
    assert STAGE(everything, Turn("", Context(), conversation=conversation)) is everything
