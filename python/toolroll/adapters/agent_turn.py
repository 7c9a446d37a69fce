"""`AgentTurn`: the tools of one turn of an agent, the check of each call, and its outcome."""

from __future__ import annotations

import logging
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from toolroll.adapters.last_message import ReadMessages, last_message
from toolroll.adapters.listed_tools import ListedTools
from toolroll.learning.outcomes import LONGEST_MS, CallReport
from toolroll.learning.reporters import Reporter, UnnamedCaller
from toolroll.model.context import Context
from toolroll.model.errors import Denied, InvalidInput, Unavailable
from toolroll.roll import Toolroll
from toolroll.selection.selection import Selection
from toolroll.sessions.session import Session

_log = logging.getLogger("toolroll")

_MOST_STARTED = 256  # calls of a turn that run at once


class SelectorOptions(NamedTuple):
    """Options of a selector that its turns need; see `ToolSelector`."""

    read_messages: ReadMessages
    suspending: tuple[type[BaseException], ...]
    learns: bool


class AgentTurn:
    """One turn of an agent: the tools to send, the check of each call, and its outcome."""

    def __init__(
        self,
        roll: Toolroll,
        listed: ListedTools,
        context: Context,
        options: SelectorOptions,
        reporter: Reporter | None = None,
    ) -> None:
        """`ToolSelector` creates turns.

        reporter: reports its outcomes; None for the context's user. An agent without a user reports as an
            unnamed caller, since its model decides what is called.
        """
        self.roll, self.listed, self.context, self._options = roll, listed, context, options
        self.reporter = UnnamedCaller("agent") if reporter is None and not context.user else reporter
        self.selection: Selection | None = None
        self.session: Session | None = None
        self.key: Hashable = None
        self.run: Hashable = None
        self.identity: tuple[Any, ...] = ()
        self.asked = (-1, "")  # the user's message, and its place among the messages
        self.reported: set[str] = set()  # ids of calls, by `report_results`
        self._started: dict[str, float] = {}  # call → when it began, by `begin`
        self.is_further = False  # whether this is a further step of a turn that was selected before
        self._is_over = self._has_reports = False
        self._tools: tuple[Selection, ListedTools, tuple[Any, ...]] | None = None

    def over(self, roll: Toolroll) -> None:
        """Sets the roll over this turn's list of tools. For `ToolSelector`."""
        self.roll = roll
        for listed in (self.listed, self.listed.first):
            if not listed.is_read:
                listed.names = frozenset(roll.catalog.names)

    @property
    def memory_bytes(self) -> int:
        """Estimated bytes of the list and its catalog. For `ToolSelector`."""
        tool_list = None if self.selection is None else self.selection.turn.tool_list
        return 0 if tool_list is None else tool_list.memory_bytes

    @property
    def tools(self) -> tuple[Any, ...]:
        """The framework's own objects to send to the model.

        Hosted tools and objects of an unknown kind are always sent, and come first. The selected tools
        follow, best first; in a conversation they keep their places, for the provider's cache.
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
    def is_allowed(self) -> bool:
        """Whether the caller may still have all selected tools."""
        visible, made = self.roll.visible(self.context), self.shown.turn.tool_list
        withheld = frozenset() if made is None else made.withheld
        return visible.has_all(self.shown.rows) and visible.withheld <= withheld

    @property
    def shown(self) -> Selection:
        """The turn's selection, with tools that the conversation has loaded since."""
        if self.session is not None and self.session.is_open:
            return self.session.selection
        if self.selection is None:
            raise InvalidInput("turn: nothing was selected in it; call ToolSelector.turn first")
        return self.selection

    def is_same(self, listed: ListedTools, identity: tuple[Any, ...]) -> bool:
        """Whether this is a further step of the turn over the same tools. For `ToolSelector`."""
        if self._is_over or identity != self.identity or listed.items is not self.listed.items:
            return False
        if self.session is not None and not self.session.is_open:
            return False
        self.listed = listed  # its objects may be new, with the same descriptions
        return True

    def release(self) -> None:
        """Releases the framework's own objects; equal ones of an earlier list are used instead."""
        self.listed, self._tools = self.listed.first, None

    def refusal(self, name: str, *, unknown: bool = False) -> str | None:
        """None if the call of this tool may run; otherwise the text to answer it with.

        unknown: whether to refuse unknown names, too. Otherwise the framework answers them.
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
        """`refusal` for an event loop. It also sees the latest offers of other processes."""
        if self.session is None or not self.session.is_open or not self._is_checked(name, unknown):
            return self.refusal(name, unknown=unknown)
        try:
            await self.session.acheck(name)
        except Denied as error:
            return str(error)
        return None

    def begin(self, call: str) -> None:
        """Notes the start of a call, for frameworks with separate hooks for start and end. call: its id."""
        if len(self._started) < _MOST_STARTED:  # calls that never end must not fill the memory
            self._started[call] = time.perf_counter()

    def took(self, call: str) -> float | None:
        """Milliseconds since `begin` of this call, for `report`; None if its start is unknown."""
        began = self._started.pop(call, None)
        return None if began is None else _ms_since(began)

    def report(self, name: str, worked: bool | None, duration_ms: float | None = None) -> bool:
        """Reports a call that ran: True, False, or None if that is unknown or not the tool's fault.

        duration_ms: how long it took, if that was measured.

        Returns whether the report counts; it does not if the tool was not offered. An unreachable store is
        logged and does not stop the agent.
        """
        if not self._counts(name):
            return False
        call = (name, CallReport(succeeded=worked, duration_ms=duration_ms))
        try:
            if self.session is not None:
                return name not in self.session.used([call])
            self.roll.record(self.shown, [call], final=False, reporter=self.reporter)
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
            await self.roll.arecord(self.shown, [call], final=False, reporter=self.reporter)
        except Unavailable as error:
            _log.warning("adapter: the outcome of %s was not recorded: %s", name, error)
            return False
        return True

    def is_suspended(self, error: BaseException) -> bool:
        """Whether the exception only suspends the call, so that it has no outcome yet."""
        return isinstance(error, self._options.suspending)

    @contextmanager
    def call(self, name: str) -> Iterator[CallOutcome]:
        """Reports the outcome and the duration of the call that runs inside; `worked` may be set there.

        An exception counts as a failure, unless `worked` was set to None before, and is raised again. A
        cancelled call has an unknown outcome. If the framework suspends the call by an exception, nothing is
        reported.
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
        """Reports the results of this turn's calls that these messages contain, each once.

        For programs and proxies that see messages and no calls. A failure shows in the result's flag
        (`is_error`, `status`); without a flag, in its text (`adapters.messages.failed_by_text`).

        Returns the names of the tools that were reported.
        """
        outcomes = self._results(messages)
        return tuple([name for name, worked in outcomes if self.report(name, worked)])

    async def areport_results(self, messages: Sequence[Any]) -> tuple[str, ...]:
        """`report_results` for an event loop."""
        outcomes = self._results(messages)
        return tuple([name for name, worked in outcomes if await self.areport(name, worked)])

    def end(self) -> None:
        """Closes the turn: tools without a call now count as not called. A second `end` does nothing.

        An open turn is closed ten minutes after its first report. A closed turn releases its objects, so
        `tools` may return equal objects of an earlier list.
        """
        if self._is_over:
            return
        self._is_over = True
        self.release()
        try:
            if self.session is not None:
                self.session.end_turn()
            elif self._has_reports:
                self.roll.record(self.shown, (), final=True, reporter=self.reporter)
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
                await self.roll.arecord(self.shown, (), final=True, reporter=self.reporter)
        except Unavailable as error:
            _log.warning("adapter: the end of a turn was not recorded: %s", error)

    def _is_checked(self, name: str, unknown: bool) -> bool:
        """Whether offers and policy decide about this name. They do not for tools that are always sent."""
        return name in self.listed.names or (unknown and (not name or name not in self.listed.content))

    def _counts(self, name: str) -> bool:
        if not self._options.learns or name not in self.listed.names:
            return False
        if self.session is None:
            if name not in self.shown:
                return False
            self._has_reports = True
        return True

    def _results(self, messages: Sequence[Any]) -> list[tuple[str, bool | None]]:
        after = last_message(messages, self._options.read_messages).after
        names = {call.call_id: call.name for one in after for call in one.calls if call.call_id}
        found: list[tuple[str, bool | None]] = []
        for at, one in enumerate(after):
            for result in one.results:
                name = result.name or names.get(result.call_id, "")
                mark = result.call_id or f"{at} {name}"
                if name and mark not in self.reported:
                    self.reported.add(mark)
                    found.append((name, result.worked))
        return found


class CallOutcome:
    """The outcome of a call.

    Attributes:
        worked: True by default; set it to False, or to None if that is unknown or not the tool's fault.
    """

    worked: bool | None = True

    def after(self, error: BaseException) -> bool | None:
        """The outcome of a call that ended with this exception."""
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
