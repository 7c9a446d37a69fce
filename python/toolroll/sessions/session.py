"""`Session`: a conversation as a caller drives it, turn by turn."""

from __future__ import annotations

import operator
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from toolroll.formats.meta_tools import (
    MANAGE_TOOLS,
    MOST_FOUND,
    MOST_QUERIES,
    SEARCH_TOOLS,
    read_call,
    read_manage,
    read_search,
)
from toolroll.formats.providers.provider import is_replaced
from toolroll.learning.deduplication import MOST_FOUND as MOST_WANTED
from toolroll.learning.exposure import Exposure, ShownTool
from toolroll.learning.outcomes import NOT_SHOWN, WANTED, Called, Entry, read_called
from toolroll.learning.reporters import Reporter, stored_reporter
from toolroll.model.context import Context
from toolroll.model.conversation import Conversation
from toolroll.model.errors import Failure, InvalidInput, NotFound, quoted
from toolroll.model.tools import Tool
from toolroll.selection.calls import check_call
from toolroll.selection.engine import Engine, SelectRequest, TurnOptions
from toolroll.selection.selection import Selection
from toolroll.selection.snapshot import Snapshot
from toolroll.selection.visible import VisibleTools
from toolroll.sessions import replies
from toolroll.sessions.hints import hints
from toolroll.sessions.live import Conversations
from toolroll.sessions.loading_log import log_loading
from toolroll.sessions.name_lookup import META_NAMES, NameLookup, listed
from toolroll.sessions.replies import Answer, ToolCall
from toolroll.sessions.session_calls import SessionCalls
from toolroll.sessions.state import ConversationState, LiveConversation, SelectedTurn
from toolroll.sessions.turn_record import MOST_RECORDS, TurnRecord

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from toolroll.formats.providers import How
    from toolroll.selection.delivery import Delivery

# Takes an event, its outcomes, the tools among them that were not shown, and whether that is all.
Record = Callable[[Exposure, tuple[Entry, ...], tuple[ShownTool, ...], bool], object]

T = TypeVar("T")
_LAST_TURN = 1_000_000_000
_MOST_TOKENS = 1_000_000_000
_NO_EVENTS: frozenset[str] = frozenset()
RETRY_S = 600.0  # for so long, the same message again may be the same request


class Session:
    """One conversation: a selection each turn, and the tools that it keeps from turn to turn.

    `Toolroll.session` makes it. The state has everything that a turn has shown, so a turn may begin in
    one process and continue in another: get a session for each request. Over a store, every process knows
    a change when the call returns. The exception are reports by `used`: if this object selected the turn,
    other processes know of them when the turn ends, or within a second. In an event loop, use the methods
    whose names begin with "a".
    """

    def __init__(
        self,
        engine: Engine,
        conversations: Conversations,
        context: Context,
        live: LiveConversation,
        record: Record | None,
        arun: Callable[[Callable[[], Any]], Awaitable[Any]],
        owner: object = None,
        reporter: Reporter | None = None,
    ) -> None:
        """Made by `Toolroll.session`.

        conversations: keeps the state. record: records the outcome of a turn; None if nothing is
        learnt. arun: runs a call that may wait for a store, without blocking an event loop. owner: kept alive
        as long as the session. reporter: reports outcomes; None for the context's user.
        """
        self._owner, self._arun, self._reporter = owner, arun, reporter
        self._engine, self._conversations, self._live, self._record = engine, conversations, live, record
        self._store = store = conversations.store
        self._calls = SessionCalls(engine, store, context, live)
        self._ending = ""  # the event of a turn that was selected here and will probably be ended here
        self._exposed: tuple[bytes, Context, Exposure] | None = None  # the last one that was reported on
        # The last selection here, and the conversation and the snapshot that it was made from.
        self._selection: Selection | None = None
        self._seen: tuple[Conversation, Snapshot] | None = None

    @property
    def context(self) -> Context:
        """The caller's context. Between turns, another context of the same organisation may replace it."""
        return self._calls.context

    @context.setter
    def context(self, context: Context) -> None:
        if not isinstance(context, Context):
            raise InvalidInput(f"context: is {type(context).__name__}, must be toolroll.Context")
        own = self.context
        if context.org != own.org or context.session not in ("", own.session):
            raise InvalidInput(
                f"context: is of organisation {quoted(context.org)} and session {quoted(context.session)}, "
                f"this session is {quoted(own.session)} of {quoted(own.org)}; "
                "ask the Toolroll for the other one"
            )
        self._calls.context = context if context.session else replace(context, session=own.session)

    # A turn.

    def select(
        self,
        message: str,
        k: int | None = None,
        *,
        history: Sequence[object] = (),
        turn: int | None = None,
        max_tools: int | None = None,
        budget_tokens: int | None = None,
        always_include: Collection[str] = (),
        vector: npt.ArrayLike | None = None,
        strict: bool = False,
    ) -> Selection:
        """Begins a turn and selects its tools, or continues the turn if the message is the same.

        A repeated request, and a further step of a model that calls tools, belong to the same turn and the
        same event: the tools that the turn has shown stay, and tools that were loaded since follow them.

        Args:
            message: what the user wrote.
            k: how many tools retrieval finds in a turn. The list is longer: it also has the tools that the
                conversation holds, and keeps tools that were sent before (`docs/sessions.md`).
            history: the messages before this one, which give the number of the turn.
            turn: the turn's number, if the caller knows it. Without `turn` and `history` it is the next
                number, unless the turn is still open and its message is the same.
            max_tools: see `Toolroll.select`.
            budget_tokens: how many tokens the schemas may cost.
            always_include: names of tools to select whatever the message says.
            vector: the message's embedding.
            strict: raises a failure instead of naming it in `Selection.degraded`.

        Raises:
            InvalidInput: an argument is of the wrong type or out of range. Nothing else, unless strict.
        """
        before, now, same = self._turn_of(message, history, turn)
        request = SelectRequest(
            message,
            self._calls.context,
            k,
            max_tools,
            budget_tokens,
            always_include,
            (),
            history,
            vector,
            strict,
            *_step(same),
            self._failures(),
        )
        return self._saved(self._keep(self._engine.select(request, now, self._calls), now, before, same))

    async def aselect(
        self,
        message: str,
        k: int | None = None,
        *,
        history: Sequence[object] = (),
        turn: int | None = None,
        **options: Unpack[TurnOptions],
    ) -> Selection:
        """`select` for an event loop: an embedder or a store that waits does so in a thread."""
        before, now, same = self._turn_of(message, history, turn)
        shown, event_id = _step(same)
        request = SelectRequest(
            message,
            self.context,
            k,
            history=history,
            shown=shown,
            event_id=event_id,
            failures=self._failures(),
            **options,
        )
        selection = await self._engine.aselect(request, now, self._calls)
        return await self._asaved(self._keep(selection, now, before, same))

    def __reduce__(self) -> NoReturn:
        raise InvalidInput("a Session cannot be copied or pickled: open it by its name in the other process")

    @property
    def selection(self) -> Selection:
        """The tools that may be sent now: shown in this turn, or loaded since.

        Works in every process. In a process that did not select, it has no scores and reasons.

        Raises:
            InvalidInput: no turn is open.
        """
        self._engine.check_open()
        turn, held = self._live.state.turn, self._live.state.conversation
        if turn is None:
            raise InvalidInput("session: has no turn yet; call select(message) first")
        snapshot = self._engine.serving
        last = self._selection
        if last is not None and last.event_id != turn.event_id:
            last = None
        then, world = (None, None) if self._seen is None else self._seen
        is_known = world is snapshot and last is not None and (then is held or self._is_same(last, turn))
        if last is None or not is_known:
            selection = self._resumed(turn)
            if last is None or last.names != selection.names:
                last = selection
            self._selection, held = last, self._live.state.conversation
        self._seen = (held, snapshot)
        return last

    def deliver(self, provider: str, how: How = "replace", **options: Any) -> Delivery:
        """`Selection.deliver` for the open turn's selection, in any process.

        Raises:
            InvalidInput: no turn is open, or as `Selection.deliver`.
        """
        return self.selection.deliver(provider, how, **options)

    async def adeliver(self, provider: str, how: How = "replace", **options: Any) -> Delivery:
        """`deliver` for an event loop: when it returns, every process knows the delivery."""
        return await self._asaved(self.deliver(provider, how, **options))

    def used(self, called: Called) -> tuple[str, ...]:
        """Reports the model's calls in this turn. The tools stay for some turns, and selection learns.

        Any process may report. A tool that was neither shown nor found nor loaded does not count.

        called: as for `Toolroll.record`: name → whether it worked, None for unknown; or names; or pairs,
        one for each call. Of tools that were not shown, the first eight of a turn count for learning.

        Returns:
            Names of tools that do not count: this caller may not have them, or they were not offered.

        Raises:
            InvalidInput: the argument is of the wrong type.
            StoreUnavailable: as `record` over a registry. The calls still count for the conversation.
        """
        entries, visible = read_called(called), self._engine.visible(self._calls.context)
        offered, refused = self._offered(entries, visible)
        if refused and self._calls.refresh():  # another process may have offered them
            offered, refused = self._offered(entries, visible)
        self._use(offered, visible)
        return refused

    async def aused(self, called: Called) -> tuple[str, ...]:
        """`used` for an event loop."""
        entries, visible = read_called(called), self._engine.visible(self._calls.context)
        offered, refused = self._offered(entries, visible)
        if refused and self._store is not None and await self._store.arefresh(self._live):
            offered, refused = self._offered(entries, visible)
        await self._arun(lambda: self._use(offered, visible))
        return refused

    def end_turn(self) -> tuple[str, ...]:
        """Closes the turn. If `used` reported any call, the other shown tools count as not called.

        Tools that are called or loaded from now on belong to no selection.

        Returns:
            Loaded tools that were idle for too long. They lose their place in the next turn. A list that
            keeps earlier tools drops them with its next batch.

        Raises:
            StoreUnavailable: as `record` over a registry.
        """
        if self._store is not None:
            self._engine.check_open()
        ended = self._live.state.open_turns
        if ended:
            events = frozenset([turn.event_id for turn in ended])
            self._live.apply(partial(ConversationState.ended, events=events))
            if self._record is not None and self._store is None:  # over a store, `used` has closed them
                for turn in ended:
                    if turn.is_reported:
                        self._record(self._exposure(turn), (), (), True)
            self._saved(None)
        self._selection = self._seen = self._exposed = None
        now, retention = self._live.state.conversation, self._live.retention
        return self._allowed(now.idle(now.turn + 1, retention)) if now.loaded else ()

    async def aend_turn(self) -> tuple[str, ...]:
        """`end_turn` for an event loop."""
        idle: tuple[str, ...] = await self._arun(self.end_turn)
        return idle

    def delete(self) -> bool:
        """Deletes the conversation's state, here and in the store. Returns whether there was any.

        Raises:
            StoreUnavailable: it may still be in the store.
        """
        self._engine.check_open()
        return self._conversations.forget((self.context.org, self.context.session))

    async def adelete(self) -> bool:
        """`delete` for an event loop."""
        self._engine.check_open()
        return await self._conversations.aforget((self.context.org, self.context.session))

    # Tools on demand.

    def load(self, names: str | Iterable[str]) -> Answer:
        """Loads tools by name until they are idle. The name of a toolkit loads its tools.

        names: one, several with commas between them, or a list.

        Raises:
            InvalidInput: the argument is of the wrong type.
        """
        return self._saved(self._load(names))

    async def aload(self, names: str | Iterable[str]) -> Answer:
        """`load` for an event loop."""
        return await self._asaved(self._load(names))

    def unload(self, names: str | Iterable[str]) -> Answer:
        """Takes tools out of the conversation, however they came into it; core tools stay.

        Tools that the turn has shown stay until it is over.
        """
        return self._saved(self._unload(names))

    async def aunload(self, names: str | Iterable[str]) -> Answer:
        """`unload` for an event loop."""
        return await self._asaved(self._unload(names))

    def fallback(self) -> Answer:
        """Loads every tool that policy and settings allow: for the open turn only, or for the next one."""
        return self._saved(self._fallback())

    async def afallback(self) -> Answer:
        """`fallback` for an event loop."""
        return await self._asaved(self._fallback())

    def search(self, *queries: str, k: int = 5) -> tuple[Tool, ...]:
        """Finds tools, including tools that were not shown: the best k of each query, the best of all first.

        A found tool may be called (`check`). If a turn is open, a call of it counts as wanted. Otherwise,
        as in MCP, the search is the turn: its queries are the message, the found tools are the shown
        ones, and the next call is the outcome.

        Raises:
            InvalidInput: there are no queries or more than five; a query is no text; k is not from 1 to 20.
        """
        _check_search(queries, k)
        return self._saved(self._find(queries, k)[0])

    async def asearch(self, *queries: str, k: int = 5) -> tuple[Tool, ...]:
        """`search` for an event loop: an embedder that waits does so in a thread."""
        _check_search(queries, k)
        found, _ = await self._engine.arun(lambda: self._find(queries, k))
        return await self._asaved(found)

    def hints(self, budget_tokens: int = 2_000) -> str:
        """Names and descriptions of tools that the model could load, for its prompt; "" if it may load none.

        budget_tokens: estimated tokens of the text. A smaller budget shortens the text about each tool.
        """
        if not self._live.retention.loading:
            return ""
        visible = self._calls.visible()
        catalog = visible.catalog
        rows = np.setdiff1d(visible.rows.rows(), np.concatenate((catalog.base, catalog.pinned)))
        if self.is_open and self.selection.catalog is catalog:
            rows = rows[~np.isin(rows, self.selection.rows)]
        try:
            return hints(catalog, rows, max(0, min(operator.index(budget_tokens), _MOST_TOKENS)))
        except TypeError:
            raise InvalidInput(f"budget_tokens: is {quoted(budget_tokens)}, must be a whole number") from None

    def answer(self, name: str, arguments: object) -> Answer:
        """Runs a meta-tool (`toolroll.formats.meta_tools`) that the model called, and returns the answer.

        Wrong arguments of the model never raise: the answer explains the error.

        arguments: as the model wrote them, a mapping or JSON text.

        Raises:
            NotFound: there is no meta-tool of that name.
        """
        return self._saved(self._answer(name, arguments))

    async def aanswer(self, name: str, arguments: object) -> Answer:
        """`answer` for an event loop."""
        return await self._asaved(await self._engine.arun(lambda: self._answer(name, arguments)))

    def check(self, name: str) -> Tool:
        """The tool or meta-tool that the model calls by this name: its own name or the name that was sent.

        The turn must have shown the tool, or the conversation must have found or loaded it, in any process.
        The newest policy must allow it.

        Raises:
            Denied: the tool does not exist, was not offered, or is no longer allowed by policy.
        """
        self._engine.check_open()
        return check_call(name, self.context, (), self._calls)

    async def acheck(self, name: str) -> Tool:
        """`check` for an event loop. It also sees tools that another process offered a moment ago."""
        self._engine.check_open()
        if self._store is not None and isinstance(name, str) and name not in self._calls.granted():
            await self._store.arefresh(self._live)
        return self.check(name)

    # What there is.

    @property
    def conversation(self) -> Conversation:
        """The state: its turn, and the loaded, called and sent tools."""
        return self._live.state.conversation

    @property
    def turn(self) -> int:
        """The number of the turn; 0 before the first one."""
        return self._live.state.conversation.turn

    @property
    def is_open(self) -> bool:
        """Whether a turn is open, in any process."""
        return self._live.state.turn is not None

    @property
    def has_called(self) -> bool:
        """Whether any process has reported a call (`used`) in the open turn."""
        return any(turn.is_reported for turn in self._live.state.open_turns)

    @property
    def loaded(self) -> tuple[str, ...]:
        """Names of the loaded tools that this caller may have."""
        return self._allowed(one.name for one in self._live.state.conversation.loaded)

    def __repr__(self) -> str:
        return f"<Session {quoted(self.context.session)}, turn {self.turn}>"

    def _turn_of(
        self, message: str, history: Sequence[object], turn: int | None
    ) -> tuple[ConversationState, Conversation, TurnRecord | None]:
        """The state, the conversation in this turn, and the record of the same turn if it has one."""
        if type(history) not in (tuple, list) and (
            isinstance(history, (str, bytes)) or not isinstance(history, Sequence)
        ):
            raise InvalidInput(f"history: is {quoted(history)}, must be a sequence of messages")
        if turn is not None and (
            isinstance(turn, bool) or not isinstance(turn, int) or not 1 <= turn <= _LAST_TURN
        ):
            raise InvalidInput(f"turn: is {quoted(turn)}, must be a whole number from 1 to {_LAST_TURN:,}")
        state, retention = self._live.state, self._live.retention
        now, open_turns = state.conversation, state.open_turns
        last = open_turns[0] if open_turns and not open_turns[0].is_search else None
        is_open = last is not None and self._engine.now() - last.at < RETRY_S
        begun = now.begin(message, history, turn, retention, is_open=is_open)
        if len(begun.loaded) < len(now.loaded):
            log_loading("idle", self.context, begun.turn, now.idle(begun.turn, retention))
        is_same = begun.turn == now.turn and begun.heard == now.heard
        return state, begun, last if is_same else None

    def _is_same(self, last: Selection, turn: TurnRecord) -> bool:
        """Whether the turn still has these tools, for example after the call of a shown one."""
        now, names = self._live.state.conversation, set(last.names)
        held = now.held(self._live.retention)
        has_no_other = names.issubset((*(turn.selected or turn.names), *held))
        return not now.is_whole and has_no_other and names.issuperset(held)

    def _failures(self) -> tuple[Failure, ...]:
        """The failure of a lost state, if no selection has named it yet."""
        failure = self._live.failure
        return () if failure is None else (failure,)

    def _keep(
        self, selection: Selection, now: Conversation, before: ConversationState, same: TurnRecord | None
    ) -> Selection:
        """Keeps a selection in the state.

        before: the state at the time of the selection. same: the turn's record, for a further step of it.
        """
        live, records, known = self._live, None, _NO_EVENTS
        if same is None:
            category = selection.turn.category or self._engine.category(selection)
            records = (TurnRecord.of(selection, category, now.turn),)
            known = frozenset([turn.event_id for turn in before.turns])
            # A caller that ended the previous turn will probably end this one.
            is_ended = bool(before.turns) and not before.open_turns
            self._ending = selection.event_id if is_ended else ""
        kept = self._with_list(selection, now, same is not None)
        state = live.apply(SelectedTurn(before.conversation, kept, live.retention, records, known))
        live.failure = None  # the selection names it
        self._selection, self._seen = selection, (state.conversation, self._engine.snapshot)
        return selection

    def _with_list(self, selection: Selection, now: Conversation, is_step: bool) -> Conversation:
        """The conversation with the list that the next turn begins with."""
        if self._calls.context.required:  # such a selection leaves the conversation's list alone
            return now
        if not is_step and (turns := selection.candidates.list_turns) is not None:
            return now.listing(selection.names, turns)
        picked = {*now.held(self._live.retention)}
        if not is_step:
            tools = selection.catalog.tools
            picked.update([tools[row].name for row in selection.candidates.before_list.tolist()])
        return now.sent(selection.names, picked)

    def _resumed(self, turn: TurnRecord) -> Selection:
        """The tools that the turn has shown and loaded since, under the newest policy."""
        now = self._live.state.conversation
        request = SelectRequest(
            "",
            self.context,
            None,
            turn.most_tools,
            turn.budget_tokens,
            shown=turn.selected or turn.names,
            event_id=turn.event_id,
        )
        selection = self._engine.resume(request, now, self._calls)
        self._live.apply(SelectedTurn(now, self._with_list(selection, now, True), self._live.retention))
        return selection

    def _offered(
        self, entries: Iterable[Entry], visible: VisibleTools
    ) -> tuple[dict[str, Entry], tuple[str, ...]]:
        """The entries of offered tools, by the tools' own names, and the other names.

        visible: read once for each report, because the catalog may lose a tool meanwhile.
        """
        turn, catalog = self._live.state.turn, visible.catalog
        shown: Collection[str] = () if turn is None else turn.names
        offered: dict[str, Entry] = {}
        refused = []
        for entry in entries:
            own: str | None = entry.name
            if is_replaced(entry.name):
                own = self._lookup(visible).own(entry.name)
            if own in META_NAMES:
                continue
            is_offered = own is not None and (own in shown or own in self._calls.granted())
            row = catalog.names.get(own) if is_offered and own is not None else None
            if own is None or row is None or row not in visible.rows:
                refused.append(entry.name if own is None else own)
            else:
                offered[own] = entry if own == entry.name else replace(entry, name=own)
        return offered, tuple(refused)

    def _use(self, called: dict[str, Entry], visible: VisibleTools) -> None:
        """Records calls in the state and reports their outcomes.

        The state is written only if the turn will probably end here.
        """
        if not called:
            return
        live, turns, store = self._live, self._live.state.open_turns, self._store
        core = visible.catalog.core_names
        reports = _reports(called, turns)
        wanted = {turn.event_id: turn.wanted for turn, _ in reports}
        live.apply(partial(ConversationState.used, names=tuple(called), core=core, wanted=wanted))
        if self._record is not None:
            final = store is not None  # the store takes one report a turn, and more if there is more
            for turn, entries in reports:
                names = [one.name for one in entries if one.kind in NOT_SHOWN]
                found = _unshown(names, visible) if names else ()
                self._record(self._exposure(turn), tuple(entries), found, final)
        if store is not None:
            if turns and turns[0].event_id == self._ending:
                store.later(live)
            else:
                store.save(live)

    def _exposure(self, turn: TurnRecord) -> Exposure:
        context, known = self._calls.context, self._exposed
        if known is not None and known[0] is turn.keys and known[1] is context:
            return known[2]
        reporter: Reporter = context.user if self._reporter is None else self._reporter
        exposure = turn.exposure(context.org, stored_reporter(reporter) if reporter else "")
        self._exposed = turn.keys, context, exposure
        return exposure

    def _load(self, names: str | Iterable[str]) -> Answer:
        there, new, unknown = self._named(names)
        loaded = [tool.name for tool in new]
        try:
            self._live.apply(lambda state: state.changed(lambda now: now.load(loaded)))
        except InvalidInput as error:
            return replies.refused(str(error))
        log_loading("load", self.context, self.turn, loaded)
        turn = self._live.state.turn
        if turn is None:
            return replies.loaded(new, there, unknown, [])
        shown = self._listed(turn)
        return replies.loaded(new, there, unknown, [tool for tool in new if tool.name not in shown])

    def _unload(self, names: str | Iterable[str]) -> Answer:
        there, gone, unknown = self._named(names)
        now, turn = self._live.state.conversation, self._live.state.turn
        held = {*now.held(self._live.retention), *now.found, *now.listed}
        shown = () if turn is None else (*turn.names, *turn.selected)
        unloaded = frozenset([tool.name for tool in gone])
        self._live.apply(lambda state: state.changed(lambda now: now.unload(unloaded)))
        stays = [tool for tool in gone if tool.name in shown]
        rest = [tool for tool in gone if tool.name not in shown]
        lost = [tool.name for tool in gone if tool.name in held or tool.name in shown]
        log_loading("unload", self.context, self.turn, lost)
        if turn is not None:
            self._resumed(turn)  # the next turn's list begins without them
        return replies.unloaded(
            [tool for tool in rest if tool.name in held],
            there,
            unknown,
            stays,
            [tool for tool in rest if tool.name not in held],
        )

    def _fallback(self) -> Answer:
        turn = self._live.state.turn
        is_open = turn is not None
        self._live.apply(lambda state: state.changed(lambda now: now.fallback(is_open=is_open)))
        visible = self._calls.visible()
        log_loading("fallback", self.context, self.turn, visible)
        most = len(visible)
        if turn is None:
            return replies.everything_next(most)
        return replies.everything(len(self._listed(turn)), most)

    def _listed(self, turn: TurnRecord) -> tuple[str, ...]:
        """Names of the tools that the next delivery of the open turn sends."""
        return self.selection.names if turn.sends_loaded else turn.names

    def _find(self, queries: Sequence[str], k: int) -> tuple[tuple[Tool, ...], list[str]]:
        """The found tools, and the queries that no tool seems to serve."""
        if self._live.state.turn is None:
            found = self._searched(queries, k)
        else:
            found = [self._engine.find(query, self.context, k) for query in queries]
        doubtful = [query for query, one in zip(queries, found, strict=True) if not one.has_match]
        lookup = self._lookup()
        together = {
            name: tool
            for rank in zip_longest(*(one.names for one in found))
            for name in rank
            if name is not None and (tool := lookup.get(name)) is not None
        }
        names = tuple(together)
        self._live.apply(lambda state: state.changed(lambda now: now.find(names)))
        return tuple(together.values()), doubtful

    def _searched(self, queries: Sequence[str], k: int) -> list[Selection]:
        """Searches as turns of their own."""
        live, before = self._live, self._live.state
        text, open_searches = "\n".join(queries), before.open_turns
        is_open = any(not one.is_reported for one in open_searches)
        now = before.conversation.begin(text, (), None, live.retention, is_open=is_open)
        found = [self._engine.search(query, self.context, k, now, self._calls) for query in queries]
        turns = [TurnRecord.of(one, self._engine.category(one), now.turn, is_search=True) for one in found]
        turns += [one for one in open_searches if one.turn != now.turn]
        known = frozenset([turn.event_id for turn in before.turns])
        records = tuple(turns[:MOST_RECORDS])
        live.apply(SelectedTurn(before.conversation, now, live.retention, records, known))
        return found

    def _answer(self, name: str, arguments: object) -> Answer:
        if not isinstance(name, str) or name not in META_NAMES:
            raise NotFound(f"meta-tool {quoted(name)}: must be one of {', '.join(META_NAMES)}")
        try:
            if name == MANAGE_TOOLS.name:
                if not self._live.retention.loading:
                    return replies.refused("manage_tools: is switched off here; use the tools that you have")
                mode, names = read_manage(arguments)
                if mode == "fallback":
                    return self._fallback()
                return self._load(names) if mode == "load" else self._unload(names)
            if name == SEARCH_TOOLS.name:
                queries, limit = read_search(arguments)
                tools, doubtful = self._find(queries, limit)
                return replies.found(tools, queries, doubtful)
            wanted, given = read_call(arguments)
        except InvalidInput as error:
            return replies.refused(str(error))
        lookup = self._lookup()
        if (tool := lookup.get(lookup.own(wanted))) is None:
            return replies.unknown_tool(wanted, lookup.nearest(wanted))
        own = tool.name
        self._live.apply(lambda state: state.changed(lambda now: now.find([own])))
        return Answer("", (tool,), call=ToolCall(tool, given))

    def _allowed(self, names: Iterable[str]) -> tuple[str, ...]:
        """The names that this caller may know. Other users of the organisation may have loaded more."""
        lookup = self._lookup()
        return tuple([name for name in names if lookup.get(name) is not None])

    def _lookup(self, visible: VisibleTools | None = None) -> NameLookup:
        return NameLookup(self._calls.visible() if visible is None else visible, self._names_for)

    def _names_for(self, text: str) -> Sequence[str]:
        return self._engine.find(text, self.context, MOST_FOUND).names

    def _named(self, names: object) -> tuple[list[Tool], list[Tool], dict[str, Sequence[str]]]:
        """The core tools of these names, the other tools, and the unknown names."""
        visible = self._calls.visible()
        found, unknown = self._lookup(visible).resolve(listed(names))
        names_of_core = visible.catalog.core_names
        core = [tool for tool in found if tool.name in names_of_core]
        return core, [tool for tool in found if tool.name not in names_of_core], unknown

    def _saved(self, result: T) -> T:
        """Returns the result after the state is in the store."""
        if self._store is not None:
            self._store.save(self._live)
        return result

    async def _asaved(self, result: T) -> T:
        """`_saved` for an event loop."""
        if self._store is not None:
            await self._store.asave(self._live)
        return result


def _reports(
    called: Mapping[str, Entry], turns: Sequence[TurnRecord]
) -> list[tuple[TurnRecord, list[Entry]]]:
    """The outcomes for each event that showed the tools, the newest first.

    A tool that no event showed counts as wanted in the newest event. If that event is a search, a failed call
    of the tool does not count.
    """
    left, reports = dict(called), []
    for turn in turns:
        entries = [left.pop(name) for name in turn.names if name in left]
        if entries:
            reports.append((turn, entries))
    if not turns or not left:
        return reports
    newest = turns[0]
    others = {
        name: one
        for name, one in left.items()
        if not newest.is_search or one.kind == "succeeded" or name in newest.wanted
    }
    wanted = tuple(dict.fromkeys((*newest.wanted, *others)))[:MOST_WANTED]
    unshown = [replace(one, kind=WANTED[one.kind]) for name, one in others.items() if name in wanted]
    if not unshown:
        return reports
    is_first = bool(reports) and reports[0][0] is newest
    entries = [*(reports.pop(0)[1] if is_first else ()), *unshown]
    return [(newest._replace(wanted=wanted), entries), *reports]


def _unshown(names: Iterable[str], visible: VisibleTools) -> tuple[ShownTool, ...]:
    catalog = visible.catalog
    return tuple([ShownTool(name, catalog.tool_key(catalog.names[name]), 0.0) for name in names])


def _step(same: TurnRecord | None) -> tuple[tuple[str, ...] | None, str]:
    """The tools that the turn has shown and its event, for a further step of it."""
    return (None, "") if same is None else (same.selected or same.names, same.event_id)


def _check_search(queries: Sequence[str], k: int) -> None:
    if not 1 <= len(queries) <= MOST_QUERIES:
        raise InvalidInput(f"search: has {len(queries)} queries, must have 1 to {MOST_QUERIES}")
    for query in queries:
        if not isinstance(query, str) or not query.strip():
            raise InvalidInput(f"search: query is {quoted(query)}, must be text")
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MOST_FOUND:
        raise InvalidInput(f"search: k is {quoted(k)}, must be from 1 to {MOST_FOUND}")
