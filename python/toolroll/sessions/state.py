"""The state of a conversation as one value, and the changes that a selection or a call makes to it.

Every change is a function from one state to the next. If another thread or process writes a newer state
meanwhile, the change is applied again to that state, so the changes of two processes combine.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from toolroll.model.context import Context
from toolroll.model.conversation import Conversation, Retention
from toolroll.model.errors import Failure, InvalidInput
from toolroll.sessions.turn_record import MOST_RECORDS, TurnRecord

MOST_BYTES = 64 * 1024  # the limit for a packed state
_ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class ConversationState:
    """The whole state of a conversation at one moment. Immutable.

    Attributes:
        conversation: its turn, its tools and its list.
        turns: records of its last turns, newest first.
        open_turns: the selection of the open turn, or the searches since the last call; newest first.
        turn: the selection of the open turn; None if there is none.
    """

    __slots__ = ("conversation", "open_turns", "turn", "turns")

    def __init__(self, conversation: Conversation, turns: tuple[TurnRecord, ...] = ()) -> None:
        self.conversation, self.turns = conversation, turns
        now = conversation.turn
        open_turns = [one for one in turns if not one.is_over and (one.turn == now or one.is_search)]
        self.open_turns = tuple(open_turns)
        self.turn = open_turns[0] if open_turns and not open_turns[0].is_search else None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConversationState):
            return NotImplemented
        return (self.conversation, self.turns) == (other.conversation, other.turns)

    __hash__ = None  # type: ignore[assignment]

    def pack(self) -> str:
        """JSON of at most `MOST_BYTES`; the least valuable parts are left out until it fits."""
        record = self.conversation.to_record()
        record["turns"] = [turn.to_record() for turn in self.turns]
        text = _ENCODE(record)
        if len(text) * 4 <= MOST_BYTES or len(text.encode()) <= MOST_BYTES:
            return text
        turns = record["turns"]
        while turns and len(json.dumps(turns)) > MOST_BYTES // 2:
            turns.pop()
        record = self.conversation.fitting(MOST_BYTES - len(json.dumps(turns)))
        return _ENCODE({**record, "turns": turns})

    @classmethod
    def unpack(cls, text: str) -> ConversationState:
        """Reads the result of `pack`. Unreadable turns are left out.

        Raises InvalidInput if the conversation cannot be read.
        """
        try:
            record: Any = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"conversation: the record is no JSON: {error}"[:300]) from error
        conversation = Conversation.from_record(record)
        turns = []
        listed = record.get("turns", ())
        for one in listed[:MOST_RECORDS] if isinstance(listed, list) else ():
            try:
                turns.append(TurnRecord.from_record(one))
            except InvalidInput:
                continue
        return cls(conversation, tuple([turn for turn in turns if turn.turn <= conversation.turn]))

    def changed(self, make: Callable[[Conversation], Conversation]) -> ConversationState:
        """The state with the changed conversation."""
        return ConversationState(make(self.conversation), self.turns)

    def with_turn(self, make: Callable[[TurnRecord], TurnRecord], event_id: str) -> ConversationState:
        """The state with a changed record of this event, if it still has the record."""
        turns = tuple([make(turn) if turn.event_id == event_id else turn for turn in self.turns])
        return ConversationState(self.conversation, turns)

    def ended(self, *, events: frozenset[str]) -> ConversationState:
        """The state in which the turns of these events are over."""
        turns = tuple(
            [turn._replace(is_over=True) if turn.event_id in events else turn for turn in self.turns]
        )
        return ConversationState(self.conversation, turns)

    def used(
        self, *, names: Sequence[str], core: Collection[str], wanted: Mapping[str, tuple[str, ...]]
    ) -> ConversationState:
        """The state after calls and reported outcomes. core: the called tools that are selected anyway.

        wanted: id of each event with an outcome → called tools that the event did not show.
        """
        turns = self.turns
        if wanted:
            turns = tuple(
                [
                    turn._replace(is_reported=True, wanted=wanted[turn.event_id])
                    if turn.event_id in wanted
                    else turn
                    for turn in turns
                ]
            )
        return ConversationState(self.conversation.use(names, core), turns)

    def with_vectors_of(self, other: ConversationState) -> ConversationState:
        """The state with the other's vectors of messages, which only the selecting process has."""
        known = {turn.event_id: turn for turn in other.turns if turn.vector}
        if not known:
            return self
        turns = []
        for turn in self.turns:
            of = known.get(turn.event_id)
            known_of = of is not None and not turn.vector
            turns.append(turn._replace(vector=of.vector, space=of.space) if known_of and of else turn)
        return ConversationState(self.conversation, tuple(turns))


NEW = ConversationState(Conversation())

Change: TypeAlias = Callable[[ConversationState], ConversationState]


@dataclass(frozen=True, slots=True, eq=False)
class SelectedTurn:
    """The change of state by a selection, or by a search that is a turn of its own.

    Attributes:
        held: the conversation before it.
        kept: the conversation in this turn, with the list that was sent.
        records: all records after it; None for a further step of a turn.
        known: ids of the events before it.
    """

    held: Conversation
    kept: Conversation
    retention: Retention
    records: tuple[TurnRecord, ...] | None = None
    known: frozenset[str] = frozenset()

    def __call__(self, state: ConversationState) -> ConversationState:
        """The state in this turn, unless another process has begun a later turn meanwhile."""
        now, kept, turns = state.conversation, self.kept, self.records
        if now is not self.held:
            if now.turn > kept.turn and now.turn != self.held.turn:
                return state
            is_listed = kept.listed is not self.held.listed
            now = now.at(kept.turn, self.retention, kept.heard)
            kept = now.listing(kept.listed, kept.picked) if is_listed else now
        if turns is None:
            turns = state.turns
        elif not self.known.issuperset([one.event_id for one in state.turns]):
            # Events that another process has added to the same turn stay callable.
            ids = self.known.union([record.event_id for record in turns])
            others = [one for one in state.turns if one.event_id not in ids and one.turn == kept.turn]
            turns = (*turns, *others)[:MOST_RECORDS]
        return ConversationState(kept, turns)


_MOST_CHANGES = 256  # changes that wait for a write


class LiveConversation:
    """One conversation in this process; all its `Session`s share it.

    Attributes:
        state: the newest state, which `apply` replaces.
        unwritten: changes that the store does not have yet, oldest first; None without a store.
        retention: how long the conversation keeps its tools.
        failure: the loss of the stored state; None once a selection has named it.
        contexts: the context of the last request, without and with this session's name.
    """

    __slots__ = ("__weakref__", "_lock", "contexts", "failure", "retention", "state", "unwritten")

    def __init__(self, retention: Retention, lock: threading.Lock) -> None:
        """lock: held while the state is replaced; conversations may share one."""
        self._lock = lock
        self.retention = retention
        self.state = NEW
        self.unwritten: tuple[Change, ...] | None = None
        self.failure: Failure | None = None
        self.contexts: tuple[Context, Context] | None = None

    def apply(self, change: Change) -> ConversationState:
        """Applies the change to the newest state, again if another thread was faster; returns the result."""
        while True:
            before = self.state
            after = change(before)
            with self._lock:
                if self.state is before:
                    self.state = after
                    if self.unwritten is not None:
                        self.unwritten = (*self.unwritten[1 - _MOST_CHANGES :], change)
                    return after
