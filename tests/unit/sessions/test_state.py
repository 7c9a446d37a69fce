"""A conversation's state is a value: changes apply to whatever others have made of it meanwhile."""

from __future__ import annotations

import json
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import conversations
from tests.table import each_row
from toolroll.model.conversation import Conversation, Retention
from toolroll.model.errors import InvalidInput
from toolroll.sessions.state import MOST_BYTES, NEW, Change, ConversationState, SelectedTurn
from toolroll.sessions.turn_record import TurnRecord

KEPT = Retention()
TOOLS = ("mail", "post", "book", "call", "note")


def turn_record(event_id: str, turn: int, names: tuple[str, ...] = ("mail",)) -> TurnRecord:
    return TurnRecord(event_id, turn, 1.0, 0, names, bytes(32 * len(names)))


def selected(state: ConversationState, turn: int, event_id: str, names: tuple[str, ...]) -> SelectedTurn:
    """A selection that begins this turn, made from this state."""
    now = state.conversation.at(turn, KEPT, turn)
    kept = now.sent(names, set(names))
    known = frozenset([one.event_id for one in state.turns])
    return SelectedTurn(state.conversation, kept, KEPT, (turn_record(event_id, turn, names),), known)


def test_a_selection_begins_a_turn_and_keeps_its_list():
    first = selected(NEW, 1, "a", ("mail", "post"))(NEW)
    second = selected(first, 2, "b", ("mail", "post", "book"))(first)
    assert [turn.event_id for turn in second.turns] == ["b"] and second.turn is second.turns[0]
    assert second.conversation.listed == ("mail", "post", "book")
    assert second.conversation.picked == (2, 2, 2)


def test_two_selections_of_one_turn_are_both_callable_whichever_comes_first():
    one, other = selected(NEW, 1, "a", ("mail",)), selected(NEW, 1, "b", ("post",))
    for changes in ((one, other), (other, one)):
        state = reduce(lambda state, change: change(state), changes, NEW)
        assert {turn.event_id for turn in state.open_turns} == {"a", "b"}


def test_of_two_turns_the_later_one_counts_whichever_comes_first():
    before = selected(NEW, 1, "a", ("mail",))(NEW)
    second, third = selected(before, 2, "b", ("post",)), selected(before, 3, "c", ("book",))
    for changes in ((second, third), (third, second)):
        state = reduce(lambda state, change: change(state), changes, before)
        assert state.conversation.turn == 3
        assert [turn.event_id for turn in state.turns if turn.turn == 3] == ["c"]


Load = st.builds(
    lambda name: lambda state: state.changed(lambda now: now.load([name])), st.sampled_from(TOOLS)
)
Find = st.builds(
    lambda name: lambda state: state.changed(lambda now: now.find([name])), st.sampled_from(TOOLS)
)
Use = st.builds(
    lambda name: lambda state: state.used(names=[name], core=(), wanted={}), st.sampled_from(TOOLS)
)


@given(st.lists(st.one_of(Load, Find, Use), max_size=8), st.lists(st.one_of(Load, Find, Use), max_size=8))
def test_changes_lose_nothing_of_what_another_process_has_written(ours: list[Change], theirs: list[Change]):
    before = selected(NEW, 1, "a", TOOLS)(NEW)
    alone = [reduce(lambda state, change: change(state), changes, before) for changes in (ours, theirs)]
    both = reduce(lambda state, change: change(state), ours, alone[1]).conversation
    for one in alone:
        now = one.conversation
        assert {loaded.name for loaded in now.loaded} <= {loaded.name for loaded in both.loaded}
        assert {*now.found} <= {*both.found} and {*now.recent(KEPT)} <= {*both.recent(KEPT)}


@given(conversations(), st.sampled_from(TOOLS))
def test_a_change_that_is_applied_twice_counts_once(conversation: Conversation, name: str):
    before = ConversationState(conversation, (turn_record("a", conversation.turn),))
    changes: list[Change] = [
        lambda state: state.changed(lambda now: now.find([name])),
        lambda state: state.changed(lambda now: now.unload({name})),
        lambda state: state.used(names=[name], core=(), wanted={"a": ("post",)}),
        selected(before, conversation.turn + 1, "b", TOOLS),
    ]
    for change in changes:
        once = change(before)
        assert change(once) == once


@given(conversations())
def test_what_is_packed_comes_back(conversation: Conversation):
    state = ConversationState(conversation, (turn_record("a", conversation.turn, TOOLS),))
    assert ConversationState.unpack(state.pack()) == state


def test_a_state_that_is_too_large_is_packed_without_what_is_worth_least():
    names = tuple(f"{'🙂' * 120}{at}" for at in range(128))
    now = Conversation().at(1, KEPT).load(names).find(names).sent(names, set(names))
    state = ConversationState(now, tuple([turn_record(str(at), 1, names) for at in range(6)]))
    text = state.pack()
    assert len(text.encode()) <= MOST_BYTES
    kept = ConversationState.unpack(text)
    assert kept.conversation.loaded == now.loaded[: len(kept.conversation.loaded)] != ()


@each_row("text", ["", "{", "[]", "7", "null", "[" * 20_000, '{"form": 9}', "{}"])
def test_what_is_no_state_is_refused(text: str):
    with pytest.raises(InvalidInput):
        ConversationState.unpack(text)


def test_a_turn_that_cannot_be_read_is_left_out():
    state = ConversationState(Conversation(2), (turn_record("a", 2), turn_record("b", 2)))
    record = json.loads(state.pack())
    record["turns"][0]["names"] = 7
    assert [turn.event_id for turn in ConversationState.unpack(json.dumps(record)).turns] == ["b"]


def test_vectors_stay_in_the_process_that_selected():
    turn = turn_record("a", 1)._replace(vector=b"\0\0", space="x")
    state = ConversationState(Conversation(1), (turn,))
    stored = ConversationState.unpack(state.pack())
    assert stored.turns[0].vector == b"" and stored.with_vectors_of(state) == state
