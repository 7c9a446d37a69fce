"""`RequestSelector`: the bytes of a request in, the bytes with fewer tools out, and a report.

It knows no network. The drop-in proxy and the HTTP client call it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from toolroll.adapters.agent_turn import AgentTurn
from toolroll.adapters.messages import read_messages
from toolroll.adapters.provider_requests.forms import RequestForm
from toolroll.adapters.provider_requests.headers import RequestHeaders
from toolroll.adapters.provider_requests.provider_request import ProviderRequest
from toolroll.adapters.provider_requests.tool_texts import KnownToolTexts
from toolroll.adapters.tool_selector import ToolSelector
from toolroll.context import Context
from toolroll.errors import InvalidInput, Unavailable
from toolroll.learning.reporters import Reporter
from toolroll.roll import Toolroll

_log = logging.getLogger("toolroll")
_UNRECORDED = "request: outcomes were not recorded"

Delivery = Literal["replace", "allow"]


@dataclass(frozen=True, slots=True)
class RequestReport:
    """What was done to a request.

    Attributes:
        came: tools in it.
        sent: tools that the model may call now.
        tokens_kept_out: of schemas, by estimate.
        spent_ms: time that it took.
        delivery: how the selected tools are sent.
        has_failed: whether selection failed, so that only policy counts.
    """

    came: int
    sent: int
    tokens_kept_out: int
    spent_ms: float
    delivery: Delivery = "replace"
    has_failed: bool = False

    def __str__(self) -> str:
        if self.delivery == "allow":
            return f"{self.came} tools, {self.sent} allowed, {self.spent_ms:.1f} ms"
        effect = "selection failed" if self.has_failed else f"{self.tokens_kept_out:,} tokens kept out"
        return f"{self.came}->{self.sent} tools, {effect}, {self.spent_ms:.1f} ms"


@dataclass(frozen=True, slots=True)
class Changed:
    """A request to send.

    Attributes:
        body: of the request; the very object that came if nothing is changed.
        report: None for a request without tools.
    """

    body: bytes
    report: RequestReport | None = None


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request with tools, and who asks since when.

    Attributes:
        body, request: as it came, and as it is read.
        conversation: its name; None where none is stated.
        begun: of `time.perf_counter`.
    """

    body: bytes
    request: ProviderRequest
    conversation: str | None
    context: Context
    begun: float

    def arguments(self) -> dict[str, Any]:
        """Of `ToolSelector.turn`."""
        return {
            "tools": self.request.tools.items,
            "messages": self.request.messages,
            "conversation": self.conversation,
            "context": self.context,
            "always_include": (*self.request.chosen, *self.request.tools.repeated),
        }

    def changed(
        self,
        sent: int,
        content: bytes | None = None,
        *,
        kept_out: int = 0,
        delivery: Delivery = "replace",
        has_failed: bool = False,
    ) -> Changed:
        """The request to send, with its report. content: None for the body as it came."""
        tools = self.request.tools
        spent_ms = (time.perf_counter() - self.begun) * 1_000
        report = RequestReport(tools.count(tools.items), sent, kept_out, spent_ms, delivery, has_failed)
        return Changed(self.body if content is None else content, report)


class RequestSelector:
    """Selects from the tools in the requests of any provider's client. Safe to share between threads.

    Outcomes are read from the results of calls in later requests. If selection fails, the request keeps all
    tools that the rules allow.
    """

    def __init__(
        self,
        roll: Toolroll | None = None,
        *,
        k: int | None = None,
        max_tools: int | None = None,
        always_include: Iterable[str] = (),
        context: Context | None = None,
        delivery: Delivery = "replace",
        learns: bool = True,
    ) -> None:
        """Reads nothing yet.

        Args:
            roll: whose rules apply, which learns, and which keeps conversations; None for one in memory.
            k: how many tools retrieval finds, as in `Toolroll.select`.
            max_tools: how many tools are sent at the most, beside `always_include` and hosted ones.
            always_include: names of tools that are always sent, if they came with the request.
            context: who asks, where the caller of `select` does not say.
            delivery: "replace" sends the selected tools. "allow" sends the list as it came and restricts the
                model to the selected tools, where the provider can and the caller has not done so.
            learns: whether outcomes are recorded.
        """
        if delivery not in ("replace", "allow"):
            raise InvalidInput(f"delivery is {delivery!r:.80}, must be 'replace' or 'allow'")
        self.selector = ToolSelector(
            roll,
            k=k,
            max_tools=max_tools,
            always_include=always_include,
            context=context,
            read_messages=read_messages,  # a request goes on whatever it holds
            learns=learns,
            keeps_places=True,
        )
        self._delivery = delivery
        self._context = context
        self._known = KnownToolTexts()

    def select(
        self,
        body: bytes,
        form: RequestForm,
        headers: RequestHeaders,
        context: Context | None = None,
        *,
        may_report: bool = True,
        reporter: Reporter | None = None,
    ) -> Changed:
        """The body to send in place of this one.

        Args:
            body: as it came.
            form: of the request.
            headers: what our headers in the request say.
            context: who asks; None for that of the headers, else the selector's.
            may_report: whether outcomes that this caller sends count.
            reporter: who reports them; None for the context's user.

        Raises:
            InvalidInput: the body cannot be read, and there are rules that it might break; or the name of
                the conversation is too long.
            Unavailable: the rules cannot be applied.
        """
        asked = self._asked(body, form, headers, context)
        if asked is None:
            return Changed(body)
        try:
            if not asked.request.asks:
                return self._allowed(asked)
            turn = self.selector.turn(**asked.arguments(), reporter=reporter)
            changed = self._changed(asked, turn)
        except Exception:
            return self._after_failure(asked)
        if may_report:
            try:
                turn.report_results(asked.request.messages)
            except Exception:
                _log.exception(_UNRECORDED)
        return changed

    async def aselect(
        self,
        body: bytes,
        form: RequestForm,
        headers: RequestHeaders,
        context: Context | None = None,
        *,
        may_report: bool = True,
        reporter: Reporter | None = None,
    ) -> Changed:
        """`select` for an event loop: an embedder or a store that waits does so in a thread."""
        asked = self._asked(body, form, headers, context)
        if asked is None:
            return Changed(body)
        try:
            if not asked.request.asks:
                return self._allowed(asked)
            turn = await self.selector.aturn(**asked.arguments(), reporter=reporter)
            changed = self._changed(asked, turn)
        except Exception:
            return self._after_failure(asked)
        if may_report:
            try:
                await turn.areport_results(asked.request.messages)
            except Exception:
                _log.exception(_UNRECORDED)
        return changed

    def _asked(
        self, body: bytes, form: RequestForm, headers: RequestHeaders, context: Context | None
    ) -> _Asked | None:
        """The request; None where there is nothing to select from."""
        begun = time.perf_counter()
        context = self._context_of(form, headers, context)
        try:
            request = ProviderRequest.read(body, form, self._known)
        except (ValueError, RecursionError) as error:
            if self.selector.roll.has_rules(context):
                raise InvalidInput(f"the body cannot be read, so rules cannot be applied: {error}") from error
            return None
        if request is None:
            return None
        return _Asked(body, request, headers.conversation_of(context), context, begun)

    def _context_of(self, form: RequestForm, headers: RequestHeaders, context: Context | None) -> Context:
        if context is None and (headers.context or self._context is None):
            context = headers.of_org(str(headers.context.get("org", "")))
        context = self._context if context is None else context
        assert context is not None
        return context if context.provider else replace(context, provider=form.provider)

    def _changed(self, asked: _Asked, turn: AgentTurn) -> Changed:
        """The request with the tools of the turn."""
        request, items = asked.request, turn.tools
        sent = request.tools.count(items)
        if sent == request.tools.count(request.tools.items):
            return asked.changed(sent)
        if self._delivery == "allow" and request.may_be_restricted:
            visible = turn.roll.visible(turn.context)
            if len(visible) == len(turn.listed.names):
                return asked.changed(sent, request.restricted_to(list(turn.names)), delivery="allow")
        content = request.with_tools(items, turn.listed.names.difference(turn.names))
        return asked.changed(sent, content, kept_out=turn.shown.tokens.saved)

    def _after_failure(self, asked: _Asked) -> Changed:
        """The request where selection has raised an error, which is logged."""
        _log.exception("request: selection failed, all tools that policy allows are sent")
        return self._allowed(asked, has_failed=True)

    def _allowed(self, asked: _Asked, *, has_failed: bool = False) -> Changed:
        """The request with all tools that policy allows."""
        request, context, roll = asked.request, asked.context, self.selector.roll
        came = request.tools.count(request.tools.items)
        if not (roll.has_rules(context) or context.exclude or context.only):
            return asked.changed(came, has_failed=has_failed)
        try:
            over = roll.with_tools(request.tools.items)
            selection = over.preview("", replace(context, everything=True, provider=""))
            sent = request.tools.count(selection.tools)
            content = None
            if sent < came:
                gone = frozenset(over.catalog.names).difference(selection.names)
                content = request.with_tools(selection.tools, gone)
        except Exception as error:
            raise Unavailable("the rules cannot be applied to the tools of the request") from error
        return asked.changed(sent, content, has_failed=has_failed)
