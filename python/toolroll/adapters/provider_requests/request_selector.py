"""`RequestSelector`: takes a request's bytes, and returns bytes with fewer tools and a report.

It uses no network. The drop-in proxy and the HTTP client call it.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from toolroll.adapters.agent_turn import AgentTurn
from toolroll.adapters.messages import read_messages
from toolroll.adapters.provider_requests.headers import RequestHeaders
from toolroll.adapters.provider_requests.other_tools import check_beside, check_path, tools_beside
from toolroll.adapters.provider_requests.provider_request import ProviderRequest
from toolroll.adapters.provider_requests.tool_texts import KnownToolTexts
from toolroll.adapters.tool_selector import ToolSelector
from toolroll.formats.providers.request_form import RequestForm
from toolroll.learning.reporters import Reporter
from toolroll.model.argument_checks import items_of
from toolroll.model.context import Context
from toolroll.model.errors import InvalidInput, Unavailable
from toolroll.roll import Toolroll

_log = logging.getLogger("toolroll")
_NO_NAME = re.compile(r"[^A-Za-z0-9_.-]")  # in a header
_MOST_SHOWN, _LONGEST_SHOWN = 5, 64
_UNRECORDED = "request: outcomes were not recorded"

Delivery = Literal["replace", "allow"]


@dataclass(frozen=True, slots=True)
class RequestReport:
    """The effect of a selection on a request.

    Attributes:
        came: the number of tools in the request.
        sent: the number of tools that the model may call now.
        tokens_kept_out: estimated tokens of the schemas left out.
        spent_ms: the time of the selection.
        delivery: how the selected tools are sent.
        has_failed: whether selection failed, so that only policy restricts the tools.
        unjudged: names of hosted tools that were removed because they may bring tools which rules hide.
    """

    came: int
    sent: int
    tokens_kept_out: int
    spent_ms: float
    delivery: Delivery = "replace"
    has_failed: bool = False
    unjudged: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.delivery == "allow":
            return f"{self.came} tools, {self.sent} allowed, {self.spent_ms:.1f} ms"
        effect = "selection failed" if self.has_failed else f"{self.tokens_kept_out:,} tokens kept out"
        shown = [_NO_NAME.sub("", name)[:_LONGEST_SHOWN] for name in self.unjudged[:_MOST_SHOWN]]
        said = f", refused for tools that it does not name: {' '.join(shown)}" if shown else ""
        return f"{self.came}->{self.sent} tools, {effect}, {self.spent_ms:.1f} ms{said}"


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request to send.

    Attributes:
        body: of the request; the received object itself if nothing is changed.
        report: None for a request without tools.
    """

    body: bytes
    report: RequestReport | None = None


@dataclass(frozen=True, slots=True)
class _ToolRequest:
    """A request with tools, its caller and its time.

    Attributes:
        body: the received bytes.
        request: the same, read.
        conversation: its name; None if none is stated.
        started: of `time.perf_counter`.
        has_rules: whether rules apply to the caller.
    """

    body: bytes
    request: ProviderRequest
    conversation: str | None
    context: Context
    started: float
    has_rules: bool

    def arguments(self) -> dict[str, Any]:
        """The arguments of `ToolSelector.turn`."""
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
        unjudged: tuple[str, ...] = (),
    ) -> OutgoingRequest:
        """The request to send, with its report. content: None for the received body."""
        tools = self.request.tools
        spent_ms = (time.perf_counter() - self.started) * 1_000
        report = RequestReport(
            tools.count(tools.items), sent, kept_out, spent_ms, delivery, has_failed, unjudged
        )
        return OutgoingRequest(self.body if content is None else content, report)


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
        allowed: Iterable[str] = (),
    ) -> None:
        """Reads nothing yet.

        Args:
            roll: applies rules, learns and keeps conversations; None for one in memory.
            k: how many tools retrieval finds, as in `Toolroll.select`.
            max_tools: how many tools are sent at most, beside `always_include` and hosted ones.
            always_include: names of tools that are always sent, if they came with the request.
            context: the caller, if `select` gets none.
            delivery: "replace" sends the selected tools. "allow" sends the received list and restricts the
                model to the selected tools, if the provider can do so and the caller has set no restriction.
            learns: whether outcomes are recorded.
            allowed: paths, including all paths below them, and members of bodies that pass without a check of
                their tools, such as "/v1/batches" and "cachedContent".
        """
        if delivery not in ("replace", "allow"):
            raise InvalidInput(f"delivery is {delivery!r:.80}, must be 'replace' or 'allow'")
        self.selector = ToolSelector(
            roll,
            k=k,
            max_tools=max_tools,
            always_include=always_include,
            context=context,
            read_messages=read_messages,  # never fails, so that any request goes on
            learns=learns,
            keeps_places=True,
        )
        self._delivery = delivery
        self._context = context
        self._allowed_unseen = frozenset(items_of(allowed, "allowed", str))
        self._known = KnownToolTexts()

    def check_path(
        self, form: RequestForm | None, path: str, headers: RequestHeaders, context: Context | None = None
    ) -> None:
        """Checks the path of a request that has a body.

        path: as it is sent, percent-encoded, without the query. The others are as in `select`.

        Raises:
            Denied: it may contain tools that are not checked, and rules apply to the caller.
        """
        if self.selector.roll.has_rules(self._context_of(form, headers, context)):
            check_path(form, path, self._allowed_unseen)

    def select(
        self,
        body: bytes,
        form: RequestForm,
        headers: RequestHeaders,
        context: Context | None = None,
        *,
        may_report: bool = True,
        reporter: Reporter | None = None,
    ) -> OutgoingRequest:
        """The body to send in place of this one.

        Args:
            body: the received bytes.
            form: of the request.
            headers: our headers in the request.
            context: the caller; None for the context in the headers, else the selector's.
            may_report: whether outcomes that this caller sends count.
            reporter: of these outcomes; None for the context's user.

        Raises:
            InvalidInput: the body cannot be read, and rules apply to the caller; or the name of the
                conversation is too long.
            Denied: outside its list, it has tools that the caller may not have, or that have no name.
            Unavailable: the rules cannot be applied.
        """
        asked, beside, context = self._read(body, form, headers, context)
        if beside:
            check_beside(self.selector.roll.with_tools(beside), beside, context)
        if asked is None:
            return OutgoingRequest(body)
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
    ) -> OutgoingRequest:
        """`select` for an event loop: waits for an embedder or a store happen in a thread."""
        asked, beside, context = self._read(body, form, headers, context)
        if beside:
            check_beside(await self.selector.roll.awith_tools(beside), beside, context)
        if asked is None:
            return OutgoingRequest(body)
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

    def _read(
        self, body: bytes, form: RequestForm, headers: RequestHeaders, context: Context | None
    ) -> tuple[_ToolRequest | None, list[Any], Context]:
        """The request, or None if it has no tools; the tools outside its list; and the caller."""
        started = time.perf_counter()
        context = self._context_of(form, headers, context)
        has_rules, beside = self.selector.roll.has_rules(context), list[Any]()

        def look(values: Mapping[str, Any]) -> None:
            beside.extend(tools_beside(form, values, self._allowed_unseen))

        try:
            request = ProviderRequest.read(body, form, self._known, look if has_rules else None)
        except (ValueError, RecursionError) as error:
            if has_rules:
                raise InvalidInput(f"the body cannot be read, so rules cannot be applied: {error}") from error
            return None, [], context
        if request is None:
            return None, beside, context
        name = headers.conversation_of(context)
        return _ToolRequest(body, request, name, context, started, has_rules), beside, context

    def _context_of(
        self, form: RequestForm | None, headers: RequestHeaders, context: Context | None
    ) -> Context:
        if context is None and (headers.context or self._context is None):
            context = headers.of_org(str(headers.context.get("org", "")))
        context = self._context if context is None else context
        assert context is not None
        return context if context.provider or form is None else replace(context, provider=form.provider)

    def _changed(self, asked: _ToolRequest, turn: AgentTurn) -> OutgoingRequest:
        """The request with the tools of the turn."""
        if asked.has_rules and turn.is_further and not turn.is_allowed:  # they changed since its first step
            return self._allowed(asked)
        request, items = asked.request, turn.tools
        sent = request.tools.count(items)
        if sent == request.tools.count(request.tools.items):
            return asked.changed(sent)
        if self._delivery == "allow" and request.may_be_restricted:
            visible = turn.roll.visible(turn.context)
            if len(visible) == len(turn.listed.names) and not visible.withheld:
                return asked.changed(sent, request.restricted_to(list(turn.names)), delivery="allow")
        tool_list = turn.shown.turn.tool_list
        unjudged = () if tool_list is None else tool_list.unjudged
        content = request.with_tools(items)
        return asked.changed(sent, content, kept_out=turn.shown.tokens.saved, unjudged=unjudged)

    def _after_failure(self, asked: _ToolRequest) -> OutgoingRequest:
        """The request after selection raised an error, which is logged."""
        _log.exception("request: selection failed, all tools that policy allows are sent")
        return self._allowed(asked, has_failed=True)

    def _allowed(self, asked: _ToolRequest, *, has_failed: bool = False) -> OutgoingRequest:
        """The request with all tools that policy allows."""
        request, context, roll = asked.request, asked.context, self.selector.roll
        came = request.tools.count(request.tools.items)
        if not (roll.has_rules(context) or context.exclude or context.only):
            return asked.changed(came, has_failed=has_failed)
        try:
            visible = roll.with_tools(request.tools.items).visible(replace(context, provider=""))
            items = visible.tools
            sent = request.tools.count(items)
            content = request.with_tools(items) if sent < came else None
        except Exception as error:
            raise Unavailable("the rules cannot be applied to the tools of the request") from error
        return asked.changed(sent, content, has_failed=has_failed, unjudged=visible.unjudged)
