"""`ToolSelector`: the common part of all adapters, independent of any framework.

    from toolroll.adapters import ToolSelector

    selector = ToolSelector(max_tools=12)

    turn = selector.turn(tools, messages, conversation="c-42")   # before each call of the model
    reply = model(messages, turn.tools)                          # your own tool objects, those to send
    refusal = turn.refusal(name)                                 # before a tool runs: None, or the answer
    with turn.call(name):                                        # around it: reports the outcome
        result = run(name, arguments)

An adapter is a framework's hooks that call these four. `docs/frameworks/your-own.md` explains each.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable, Sequence
from operator import is_
from typing import Any, NamedTuple

from toolroll.adapters.agent_turn import AgentTurn, SelectorOptions
from toolroll.adapters.arguments import check_conversation, checked_context
from toolroll.adapters.last_message import (
    MOST_BEFORE,
    LastMessage,
    ReadMessages,
    called_tools,
    last_message,
    messages_before,
    turn_digest,
)
from toolroll.adapters.listed_tools import (
    ListedTools,
    ReadTool,
    descriptions_of,
    name_of,
    objects_of,
    read_object,
)
from toolroll.adapters.messages import ReadMessage, read_own_messages
from toolroll.learning.reporters import Reporter
from toolroll.model.argument_checks import items_of
from toolroll.model.context import Context
from toolroll.model.errors import InvalidInput, quoted
from toolroll.roll import Toolroll

MOST_TURNS = 4_096  # that are kept, so that hooks of their tool calls find them
MOST_BYTES = 256 << 20  # of memory for different lists, by estimate: a turn is kept no longer than its list
MOST_ALIKE = 4  # lists of the same names that say something else
MOST_LISTS = 128  # in the framework's own objects; older turns have the first objects that said the same
_SPEAKERS = ("user", "assistant")
_MOST_USERS = 2  # messages of the user among them that a selection reads


class ToolSelector:
    """Selects a framework's tools for each turn of its agents. Safe to share between threads and agents.

    Each call passes the tools as the framework's own objects. A changed list is read again, an unchanged one
    costs microseconds. The roll has the rules, the statistics and the stored conversations.
    """

    def __init__(
        self,
        roll: Toolroll | None = None,
        *,
        k: int | None = None,
        max_tools: int | None = None,
        always_include: Iterable[str] = (),
        context: Context | None = None,
        read_tool: ReadTool = read_object,
        read_messages: ReadMessages = read_own_messages,
        suspending: tuple[type[BaseException], ...] = (),
        learns: bool = True,
        keeps_places: bool = False,
    ) -> None:
        """Reads nothing yet.

        Args:
            roll: applies rules, learns and keeps conversations; None for one in memory.
            k: how many tools retrieval finds, as in `Toolroll.select`.
            max_tools: how many tools are sent at most, not counting `always_include` and hosted tools.
            always_include: names of tools that every turn has. Unknown names are ignored.
            context: the caller, if a call passes none.
            read_tool: name, description and parameters (a JSON Schema) of one of the framework's tools; None
                for an object that is no function, which is always sent. Dictionaries never reach it:
                they are read as `Toolroll.from_tools` reads them.
            read_messages: reads the framework's messages. The default refuses objects that are no messages.
            suspending: exceptions by which the framework suspends a call, for example until a person approves
                it. They are not reported.
            learns: whether outcomes are recorded.
            keeps_places: whether a turn without a conversation's name knows the list of the turn before it,
                found by its messages: tools that are selected again keep their places.
        """
        if roll is not None and not isinstance(roll, Toolroll):
            raise InvalidInput(f"roll: is {quoted(roll)}, must be toolroll.Toolroll or None")
        context = checked_context(context)
        for name, number in (("k", k), ("max_tools", max_tools)):
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 0):
                raise InvalidInput(f"{name}: is {quoted(number)}, must be a whole number from 0, or None")
        self.roll = Toolroll.from_tools([]) if roll is None else roll
        self._turn_options = SelectorOptions(read_messages, suspending, learns)
        self._learns = learns
        self._keeps_places = keeps_places
        self._k, self._max_tools = k, max_tools
        self._always = items_of(always_include, "always_include", str)
        self._context = Context() if context is None else context
        self._read_tool, self._read_messages = read_tool, read_messages
        self._lock = threading.Lock()
        self._turns: OrderedDict[Hashable, AgentTurn] = OrderedDict()
        self._lists: OrderedDict[Hashable, ListedTools] = OrderedDict()  # by their first and last object
        self._firsts: OrderedDict[Hashable, tuple[ListedTools, ...]] = OrderedDict()  # of a content, by names
        self._catalog = self.roll.catalog  # of the newest turn
        self._list_bytes = 0  # of the lists in `_firsts`
        self._newest: deque[AgentTurn] = deque()  # turns with objects of their own

    def turn(
        self,
        tools: Sequence[Any],
        messages: Sequence[Any],
        *,
        conversation: str | None = None,
        run: Hashable | None = None,
        context: Context | None = None,
        always_include: Iterable[str] = (),
        reporter: Reporter | None = None,
    ) -> AgentTurn:
        """The current turn of these messages, with the tools to send. Call it before each model call.

        The first call in a turn selects. Later model calls in the same turn get the same tools, so one user
        message is one event, however many tools it takes.

        Args:
            tools: all tools of the agent, in the framework's own objects.
            messages: of the conversation so far, oldest first.
            conversation: names it, so that its list of tools stays stable from turn to turn and any process
                over the same store goes on with it. None: each turn stands alone, and is known by its
                messages; tools called in them stay.
            run: the framework's id of the agent's run in this process, if it has one. A new run ends the
                turn; shortened messages do not.
            context: the caller; None for the selector's.
            always_include: names of further tools that this turn must have, such as one that `tool_choice`
                names.
            reporter: of its outcomes, as for `Toolroll.record`; None for the context's user.

        Raises:
            InvalidInput: an argument has the wrong type.
        """
        step = self._step(tools, messages, conversation, run, context, always_include, reporter)
        turn = step.turn
        if step.is_known:
            return turn
        if step.previous is not None:
            step.previous.end()
        turn.over(self.roll.with_tools(turn.listed.items))
        if conversation is None:
            options = self._options(step, messages, knows_calls=False)
            options["sent"] = self._sent_before(step, messages)
            turn.selection = turn.roll.select(step.message.text, turn.context, **options)
        else:
            session = turn.session = turn.roll.session(
                conversation, turn.context, learns=self._learns, reporter=turn.reporter
            )
            options = self._options(step, messages, knows_calls=session.turn > 0)
            turn.selection = session.select(step.message.text, **options)
        return self._kept(turn)

    async def aturn(
        self,
        tools: Sequence[Any],
        messages: Sequence[Any],
        *,
        conversation: str | None = None,
        run: Hashable | None = None,
        context: Context | None = None,
        always_include: Iterable[str] = (),
        reporter: Reporter | None = None,
    ) -> AgentTurn:
        """`turn` for an event loop: waits for an embedder or a store happen in a thread."""
        step = self._step(tools, messages, conversation, run, context, always_include, reporter)
        turn = step.turn
        if step.is_known:
            return turn
        if step.previous is not None:
            await step.previous.aend()
        turn.over(await self._aroll(turn.listed))
        if conversation is None:
            options = self._options(step, messages, knows_calls=False)
            options["sent"] = self._sent_before(step, messages)
            turn.selection = await turn.roll.aselect(step.message.text, turn.context, **options)
        else:
            session = await turn.roll.asession(
                conversation, turn.context, learns=self._learns, reporter=turn.reporter
            )
            options = self._options(step, messages, knows_calls=session.turn > 0)
            turn.session, turn.selection = session, await session.aselect(step.message.text, **options)
        return self._kept(turn)

    async def _aroll(self, listed: ListedTools) -> Toolroll:
        """The roll over a list. A new list must be embedded, which may take time."""
        if listed.is_read:
            return self.roll.with_tools(listed.items)
        return await self.roll.awith_tools(listed.items)

    def find(
        self,
        messages: Sequence[Any] = (),
        *,
        conversation: str | None = None,
        run: Hashable | None = None,
        context: Context | None = None,
    ) -> AgentTurn | None:
        """The last turn that `turn` returned in this process for this conversation, run or messages.

        context: as in `turn`, since a conversation belongs to an organisation and a user.
        """
        context = self._context_of(context)
        check_conversation(conversation)
        key = _key(context, conversation, run)
        if key is None:
            _check_messages(messages)
            message = last_message(messages, self._read_messages)
            key = turn_digest(context, message, messages_before(messages, message, self._read_messages))
        with self._lock:
            return self._turns.get(key)

    def resume(self, tools: Sequence[Any], conversation: str, *, context: Context | None = None) -> AgentTurn:
        """The open turn of a conversation that another process began, for example before an approval.

        tools: at least the tools that the conversation may call.
        """
        turn = self._resume(tools, conversation, context)
        turn.over(self.roll.with_tools(turn.listed.items))
        turn.session = turn.roll.session(
            conversation, turn.context, learns=self._learns, reporter=turn.reporter
        )
        return turn

    async def aresume(
        self, tools: Sequence[Any], conversation: str, *, context: Context | None = None
    ) -> AgentTurn:
        """`resume` for an event loop."""
        turn = self._resume(tools, conversation, context)
        turn.over(await self._aroll(turn.listed))
        turn.session = await turn.roll.asession(
            conversation, turn.context, learns=self._learns, reporter=turn.reporter
        )
        return turn

    # Underneath.

    def _context_of(self, context: Context | None) -> Context:
        given = checked_context(context)
        return self._context if given is None else given

    def _resume(self, tools: Sequence[Any], conversation: str, context: Context | None) -> AgentTurn:
        check_conversation(conversation)
        return AgentTurn(self.roll, self._listed(tools), self._context_of(context), self._turn_options)

    def _step(
        self,
        tools: Sequence[Any],
        messages: Sequence[Any],
        conversation: str | None,
        run: Hashable | None,
        context: Context | None,
        always_include: Iterable[str],
        reporter: Reporter | None,
    ) -> _Step:
        context = self._context_of(context)
        check_conversation(conversation)
        _check_messages(messages)
        listed = self._listed(tools)
        key = _key(context, conversation, run)
        message, before = last_message(messages, self._read_messages), None
        if key is None:
            before = messages_before(messages, message, self._read_messages)
            key = turn_digest(context, message, before)
        always = (*self._always, *always_include)
        identity = (run if run is not None else message.place, message.text, context, reporter, always)
        with self._lock:
            known = self._turns.get(key)
            if known is not None and known.is_same(listed, identity):
                known.is_further = True
                self._hold(known)
                return _Step(known, message, before, None, is_known=True)
        turn = AgentTurn(self.roll, listed, context, self._turn_options, reporter)
        turn.key, turn.run, turn.identity = key, run, identity
        turn.asked = (message.place, message.text)
        # Another run may go on with the same message, such as after an approval.
        previous = None if known is None or known.asked == turn.asked else known
        return _Step(turn, message, before, previous)

    def _options(self, step: _Step, messages: Sequence[Any], *, knows_calls: bool) -> dict[str, Any]:
        """Arguments of `select`. knows_calls: whether the session knows which tools were called before."""
        names, always = step.turn.listed.names, step.turn.identity[-1]
        before, included = step.before, always
        if before is None:
            users = _MOST_USERS if knows_calls else MOST_BEFORE
            before = messages_before(messages, step.message, self._read_messages, users)
        if not knows_calls:
            included = (*always, *called_tools((*before, *step.message.after), names))
        most = None if self._max_tools is None else self._max_tools + len(names.intersection(always))
        history = [
            {"role": one.role, "content": one.text} for one in before if one.role in _SPEAKERS and one.text
        ]
        return {"k": self._k, "max_tools": most, "always_include": included, "history": history}

    def _sent_before(self, step: _Step, messages: Sequence[Any]) -> tuple[str, ...]:
        """Names of the tools that the previous turn sent, found by its messages."""
        turn = step.turn
        if not self._keeps_places or turn.run is not None or step.message.place <= 0:
            return ()
        earlier = messages[: step.message.place]
        message = last_message(earlier, self._read_messages)
        key = turn_digest(turn.context, message, messages_before(earlier, message, self._read_messages))
        with self._lock:
            known = self._turns.get(key)
        return () if known is None else tuple([name for name in known.names if name in turn.listed.names])

    def _kept(self, turn: AgentTurn) -> AgentTurn:
        """Keeps a turn, for its tool calls and further steps, unless its list is too large for that."""
        if turn.memory_bytes * 2 > MOST_BYTES:
            return turn
        with self._lock:
            before = self._turns.pop(turn.key, None)
            catalog = self.roll.catalog
            if catalog is not self._catalog:
                self._catalog = catalog
                for known in self._turns.values():  # they would keep the one of before
                    known.roll.release_tools()
            self._turns[turn.key] = turn
            self._keep_list(turn.listed, turn.memory_bytes)
            while len(self._turns) > MOST_TURNS:
                self._turns.popitem(last=False)
            self._hold(turn)
        if before is not None and before.identity == turn.identity:
            turn.reported |= before.reported
        return turn

    def _hold(self, turn: AgentTurn) -> None:
        """Keeps a turn's own objects, and releases the oldest turn's. The caller holds the lock."""
        if turn.listed.first is not turn.listed:
            self._newest.append(turn)
            while len(self._newest) > MOST_LISTS:
                self._newest.popleft().release()

    def _listed(self, tools: Sequence[Any]) -> ListedTools:
        """The list of these objects: a known one, or a new one that shares equal descriptions."""
        tools = objects_of(tools)
        with self._lock:
            known = self._lists.get(_place(tools))
            if known is not None and all(map(is_, known.objects, tools)):
                if known.content in self._firsts:
                    self._firsts.move_to_end(known.content)
                return known
        descriptions = descriptions_of(tools, self._read_tool)
        content = tuple(map(name_of, descriptions))
        with self._lock:
            alike = self._firsts.get(content, ())
            if alike:
                self._firsts.move_to_end(content)
        return ListedTools(
            tools,
            descriptions,
            content,
            next((known for known in alike if known.descriptions == descriptions), None),
        )

    def _keep_list(self, listed: ListedTools, memory_bytes: int) -> None:
        """Keeps a list that has a catalog. The caller holds the lock."""
        first = listed.first
        alike = self._firsts.get(listed.content, ())
        if first not in alike:
            first.memory_bytes = memory_bytes
            self._firsts[listed.content] = (first, *alike[: MOST_ALIKE - 1])
            self._list_bytes += memory_bytes - sum(gone.memory_bytes for gone in alike[MOST_ALIKE - 1 :])
        self._lists[_place(listed.objects)] = listed
        while len(self._lists) > MOST_LISTS:
            self._lists.popitem(last=False)
        if len(alike) == MOST_ALIKE or self._list_bytes > MOST_BYTES:
            self._forget_lists()

    def _forget_lists(self) -> None:
        """Forgets the least recently used lists, and their turns. The caller holds the lock."""
        while self._list_bytes > MOST_BYTES * 7 // 8 and len(self._firsts) > 1:
            _, alike = self._firsts.popitem(last=False)
            self._list_bytes -= sum(first.memory_bytes for first in alike)
        kept = {first for alike in self._firsts.values() for first in alike}
        self._lists = OrderedDict(one for one in self._lists.items() if one[1].first in kept)
        self._turns = OrderedDict(one for one in self._turns.items() if one[1].listed.first in kept)


class _Step(NamedTuple):
    """A step of the model.

    Attributes:
        turn: the turn that it belongs to.
        message: the user's last message.
        before: the messages before it, newest last; None if they were not read yet.
        previous: the turn before this one, in the same conversation.
        is_known: whether the turn was selected before, over the same tools.
    """

    turn: AgentTurn
    message: LastMessage
    before: Sequence[ReadMessage] | None
    previous: AgentTurn | None
    is_known: bool = False


def _place(tools: Sequence[Any]) -> tuple[int, int, int]:
    """The key of a list in the cache: the identities of its objects."""
    return (id(tools[0]), id(tools[-1]), len(tools)) if tools else (0, 0, 0)


def _check_messages(messages: object) -> None:
    if isinstance(messages, (str, bytes)) or not isinstance(messages, Sequence):
        raise InvalidInput(f"messages: is {quoted(messages)}, must be a list of messages, oldest first")


def _key(context: Context, conversation: str | None, run: Hashable | None) -> Hashable | None:
    """The key of a named turn; None for any other."""
    return run if conversation is None else (context.org, context.user, conversation)
