"""`Session`: a conversation as a caller drives it, turn by turn."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from toolroll._core import Bitset
from toolroll.context import Context
from toolroll.conversation import Conversation, heard
from toolroll.errors import Denied, InvalidInput, NotFound
from toolroll.formats.meta_tools import (
    MANAGE_TOOLS,
    MOST_FOUND,
    MOST_QUERIES,
    SEARCH_TOOLS,
    read_call,
    read_manage,
    read_search,
)
from toolroll.formats.schemas import own_name_of
from toolroll.formats.schemas.names import is_replaced
from toolroll.learning.deduplication import MOST_FOUND as MOST_WANTED
from toolroll.learning.outcomes import Called, read_called
from toolroll.selection.engine import Engine, Request, TurnOptions
from toolroll.selection.exposure import not_shown
from toolroll.selection.selection import Selection
from toolroll.selection.snapshot import Snapshot
from toolroll.sessions import replies
from toolroll.sessions.hints import hints
from toolroll.sessions.name_lookup import META_NAMES, VisibleTools, listed
from toolroll.sessions.replies import Answer, ToolCall
from toolroll.sessions.state import Conversations, ConversationState
from toolroll.tools import Tool

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Takes the selection of a turn, what was called of it, what was called beside it, and whether that is all.
Record = Callable[[Selection, Mapping[str, bool | None], Mapping[str, bool | None], bool], object]


class Session:
    """One conversation: a selection each turn, and the tools that it keeps from turn to turn.

    `Toolroll.session` makes it. It is for one turn at a time; several of one conversation share its state.
    """

    def __init__(
        self,
        engine: Engine,
        conversations: Conversations,
        context: Context,
        state: ConversationState,
        record: Record | None,
    ) -> None:
        """Made by `Toolroll.session`.

        conversations: where the state is kept; it hears of every change. record: records the outcome of a
        turn; None where nothing is learnt.
        """
        self._context = context
        self._engine = engine
        self._conversations = conversations
        self._state = state
        self._record = record
        self._visible: tuple[Snapshot, Context, VisibleTools] | None = None  # of the last `_tools`
        self._first: Selection | None = None  # of this turn: what outcomes are reported of
        self._selection: Selection | None = None
        self._seen: Conversation | None = None  # what was held when `_picked` was selected
        self._is_reported = False
        self._wanted: set[str] = set()  # called in this turn, and not shown by its first selection

    @property
    def context(self) -> Context:
        """Who talks, from where; may be replaced between turns by another of the same organisation."""
        return self._context

    @context.setter
    def context(self, context: Context) -> None:
        if not isinstance(context, Context):
            raise InvalidInput(f"context: is {type(context).__name__}, must be toolroll.Context")
        own = self._context
        if context.org != own.org or context.session not in ("", own.session):
            raise InvalidInput(
                f"context: is of organisation {context.org!r:.80} and session {context.session!r:.80}, this "
                f"session is {own.session!r:.80} of {own.org!r:.80}; ask the Toolroll for the other one"
            )
        self._context = context if context.session else replace(context, session=own.session)

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
        """Begins a turn and picks its tools: the arguments are those of `Toolroll.select`, but for two.

        Args:
            message: what the user wrote.
            k: how many tools retrieval finds in a turn. The list is longer: it has what the conversation
                holds, and keeps what was sent before (`docs/sessions.md`).
            history: the messages before this one: the number of the turn is counted from them.
            turn: its number, where the caller knows it. Without both it is the next one.
            max_tools: see `Toolroll.select`, as for the rest.
            budget_tokens: how many tokens the schemas may cost.
            always_include: names of tools to select whatever the message says.
            vector: the message's embedding.
            strict: raises what would otherwise only be named in `Selection.degraded`.

        Raises:
            InvalidInput: an argument is of the wrong type or out of range. Nothing else, unless strict.
        """
        held, now = self._begun(message, history, turn)
        request = Request(
            message,
            self.context,
            k,
            max_tools,
            budget_tokens,
            always_include,
            (),
            history,
            vector,
            strict,
        )
        return self._keep(self._engine.select(request, now), now, held)

    async def aselect(
        self,
        message: str,
        k: int | None = None,
        *,
        history: Sequence[object] = (),
        turn: int | None = None,
        **options: Unpack[TurnOptions],
    ) -> Selection:
        """`select` for an event loop: an embedder that waits does so in a thread."""
        held, now = self._begun(message, history, turn)
        request = Request(message, self.context, k, history=history, **options)
        return self._keep(await self._engine.aselect(request, now), now, held)

    @property
    def selection(self) -> Selection:
        """What the model may be sent now: this turn's selection, with what was loaded since.

        Raises:
            InvalidInput: nothing was selected yet.
        """
        if self._selection is None:
            raise InvalidInput("session: has no turn yet; call select(message) first")
        if self._state.held is not self._seen:
            held, now = self._state.held, self._state.now
            self._seen, self._selection = held, self._engine.again(self._selection, now)
            self._send(self._selection, now, held)
        return self._selection

    def used(self, called: Called) -> tuple[str, ...]:
        """Says which tools the model called in this turn: they stay for some turns, and outcomes are learnt.

        called: as for `Toolroll.record`: name → whether it worked, None where that is not known; or names.
            Of those that were not shown, the first eight of a turn are learnt from.

        Returns:
            Names that are none of a tool that this caller may have; they count for nothing.

        Raises:
            InvalidInput: the argument is of the wrong type.
            StoreUnavailable: as `record` of a registry does; what was called counts for the conversation.
        """
        entries = read_called(called, (), ())
        own = {entry.name: self._own(entry.name) for entry in entries}
        said = {name: _OUTCOMES[entry.kind] for entry in entries if (name := own[entry.name]) is not None}
        said = {name: worked for name, worked in said.items() if name not in META_NAMES}
        tools = self._tools()
        called_now = [tool for name in said if (tool := tools.get(name)) is not None]
        known = [tool.name for tool in called_now]
        core = {tool.name for tool in called_now if tools.is_core(tool)}
        self._state.change(lambda now: now.use(known, core))
        self._told()
        if self._record is not None and self._first is not None:
            self._is_reported = True
            shown = {name: said[name] for name in known if name in self._first}
            for left_out in not_shown(self._first, known):
                if len(self._wanted) < MOST_WANTED:
                    self._wanted.add(left_out.name)
            beside = {name: said[name] for name in known if name in self._wanted}
            if shown or beside:
                self._record(self._first, shown, beside, False)
        return tuple(name or sent for sent, name in own.items() if name not in (*known, *META_NAMES))

    def end_turn(self) -> tuple[str, ...]:
        """Closes the turn: what was shown and not called is known now, if `used` was told of any call.

        Its selection is let go of; what is called or loaded now belongs to no selection.

        Returns:
            Loaded tools that were idle for too long: they lose their place with the next turn, and leave a
            list that keeps what was sent with its next batch.

        Raises:
            StoreUnavailable: as `record` of a registry does.
        """
        if self._record is not None and self._first is not None and self._is_reported:
            self._is_reported = False
            self._record(self._first, {}, {}, True)
        self._first = self._selection = None
        now = self._state.now
        return self._those_allowed(now.idle(now.turn + 1, self._state.retention))

    def delete(self) -> bool:
        """Deletes what the conversation holds, here and in the store; whether there was anything.

        Raises:
            StoreUnavailable: it may still be in the store.
        """
        return self._conversations.forget(self._context.org, self._context.session)

    # Tools on demand.

    def load(self, names: str | Iterable[str]) -> Answer:
        """Loads tools by name, from now on and until they are idle; a toolkit's name loads its tools.

        names: one, several with commas between them, or a list.

        Raises:
            InvalidInput: the argument is of the wrong type.
        """
        there, new, unknown = self._named(names)
        try:
            self._state.change(lambda now: now.load([tool.name for tool in new]))
        except InvalidInput as error:
            return replies.refused(str(error))
        self._told()
        shown = () if self._selection is None else self.selection.names
        hidden = [tool for tool in new if self._selection is not None and tool.name not in shown]
        return replies.loaded(new, there, unknown, hidden)

    def unload(self, names: str | Iterable[str]) -> Answer:
        """Takes tools out of the conversation, wherever it has them from; core tools stay."""
        there, gone, unknown = self._named(names)
        self._state.change(lambda now: now.unload({tool.name for tool in gone}))
        self._told()
        shown = () if self._selection is None else self.selection.names
        stays = [tool for tool in gone if tool.name in shown]
        return replies.unloaded([tool for tool in gone if tool.name not in shown], there, unknown, stays)

    def fallback(self) -> Answer:
        """Loads everything that policy and settings allow, for this turn only."""
        self._state.change(Conversation.fallback)
        self._told()
        most = len(self._tools().allowed)
        return replies.everything(most if self._selection is None else len(self.selection), most)

    def search(self, *queries: str, k: int = 5) -> tuple[Tool, ...]:
        """Finds tools that were not shown, too: the best k of each query, the best of all queries first.

        What it finds may be called (`check`); called, it counts as wanted.

        Raises:
            InvalidInput: a query is no text, or there are none, or more than five; k is not from 1 to 20.
        """
        if not 1 <= len(queries) <= MOST_QUERIES:
            raise InvalidInput(f"search: has {len(queries)} queries, must have 1 to {MOST_QUERIES}")
        for query in queries:
            if not isinstance(query, str) or not query.strip():
                raise InvalidInput(f"search: query is {query!r:.80}, must be text")
        if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MOST_FOUND:
            raise InvalidInput(f"search: k is {k!r:.80}, must be from 1 to {MOST_FOUND}")
        return self._found(queries, k)[0]

    def _found(self, queries: Sequence[str], k: int) -> tuple[tuple[Tool, ...], list[str]]:
        """What the queries find, and those of them that no tool seems to serve."""
        found = [self._engine.find(query, self.context, k) for query in queries]
        doubtful = [query for query, one in zip(queries, found, strict=True) if not one.has_match]
        ranked = [[selection.catalog.tools[row] for row in selection.rows.tolist()] for selection in found]
        tools = self._tools()
        together = {
            tool.name: tool
            for rank in zip_longest(*ranked)
            for tool in rank
            if tool is not None and tools.get(tool.name) is not None
        }
        self._state.change(lambda now: now.find(together))
        self._told()
        return tuple(together.values()), doubtful

    def hints(self, budget_tokens: int = 2_000) -> str:
        """Name and description of what the model is not shown now and could load, for its prompt.

        budget_tokens: estimated tokens of the text; the less room there is, the less is said of each tool.
        """
        tools = self._tools()
        catalog = tools.catalog
        rows = np.setdiff1d(tools.allowed.rows(), np.concatenate((catalog.base, catalog.pinned)))
        if self._selection is not None and self.selection.catalog is catalog:
            rows = rows[~np.isin(rows, self.selection.rows)]
        try:
            return hints(catalog, rows, operator.index(budget_tokens))
        except TypeError:
            raise InvalidInput(f"budget_tokens: is {budget_tokens!r:.80}, must be a whole number") from None

    def answer(self, name: str, arguments: object) -> Answer:
        """Does what a model asked of a meta-tool (`toolroll.formats.meta_tools`) and says what to tell it.

        Never raises for what a model wrote: then the answer says what was wrong.

        arguments: as the model gave them, a mapping or JSON text.

        Raises:
            NotFound: there is no meta-tool of that name.
        """
        if name not in META_NAMES:
            raise NotFound(f"meta-tool {name!r:.80}: must be one of {', '.join(META_NAMES)}")
        try:
            if name == MANAGE_TOOLS.name:
                mode, names = read_manage(arguments)
                if mode == "fallback":
                    return self.fallback()
                return self.load(names) if mode == "load" else self.unload(names)
            if name == SEARCH_TOOLS.name:
                queries, limit = read_search(arguments)
                tools, doubtful = self._found(queries, limit)
                return replies.found(tools, queries, doubtful)
            wanted, given = read_call(arguments)
        except InvalidInput as error:
            return replies.refused(str(error))
        there = self._tools()
        if (tool := there.get(self._own(wanted))) is None:
            return replies.unknown_tool(wanted, there.nearest(wanted))
        own = tool.name
        self._state.change(lambda now: now.find([own]))
        self._told()
        return Answer("", (tool,), call=ToolCall(tool, given))

    def check(self, name: str) -> Tool:
        """The tool of this name, if the model was offered it, or found it in this conversation.

        Raises:
            Denied: it was not, or policy does not allow it any more, or there is none.
        """
        own: str | None = None
        if isinstance(name, str):
            if self._selection is not None:
                with suppress(Denied):
                    own = self.selection.check(name).name
            own, now = own or self._own(name), self._state.now
            is_held = own in now.found or any(one.name == own for one in now.loaded)
            if not is_held and (self._selection is None or own not in self.selection):
                own = None
        tool = self._tools().get(own)  # policy may have changed since
        if tool is not None:
            return tool
        raise Denied(f"tool {name!r:.80}: was not offered in this conversation; search for it or load it")

    # What there is.

    @property
    def conversation(self) -> Conversation:
        """The state: its turn, what is loaded, what was called and sent."""
        return self._state.now

    @property
    def turn(self) -> int:
        """The number of the turn; 0 before the first."""
        return self._state.now.turn

    @property
    def loaded(self) -> tuple[str, ...]:
        """Names of the tools that are loaded, as far as this caller may have them."""
        return self._those_allowed(one.name for one in self._state.now.loaded)

    def __repr__(self) -> str:
        return f"<Session {self.context.session!r:.80}, turn {self.turn}>"

    # Underneath.

    def _those_allowed(self, names: Iterable[str]) -> tuple[str, ...]:
        """Others of an organisation may have loaded what this caller must not know of."""
        tools = self._tools()
        return tuple(name for name in names if tools.get(name) is not None)

    def _begun(
        self, message: str, history: Sequence[object], turn: int | None
    ) -> tuple[Conversation, Conversation]:
        """What is held, and the conversation in the turn that begins."""
        if isinstance(history, (str, bytes)) or not isinstance(history, Sequence):
            raise InvalidInput(f"history: is {history!r:.80}, must be a sequence of messages")
        held, now = self._state.held, self._state.now
        if turn is None:
            turn = now.number(message, history)
        elif isinstance(turn, bool) or not isinstance(turn, int) or turn < 1:
            raise InvalidInput(f"turn: is {turn!r:.80}, must be a whole number of at least 1")
        return held, now.at(turn, self._state.retention, heard(message))

    def _keep(self, picked: Selection, now: Conversation, held: Conversation) -> Selection:
        self._first = self._selection = picked
        self._seen, self._is_reported, self._wanted = held, False, set()
        self._send(picked, now, held)
        return picked

    def _send(self, picked: Selection, now: Conversation, held: Conversation) -> None:
        """The list that the next turn begins with. held: what the conversation held when it was selected."""
        if not self.context.required:  # a short cut leaves the conversation's list alone
            tools = picked.catalog.tools
            selected = [tools[row].name for row in picked.candidates.before_list.tolist()]
            now = now.sent(picked.names, {*selected, *now.held(self._state.retention)})
        self._state.sent(now, held)
        self._told()

    def _told(self) -> None:
        self._conversations.note(self.context, self._state)

    def _tools(self) -> VisibleTools:
        """What this caller may have now.

        It is worked out once for a snapshot and a context: rules, settings and catalog change by a new
        snapshot. Only settings that the caller passes as a mapping may change unseen.
        """
        snapshot, context = self._engine.snapshot, self._context
        known = self._visible
        if known is not None and known[0] is snapshot and known[1] is context:
            return known[2]
        catalog, allowed = self._engine.allowed(context)
        if context.required:  # nothing else can be had
            rows = [catalog.names[name] for name in context.required if name in catalog.names]
            allowed = allowed & Bitset.of(len(catalog), np.array(rows, np.int32))
        tools = VisibleTools(catalog, allowed, self._own, self._names_for)
        if not isinstance(context.settings, Mapping) or not context.settings:
            self._visible = snapshot, context, tools
        return tools

    def _names_for(self, text: str) -> Sequence[str]:
        return self._engine.find(text, self.context, MOST_FOUND).names

    def _named(self, names: object) -> tuple[list[Tool], list[Tool], dict[str, Sequence[str]]]:
        """Core tools of these names, the others, and names of none."""
        tools = self._tools()
        found, unknown = tools.resolve(listed(names))
        core = [tool for tool in found if tools.is_core(tool)]
        return core, [tool for tool in found if not tools.is_core(tool)], unknown

    def _own(self, name: str) -> str | None:
        """The own name of the tool that the model was, or would be, sent under this one.

        A name that looks like a replaced one is nobody's own: otherwise a tool that is called what another
        one is sent as would get its calls as soon as that is gone. None where no tool is sent under it.
        """
        if not is_replaced(name):
            return name
        catalog, allowed = self._engine.allowed(self.context)
        return own_name_of(name, (catalog.tools[row].name for row in allowed.rows().tolist()))


_OUTCOMES: Mapping[str, bool | None] = {"succeeded": True, "failed": False, "called": None}
