"""`ToolSelector`: what every adapter of an agent framework needs, with no framework in it.

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

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import islice
from operator import is_
from typing import Any, NamedTuple, TypeAlias

from toolroll.adapters.asked_by import checked_context
from toolroll.adapters.messages import ReadMessage, read_own_messages
from toolroll.argument_checks import items_of
from toolroll.context import Context
from toolroll.errors import Denied, InvalidInput, Unavailable, quoted
from toolroll.formats.sources.fields import FieldError
from toolroll.formats.sources.hosted import is_hosted
from toolroll.formats.sources.lenient import group_in, name_in
from toolroll.formats.sources.objects import described
from toolroll.learning.outcomes import LONGEST_MS, CallReport
from toolroll.roll import LONGEST_SESSION, Toolroll
from toolroll.selection.selection import Selection
from toolroll.sessions.session import Session

_log = logging.getLogger("toolroll")

ReadTool = Callable[[Any], "tuple[Any, Any, Any] | None"]
# What a tool says of itself: a dictionary as it is, what `ReadTool` returns of another object.
_Said: TypeAlias = "Mapping[str, Any] | tuple[Any, Any, Any] | None"
ReadMessages = Callable[[Sequence[Any]], Sequence[ReadMessage]]

MOST_TURNS = 4_096  # that are kept, so that hooks of their tool calls find them
MOST_LISTED = 32_768  # tools in different lists: a turn is kept no longer than its list
MOST_ALIKE = 4  # lists of the same names that say something else
MOST_LISTS = 128  # in the framework's own objects; older turns have the first objects that said the same
_SPEAKERS = ("user", "assistant")
_HANDED_ON: Mapping[str, Any] = {"type": "handed_on"}  # stands for an object of no known kind
_MOST_BEFORE = 16  # messages before the user's last one that are read
_MOST_USERS = 2  # messages of the user among them that a selection reads
_MOST_CALLED = 8  # tools called before that stay, as many as a session keeps
_MOST_BEGUN = 256  # calls of a turn that run at once


class ToolSelector:
    """Selects a framework's tools for each turn of its agents. Safe to share between threads and agents.

    The tools come with each call, in the framework's own objects: a list that changed is read again, and one
    that did not costs microseconds. Rules, learning and stored conversations are those of `roll`.
    """

    def __init__(
        self,
        roll: Toolroll | None = None,
        *,
        k: int | None = None,
        max_tools: int | None = None,
        always_include: Iterable[str] = (),
        context: Context | None = None,
        read_tool: ReadTool = described,
        read_messages: ReadMessages = read_own_messages,
        suspending: tuple[type[BaseException], ...] = (),
        learns: bool = True,
        keeps_places: bool = False,
    ) -> None:
        """Reads nothing yet.

        Args:
            roll: whose rules apply, which learns, and which keeps conversations; None for one in memory.
            k: how many tools retrieval finds, as in `Toolroll.select`.
            max_tools: how many tools are sent at the most, not counting `always_include` and hosted tools.
            always_include: names of tools that every turn has. A name that no tool has is passed over.
            context: who asks, where a call does not say.
            read_tool: name, description and parameters (a JSON Schema) of one of the framework's tools; None
                for what is no function, and so is sent whatever is selected. Dictionaries never reach it:
                they are read as `Toolroll.from_tools` reads them.
            read_messages: reads the framework's messages. The usual one refuses what is no message.
            suspending: exceptions by which the framework suspends a call, such as one that waits for a
                person: they are no outcome.
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
        self.suspending = suspending
        self.learns = learns
        self._keeps_places = keeps_places
        self._k, self._max_tools = k, max_tools
        self._always = items_of(always_include, "always_include", str)
        self._context = Context() if context is None else context
        self._read_tool, self._read_messages = read_tool, read_messages
        self._lock = threading.Lock()
        self._turns: OrderedDict[Hashable, AgentTurn] = OrderedDict()
        self._lists: OrderedDict[Hashable, _ListedTools] = OrderedDict()  # by their first and last object
        self._firsts: OrderedDict[Hashable, tuple[_ListedTools, ...]] = (
            OrderedDict()
        )  # of a content, by names
        self._n_listed = 0  # tools in `_firsts`
        self._newest: deque[AgentTurn] = deque()  # those with objects of their own

    def turn(
        self,
        tools: Sequence[Any],
        messages: Sequence[Any],
        *,
        conversation: str | None = None,
        run: Hashable | None = None,
        context: Context | None = None,
        always_include: Iterable[str] = (),
    ) -> AgentTurn:
        """The turn that these messages have come to, with the tools to send: call it before each model call.

        The first call of a turn selects. Further steps of the model in the same turn get the same tools, so
        one message of the user is one event, however many tools are called for it.

        Args:
            tools: all tools of the agent, in the framework's own objects.
            messages: of the conversation so far, oldest first.
            conversation: names it, so that its list of tools stays stable from turn to turn and any process
                over the same store goes on with it. None: each turn stands alone, and is known by its
                messages; tools called in them stay.
            run: identifies the agent's run in this process, where the framework has such an id. A turn is
                over when another run begins, and not when the messages were shortened.
            context: who asks; None for the selector's.
            always_include: names of further tools that this turn must have, such as one that `tool_choice`
                names.

        Raises:
            InvalidInput: an argument is not of the type that it must be.
        """
        step = self._step(tools, messages, conversation, run, context, always_include)
        turn = step.turn
        if step.is_known:
            return turn
        if step.last is not None:
            step.last.end()
        turn.over(self.roll.with_tools(turn.listed.items))
        if conversation is None:
            options = self._options(step, messages, knows_calls=False)
            options["sent"] = self._sent_before(step, messages)
            turn.selection = turn.roll.select(step.heard.message, turn.context, **options)
        else:
            session = turn.session = turn.roll.session(conversation, turn.context, learns=self.learns)
            options = self._options(step, messages, knows_calls=session.turn > 0)
            turn.selection = session.select(step.heard.message, **options)
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
    ) -> AgentTurn:
        """`turn` for an event loop: an embedder or a store that waits does so in a thread."""
        step = self._step(tools, messages, conversation, run, context, always_include)
        turn = step.turn
        if step.is_known:
            return turn
        if step.last is not None:
            await step.last.aend()
        turn.over(await self._aroll(turn.listed))
        if conversation is None:
            options = self._options(step, messages, knows_calls=False)
            options["sent"] = self._sent_before(step, messages)
            turn.selection = await turn.roll.aselect(step.heard.message, turn.context, **options)
        else:
            session = await turn.roll.asession(conversation, turn.context, learns=self.learns)
            options = self._options(step, messages, knows_calls=session.turn > 0)
            turn.session, turn.selection = session, await session.aselect(step.heard.message, **options)
        return self._kept(turn)

    async def _aroll(self, listed: _ListedTools) -> Toolroll:
        """The roll over a list: a new one is embedded, which may wait."""
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
        """The turn that `turn` has returned last for this conversation, run or messages, in this process.

        context: as `turn` got it: a conversation is that of an organisation and user.
        """
        context = self._asked_by(context)
        check_conversation(conversation)
        key = _key(context, conversation, run)
        if key is None:
            _check_messages(messages)
            heard = _heard(messages, self._read_messages)
            key = _digest(context, heard, _before(messages, heard, self._read_messages))
        with self._lock:
            return self._turns.get(key)

    def resume(self, tools: Sequence[Any], conversation: str, *, context: Context | None = None) -> AgentTurn:
        """The open turn of a conversation that another process has begun, such as before an approval.

        tools: those whose calls are checked and reported, at least.
        """
        turn = self._resumed(tools, conversation, context)
        turn.over(self.roll.with_tools(turn.listed.items))
        turn.session = turn.roll.session(conversation, turn.context, learns=self.learns)
        return turn

    async def aresume(
        self, tools: Sequence[Any], conversation: str, *, context: Context | None = None
    ) -> AgentTurn:
        """`resume` for an event loop."""
        turn = self._resumed(tools, conversation, context)
        turn.over(await self._aroll(turn.listed))
        turn.session = await turn.roll.asession(conversation, turn.context, learns=self.learns)
        return turn

    # Underneath.

    def _asked_by(self, context: Context | None) -> Context:
        given = checked_context(context)
        return self._context if given is None else given

    def _resumed(self, tools: Sequence[Any], conversation: str, context: Context | None) -> AgentTurn:
        check_conversation(conversation)
        return AgentTurn(self, self._listed(tools), self._asked_by(context))

    def _step(
        self,
        tools: Sequence[Any],
        messages: Sequence[Any],
        conversation: str | None,
        run: Hashable | None,
        context: Context | None,
        always_include: Iterable[str],
    ) -> _Step:
        context = self._asked_by(context)
        check_conversation(conversation)
        _check_messages(messages)
        listed = self._listed(tools)
        key = _key(context, conversation, run)
        heard, before = _heard(messages, self._read_messages), None
        if key is None:
            before = _before(messages, heard, self._read_messages)
            key = _digest(context, heard, before)
        always = (*self._always, *always_include)
        identity = (run if run is not None else heard.place, heard.message, context, always)
        with self._lock:
            known = self._turns.get(key)
            if known is not None and known.is_same(listed, identity):
                self._hold(known)
                return _Step(known, heard, before, None, is_known=True)
        turn = AgentTurn(self, listed, context)
        turn.key, turn.run, turn.identity = key, run, identity
        turn.asked = (heard.place, heard.message)
        # Another run may go on with the same message, such as after an approval.
        last = None if known is None or known.asked == turn.asked else known
        return _Step(turn, heard, before, last)

    def _options(self, step: _Step, messages: Sequence[Any], *, knows_calls: bool) -> dict[str, Any]:
        """Arguments of `select`. knows_calls: whether the session knows which tools were called before."""
        names, always = step.turn.listed.names, step.turn.identity[-1]
        before, included = step.before, always
        if before is None:
            users = _MOST_USERS if knows_calls else _MOST_BEFORE
            before = _before(messages, step.heard, self._read_messages, users)
        if not knows_calls:
            included = (*always, *_called((*before, *step.heard.since), names))
        most = None if self._max_tools is None else self._max_tools + len(names.intersection(always))
        history = [
            {"role": one.role, "content": one.text} for one in before if one.role in _SPEAKERS and one.text
        ]
        return {"k": self._k, "max_tools": most, "always_include": included, "history": history}

    def _sent_before(self, step: _Step, messages: Sequence[Any]) -> tuple[str, ...]:
        """Names that the turn before this one has sent, where messages are all that is known of it."""
        turn = step.turn
        if not self._keeps_places or turn.run is not None or step.heard.place <= 0:
            return ()
        earlier = messages[: step.heard.place]
        heard = _heard(earlier, self._read_messages)
        key = _digest(turn.context, heard, _before(earlier, heard, self._read_messages))
        with self._lock:
            known = self._turns.get(key)
        return () if known is None else tuple([name for name in known.names if name in turn.listed.names])

    def _kept(self, turn: AgentTurn) -> AgentTurn:
        """Keeps a turn, for its tool calls and further steps."""
        with self._lock:
            before = self._turns.pop(turn.key, None)
            self._turns[turn.key] = turn
            while len(self._turns) > MOST_TURNS:
                self._turns.popitem(last=False)
            self._hold(turn)
        if before is not None and before.identity == turn.identity:
            turn.reported |= before.reported
        return turn

    def _hold(self, turn: AgentTurn) -> None:
        """Lets a turn have its own objects for now, and takes them from the oldest. The lock is held."""
        if turn.listed.first is not turn.listed:
            self._newest.append(turn)
            while len(self._newest) > MOST_LISTS:
                self._newest.popleft().release()

    def _listed(self, tools: Sequence[Any]) -> _ListedTools:
        """What is known of this list: of the same objects, or of others that say the same."""
        tools = _objects(tools)
        place = (id(tools[0]), id(tools[-1]), len(tools)) if tools else (0, 0, 0)
        with self._lock:
            known = self._lists.get(place)
            if known is not None and all(map(is_, known.objects, tools)):
                if known.content in self._firsts:
                    self._firsts.move_to_end(known.content)
                return known
        said = self._said(tools)
        content = tuple(map(_name_of, said))
        with self._lock:
            alike = self._firsts.get(content, ())
            first = next((known for known in alike if known.said == said), None)
            listed = _ListedTools(tools, said, content, first)
            if first is None:
                self._firsts[content] = (listed, *alike[: MOST_ALIKE - 1])
                self._n_listed += len(said) * (len(self._firsts[content]) - len(alike))
            self._firsts.move_to_end(content)
            self._lists[place] = listed
            while len(self._lists) > MOST_LISTS:
                self._lists.popitem(last=False)
            if (len(alike) == MOST_ALIKE and first is None) or self._n_listed > MOST_LISTED:
                self._forget_lists()
        return listed

    def _forget_lists(self) -> None:
        """Lets go of the lists that were not used for longest, and of their turns. The lock is held."""
        while self._n_listed > MOST_LISTED * 7 // 8 and len(self._firsts) > 1:
            _, alike = self._firsts.popitem(last=False)
            self._n_listed -= sum(len(first.said) for first in alike)
        kept = {first for alike in self._firsts.values() for first in alike}
        self._lists = OrderedDict(one for one in self._lists.items() if one[1].first in kept)
        self._turns = OrderedDict(one for one in self._turns.items() if one[1].listed.first in kept)

    def _said(self, tools: Sequence[Any]) -> list[Any]:
        """What the tools say of themselves: see `_Said`."""
        kinds = set(map(type, tools))
        if kinds == {dict}:
            return list(tools)
        if not any([issubclass(kind, Mapping) for kind in kinds]):
            try:
                return list(map(self._read_tool, tools))
            except FieldError:
                pass  # of one of them
        return [self._said_by(tool) for tool in tools]

    def _said_by(self, tool: Any) -> _Said:
        if isinstance(tool, Mapping):
            return tool
        try:
            return self._read_tool(tool)
        except FieldError:
            return getattr(tool, "name", None), getattr(tool, "description", None), None


class AgentTurn:
    """One turn of an agent: the tools to send, which calls pass, and what came of them."""

    def __init__(self, selector: ToolSelector, listed: _ListedTools, context: Context) -> None:
        """Made by `ToolSelector`."""
        self.selector, self.listed, self.context = selector, listed, context
        self.roll = selector.roll
        self.selection: Selection | None = None
        self.session: Session | None = None
        self.key: Hashable = None
        self.run: Hashable = None
        self.identity: tuple[Any, ...] = ()
        self.asked = (-1, "")  # the user's message, and its place among the messages
        self.reported: set[str] = set()  # ids of calls, by `report_results`
        self._begun: dict[str, float] = {}  # call → when it began, by `begin`
        self._is_over = self._has_reports = False
        self._tools: tuple[Selection, _ListedTools, tuple[Any, ...]] | None = None

    def over(self, roll: Toolroll) -> None:
        """Takes the roll over its list. For `ToolSelector`."""
        self.roll = roll
        for listed in (self.listed, self.listed.first):
            if not listed.is_read:
                listed.names = frozenset(roll.catalog.names)

    @property
    def tools(self) -> tuple[Any, ...]:
        """The framework's own objects to send to the model.

        Those that are not selected from (hosted tools, objects of no known kind) come first. The selected
        ones follow, best first, and in a conversation they keep their places, for the provider's cache.
        """
        selection, made = self.shown, self._tools
        if made is None or made[0] is not selection or made[1] is not self.listed:
            made = self._tools = selection, self.listed, self.listed.of(selection)
        return made[2]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the selected tools, in the order in which they are sent."""
        return self.shown.names

    @property
    def shown(self) -> Selection:
        """The selection of the turn, with what its conversation has loaded since."""
        if self.session is not None and self.session.is_open:
            return self.session.selection
        if self.selection is None:
            raise InvalidInput("turn: nothing was selected in it; call ToolSelector.turn first")
        return self.selection

    def is_same(self, listed: _ListedTools, identity: tuple[Any, ...]) -> bool:
        """Whether this is a further step of the turn over the same tools. For `ToolSelector`."""
        if self._is_over or identity != self.identity or listed.items is not self.listed.items:
            return False
        if self.session is not None and not self.session.is_open:
            return False
        self.listed = listed  # other objects may say the same
        return True

    def release(self) -> None:
        """Lets go of the framework's objects: the first ones that said the same take their place."""
        self.listed, self._tools = self.listed.first, None

    def refusal(self, name: str, *, unknown: bool = False) -> str | None:
        """None if the call of this tool may run; otherwise the text to answer it with.

        unknown: whether a name that is none of the tools of the list is refused, too. Otherwise it is the
            framework's to answer.
        """
        if not self._is_checked(name, unknown):
            return None
        try:
            if self.session is not None and not self.session.is_open and self.selection is None:
                return None if self.roll.may(name, self.context) else f"{name!r} is not available."
            if self.session is not None:
                self.session.check(name)
            else:
                self.shown.check(name)
        except Denied as error:
            return str(error)
        return None

    async def arefusal(self, name: str, *, unknown: bool = False) -> str | None:
        """`refusal` for an event loop: it also sees what another process has offered a moment ago."""
        if self.session is None or not self.session.is_open or not self._is_checked(name, unknown):
            return self.refusal(name, unknown=unknown)
        try:
            await self.session.acheck(name)
        except Denied as error:
            return str(error)
        return None

    def begin(self, call: str) -> None:
        """Notes that a call begins, for frameworks that tell of its begin and of its end. call: its id."""
        if len(self._begun) < _MOST_BEGUN:  # calls that never end must not fill the memory
            self._begun[call] = time.perf_counter()

    def took(self, call: str) -> float | None:
        """Milliseconds since `begin` of this call, for `report`; None if nobody told of its begin."""
        began = self._begun.pop(call, None)
        return None if began is None else _ms_since(began)

    def report(self, name: str, worked: bool | None, duration_ms: float | None = None) -> bool:
        """Reports a call that ran: True, False, or None where that is unknown or no fault of the tool's.

        duration_ms: how long it took, if that was measured.

        Returns whether it counts: a tool that was not offered counts for nothing. A store that is away is
        logged, and stops no agent.
        """
        if not self._counts(name):
            return False
        call = (name, CallReport(succeeded=worked, duration_ms=duration_ms))
        try:
            if self.session is not None:
                return name not in self.session.used([call])
            self.roll.record(self.shown, [call], final=False)
        except Unavailable as error:
            _log.warning("adapter: the outcome of %s was not recorded: %s", name, error)
            return False
        return True

    async def areport(self, name: str, worked: bool | None, duration_ms: float | None = None) -> bool:
        """`report` for an event loop."""
        if not self._counts(name):
            return False
        call = (name, CallReport(succeeded=worked, duration_ms=duration_ms))
        try:
            if self.session is not None:
                return name not in await self.session.aused([call])
            await self.roll.arecord(self.shown, [call], final=False)
        except Unavailable as error:
            _log.warning("adapter: the outcome of %s was not recorded: %s", name, error)
            return False
        return True

    def is_suspended(self, error: BaseException) -> bool:
        """Whether the exception suspends the call: then there is nothing to report yet."""
        return isinstance(error, self.selector.suspending)

    @contextmanager
    def call(self, name: str) -> Iterator[CallOutcome]:
        """Reports what came of the call that runs inside, and how long it took; `worked` may be set there.

        An exception is a failure, unless `worked` was set to None before, and goes on its way. A call that is
        cancelled is unknown. If the framework suspends the call by an exception, nothing is reported.
        """
        outcome, began = CallOutcome(), time.perf_counter()
        try:
            yield outcome
        except BaseException as error:
            if not self.is_suspended(error):
                took = _ms_since(began) if isinstance(error, Exception) else None
                self.report(name, outcome.after(error), took)
            raise
        self.report(name, outcome.worked, _ms_since(began))

    def acall(self, name: str) -> _AsyncCall:
        """`call` for an event loop, in an `async with`."""
        return _AsyncCall(self, name)

    def report_results(self, messages: Sequence[Any]) -> tuple[str, ...]:
        """Reports the results that these messages hold for calls of this turn, each once.

        For programs and proxies that see messages and no calls. A result says whether it failed by its flag
        (`is_error`, `status`), or else its text does (`adapters.messages.failed_by_text`).

        Returns the names of the tools that were reported.
        """
        outcomes = self._results(messages)
        return tuple([name for name, worked in outcomes if self.report(name, worked)])

    async def areport_results(self, messages: Sequence[Any]) -> tuple[str, ...]:
        """`report_results` for an event loop."""
        outcomes = self._results(messages)
        return tuple([name for name, worked in outcomes if await self.areport(name, worked)])

    def end(self) -> None:
        """Closes the turn: tools that were shown and not called are known now. Nothing happens twice.

        A turn that nobody closes is closed ten minutes after its first report. A closed turn no longer keeps
        its tools: others of the same content may come back from `tools`.
        """
        if self._is_over:
            return
        self._is_over = True
        self.release()
        try:
            if self.session is not None:
                self.session.end_turn()
            elif self._has_reports:
                self.roll.record(self.shown, (), final=True)
        except Unavailable as error:
            _log.warning("adapter: the end of a turn was not recorded: %s", error)

    async def aend(self) -> None:
        """`end` for an event loop."""
        if self._is_over:
            return
        self._is_over = True
        self.release()
        try:
            if self.session is not None:
                await self.session.aend_turn()
            elif self._has_reports:
                await self.roll.arecord(self.shown, (), final=True)
        except Unavailable as error:
            _log.warning("adapter: the end of a turn was not recorded: %s", error)

    def _is_checked(self, name: str, unknown: bool) -> bool:
        """Whether offers and policy decide on this name: not on tools that are sent in any case."""
        return name in self.listed.names or (unknown and (not name or name not in self.listed.content))

    def _counts(self, name: str) -> bool:
        if not self.selector.learns or name not in self.listed.names:
            return False
        if self.session is None:
            if name not in self.shown:
                return False
            self._has_reports = True
        return True

    def _results(self, messages: Sequence[Any]) -> list[tuple[str, bool | None]]:
        heard = _heard(messages, self.selector._read_messages)
        names = {call.call_id: call.name for one in heard.since for call in one.calls if call.call_id}
        found: list[tuple[str, bool | None]] = []
        for at, one in enumerate(heard.since):
            for result in one.results:
                name = result.name or names.get(result.call_id, "")
                mark = result.call_id or f"{at} {name}"
                if name and mark not in self.reported:
                    self.reported.add(mark)
                    found.append((name, result.worked))
        return found


class CallOutcome:
    """What came of a call.

    Attributes:
        worked: True, until somebody sets it to False, or to None: unknown, or no fault of the tool's.
    """

    worked: bool | None = True

    def after(self, error: BaseException) -> bool | None:
        """What came of a call that ended with this exception."""
        return False if isinstance(error, Exception) and self.worked is not None else None


class _AsyncCall:
    def __init__(self, turn: AgentTurn, name: str) -> None:
        self._turn, self._name, self._outcome = turn, name, CallOutcome()

    async def __aenter__(self) -> CallOutcome:
        self._began = time.perf_counter()
        return self._outcome

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        turn = self._turn
        if error is None:
            await turn.areport(self._name, self._outcome.worked, _ms_since(self._began))
        elif isinstance(error, Exception):
            if not turn.is_suspended(error):
                await turn.areport(self._name, self._outcome.after(error), _ms_since(self._began))
        elif not turn.is_suspended(error):
            turn.report(self._name, None)  # cancelled: nothing may be awaited


def _ms_since(began: float) -> float:
    """Milliseconds since this time of the monotonic clock."""
    return min(1e3 * (time.perf_counter() - began), LONGEST_MS)


class _Step(NamedTuple):
    """A step of the model.

    Attributes:
        turn: that it belongs to.
        heard: what was said in it.
        before: what was said before, newest last; None where that was not read yet.
        last: the turn before this one, in the same conversation.
        is_known: whether the turn was selected before, over the same tools.
    """

    turn: AgentTurn
    heard: _Heard
    before: Sequence[ReadMessage] | None
    last: AgentTurn | None
    is_known: bool = False


class _Divided(NamedTuple):
    """Places in a list of tools: of what is sent in any case, and of each name; whether there are groups."""

    in_front: Sequence[int]
    by_name: Mapping[str, Sequence[int]]
    has_groups: bool


class _ListedTools:
    """A framework's list of tools, and what the catalog reads of it.

    Attributes:
        objects: the framework's own.
        said: what they say of themselves.
        content: their names, in order; "" for what has none.
        first: the list that has said the same before; itself where none has.
        items: what the catalog reads, one each.
        names: of the tools that are selected from; empty until a catalog was made.
    """

    __slots__ = ("_divided", "content", "first", "items", "names", "objects", "said")

    def __init__(
        self,
        objects: tuple[Any, ...],
        said: list[_Said],
        content: tuple[str, ...],
        first: _ListedTools | None = None,
    ) -> None:
        """first: another list that says the same."""
        self.objects, self.content = objects, content
        self.first: _ListedTools = self if first is None else first
        self.said: list[_Said] = said if first is None else first.said
        self.items: list[Mapping[str, Any]] = list(map(_item_of, said)) if first is None else first.items
        self.names: frozenset[str] = frozenset() if first is None else first.names
        self._divided: _Divided | None = None if first is None else first._divided

    @property
    def is_read(self) -> bool:
        """Whether a catalog was made of it, so that no tool has to be embedded."""
        return bool(self.names)

    def of(self, selection: Selection) -> tuple[Any, ...]:
        """The selected objects: first those that are handed on in any case."""
        if self._divided is None:
            self._divided = self._divide()
        in_front, by_name, has_groups = self._divided
        if has_groups:
            return selection.tools  # a group comes back with some of its members
        objects = self.objects
        found = [objects[place] for place in in_front]
        found += [objects[place] for name in selection.names for place in by_name.get(name, ())]
        return tuple(found)

    def _divide(self) -> _Divided:
        """Tells the tools that are selected from, by name, from the others."""
        in_front: list[int] = []
        by_name: dict[str, list[int]] = {}
        for place, item in enumerate(self.items):
            name = name_in(item)
            if name in self.names and not is_hosted(item):
                by_name.setdefault(name, []).append(place)
            else:
                in_front.append(place)
        has_groups = any(group_in(self.items[place]) is not None for place in in_front)
        return _Divided(in_front, by_name, has_groups)


def _name_of(said: _Said) -> str:
    """The name of a function; "" for what is none."""
    if said is None:
        return ""
    name = name_in(said) if isinstance(said, Mapping) else said[0]
    return name if isinstance(name, str) else ""


def _item_of(said: _Said) -> Mapping[str, Any]:
    """What the catalog reads of a tool."""
    if isinstance(said, Mapping):
        return said
    if said is None or not isinstance(said[0], str) or not said[0]:
        return _HANDED_ON
    name, description, parameters = said
    item = {"name": name, "description": description if isinstance(description, str) else ""}
    if isinstance(parameters, Mapping) and parameters:
        item["parameters"] = parameters
    return item


def _objects(tools: Any) -> tuple[Any, ...]:
    """The tools of a list."""
    if isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
        raise InvalidInput(f"tools: is {quoted(tools)}, must be a list of the agent's tools")
    return tuple(tools)


def _check_messages(messages: object) -> None:
    if isinstance(messages, (str, bytes)) or not isinstance(messages, Sequence):
        raise InvalidInput(f"messages: is {quoted(messages)}, must be a list of messages, oldest first")


def check_conversation(name: object, argument: str = "conversation") -> None:
    """Checks the name of a conversation; None is one that stands alone.

    argument: as the user of an adapter knows it.

    Raises:
        InvalidInput: it is empty, too long, or no text.
    """
    if name is not None and not (isinstance(name, str) and 0 < len(name) <= LONGEST_SESSION):
        raise InvalidInput(
            f"{argument}: is {quoted(name)}, must be a name of 1 to {LONGEST_SESSION:,} characters"
        )


class _Heard(NamedTuple):
    """The end of a conversation, from the user's last message on.

    Attributes:
        message: the user's last one; without one, the first text.
        since: messages after it.
        place: which message of the list it is; -1 without one.
        before: what the same message of the list says before it, such as results.
    """

    message: str
    since: Sequence[ReadMessage]
    place: int
    before: Sequence[ReadMessage] = ()


def _heard(messages: Sequence[Any], read: ReadMessages) -> _Heard:
    """Reads from the end, so that the time does not grow with the conversation."""
    since: list[ReadMessage] = []  # newest first
    for place in range(len(messages) - 1, -1, -1):
        said = read(messages[place : place + 1])
        for at in range(len(said) - 1, -1, -1):
            if said[at].role == "user":
                return _Heard(said[at].text, since[::-1], place, said[:at])
            since.append(said[at])
    since.reverse()
    return _Heard(next((one.text for one in since if one.text), ""), since, -1)


def _before(
    messages: Sequence[Any], heard: _Heard, read: ReadMessages, users: int = _MOST_BEFORE
) -> list[ReadMessage]:
    """What was said before the user's last message, oldest first.

    users: after how many messages of the user it is enough.
    """
    found = list(reversed(heard.before))
    for place in range(heard.place - 1, max(-1, heard.place - 1 - _MOST_BEFORE), -1):
        for one in reversed(read(messages[place : place + 1])):
            found.append(one)
            users -= one.role == "user" and bool(one.text)
        if users <= 0:
            break
    found.reverse()
    return found


def _called(read: Sequence[ReadMessage], names: Collection[str]) -> tuple[str, ...]:
    """Names of the tools that were called last, newest first."""
    called = (call.name for one in reversed(read) for call in one.calls if call.name in names)
    return tuple(islice(dict.fromkeys(called), _MOST_CALLED))


def _key(context: Context, conversation: str | None, run: Hashable | None) -> Hashable | None:
    """What a turn with a name is known by."""
    return run if conversation is None else (context.org, context.user, conversation)


def _digest(context: Context, heard: _Heard, before: Sequence[ReadMessage]) -> bytes:
    """What a turn without a name is known by: who asks, and what was said so far."""
    texts = [context.org, context.user, str(heard.place), heard.message]
    texts += [text for one in before for text in (one.role, one.text)]
    return blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=16).digest()
