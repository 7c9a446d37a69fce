"""How a selection reaches the model: the fields to put into the provider's request.

There are four ways. **replace** sends the selected tools. **allow** sends every tool that the caller may see,
byte for byte the same on each turn, and restricts the model to the selected ones. **defer** keeps them out of
the prompt until the model searches. **meta-tools** sends a few constant tools with which the model searches
and calls. All but the first keep the provider's prompt cache, which any change in the list invalidates.

Pure: the fields depend on the offer alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from toolroll._core import Bitset, copy_containers
from toolroll.catalog.catalog import Catalog
from toolroll.formats.meta_tools import CALL_TOOL, MANAGE_TOOLS, SEARCH_TOOLS
from toolroll.formats.providers import How, Provider, names_with, provider_of
from toolroll.formats.providers.form import names_of, tools_of
from toolroll.formats.providers.provider import is_replaced
from toolroll.formats.schemas import PLAIN, Form, SentTool, SentTools, provider_name, sent_tools
from toolroll.formats.schemas.conversion import json_text
from toolroll.formats.schemas.requests import answer_search, required
from toolroll.model.argument_checks import check_flag
from toolroll.model.arrays import Rows, Scores
from toolroll.model.context import Context
from toolroll.model.errors import InvalidInput, NotFound, quoted
from toolroll.model.tools import Tool
from toolroll.selection.calls import Calls, DeliveryRecord, check_call

__all__ = ["Delivery", "Offer", "answer_search", "deliver"]

_DEFAULT_META: Mapping[How, tuple[Tool, ...]] = {
    "replace": (),
    "allow": (),
    "defer": (SEARCH_TOOLS,),
    "meta-tools": (SEARCH_TOOLS, CALL_TOOL),
}


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """The tools that one turn can send to a model.

    Attributes:
        catalog: the catalog of the rows.
        allowed: rows that this caller may see.
        rows: int32[n], the selected ones, in order.
        scores: float32[n], aligned with rows.
        is_required: whether the caller named the tools.
        calls: the policy and conversation for `Delivery.check`.
        loading: whether `manage_tools` may be sent.
    """

    catalog: Catalog
    allowed: Bitset
    rows: Rows
    scores: Scores
    is_required: bool
    context: Context
    calls: Calls
    event_id: str = ""
    loading: bool = True

    @property
    def definitions(self) -> tuple[Tool, ...]:
        """The selected tools, in order."""
        tools = self.catalog.tools
        return tuple([tools[row] for row in self.rows.tolist()])

    def core(self) -> Iterable[str]:
        """Names of the core tools; of the required tools if the caller named them."""
        catalog = self.catalog
        rows = self.rows.tolist() if self.is_required else (*catalog.base.tolist(), *catalog.pinned.tolist())
        return [catalog.tools[row].name for row in rows]


@dataclass(frozen=True, eq=False)
class Delivery:
    """One turn's fields of a request, and what the model may then call.

    Attributes:
        provider, how: the arguments of `Selection.deliver`.
        allowed: own names of the tools that the model may call at once, meta-tools among them.
        left_out: own names of tools that could not be sent: a meta-tool has their name, or the provider takes
            no more.
    """

    provider: str
    how: How
    allowed: frozenset[str]
    left_out: tuple[str, ...]
    _sent: SentTools = field(repr=False)
    _choice: Mapping[str, Any] = field(repr=False)  # the fields of the request beside the tools
    _names: Mapping[str, str] = field(repr=False)  # sent name → own name, for every tool in the list
    _offer: Offer = field(repr=False)
    _meta: tuple[Tool, ...] = field(repr=False)

    @cached_property
    def request(self) -> dict[str, Any]:
        """Fields to merge into the request. The caller may change them.

        ``tools`` and, for a restriction, ``tool_choice`` or Gemini's ``tool_config``; empty if there is
        no tool.
        """
        return {"tools": self._sent.schemas(), **copy_containers(self._choice)} if self._sent else {}

    @property
    def request_json(self) -> bytes:
        """The fields of `request` as compact JSON in UTF-8, for a program that writes the request itself.

        Raises:
            InvalidInput: a tool holds an object that JSON does not have.
        """
        if not self._sent:
            return b"{}"
        parts = [b'{"tools":', self._sent.text()]
        if self._choice:
            choice = json_text(self._choice)
            assert choice is not None
            parts += [b",", choice[1:]]
        else:
            parts.append(b"}")
        return b"".join(parts)

    def own_name(self, sent: str) -> str:
        """The own name of the tool that the model called by `sent`.

        A tool that the model found by a search is known by both of its names.

        Raises:
            NotFound: no tool that this caller may see has such a name.
        """
        if isinstance(sent, str) and (own := self._names.get(sent)) is not None:
            return own
        if isinstance(sent, str) and self.how in ("defer", "meta-tools"):
            catalog, visible = self._offer.catalog, self._offer.allowed
            if is_replaced(sent):  # rare, and the only case that reads every tool; no tool's own name
                for row in visible.rows().tolist():
                    name: str = catalog.tools[row].name
                    if provider_name(name, self.provider) == sent:
                        return name
            else:
                row = catalog.names.get(sent)
                if row is not None and row in visible:
                    return sent
        raise NotFound(f"tool {quoted(sent)}: is not among the tools that {self.provider} was sent")

    def sent_name(self, own: str) -> str:
        """The name that this provider gets for the tool."""
        if not isinstance(own, str):
            raise InvalidInput(f"own: is {quoted(own)}, must be the name of a tool")
        for sent, name in self._names.items():
            if name == own:
                return sent
        return provider_name(own, self.provider)

    def check(self, sent: str) -> Tool:
        """The tool, or meta-tool, that the model may call under this name.

        The tool must have been sent, or found or loaded by the conversation since. The newest policy must
        allow it.

        Raises:
            Denied: the tool does not exist, was not offered, or is no longer allowed by policy.
        """
        offer = self._offer
        return check_call(sent, offer.context, self._shown, offer.calls, self.meta_tools, offer.event_id)

    @cached_property
    def record(self) -> DeliveryRecord:
        """How the selection reached the model."""
        return DeliveryRecord(self.provider, self.how, tuple(self._shown), tuple(self.meta_tools.values()))

    @cached_property
    def meta_tools(self) -> Mapping[str, Tool]:
        """Name → meta-tool that was sent."""
        return {tool.name: tool for tool in self._meta if tool.name in self.allowed} if self._meta else {}

    @cached_property
    def _shown(self) -> dict[str, None]:
        """Own names of the tools that the model may call at once: the selected ones in order, then others."""
        shown = self.allowed.difference(self.meta_tools) if self._meta else self.allowed
        tools = self._offer.catalog.tools
        names = [tools[row].name for row in self._offer.rows.tolist()]
        if shown != {*names}:
            names = [name for name in names if name in shown]
            names += sorted(shown.difference(names))
        return dict.fromkeys(names)


def deliver(
    offer: Offer,
    provider: str,
    how: How = "replace",
    *,
    core: Collection[str] | None = None,
    meta_tools: Iterable[Tool] | None = None,
    must_call: bool = False,
    form: Form = PLAIN,
) -> Delivery:
    """The delivery of an offer; `Selection.deliver` documents the arguments and errors."""
    target = provider_of(provider)
    check_flag(must_call, "must_call")
    if not isinstance(how, str) or how not in target.hows:
        can = names_with(lambda other: isinstance(how, str) and how in other.hows)
        others = f"; {how!r} is for {', '.join(can)}" if can else ""
        raise InvalidInput(f"how is {quoted(how)}, must be {_either(target.hows)} for {provider}{others}")
    if must_call and target.require is None:
        raise InvalidInput(
            f"must_call is True, must be False for {provider}: nothing makes its model call a tool"
        )
    meta = _DEFAULT_META[how] if meta_tools is None else tools_of(meta_tools, "meta_tools")
    if how == "defer" and all(tool.name != SEARCH_TOOLS.name for tool in meta):
        meta = (SEARCH_TOOLS, *meta)
    if not offer.loading:
        meta = tuple([tool for tool in meta if tool.name != MANAGE_TOOLS.name])
    always = None if core is None else names_of(core, "core")
    request = _DeliveryRequest(offer, target, how, meta, always, must_call, form)
    if how == "replace":
        return request.replace()
    if how == "allow":
        return request.restrict()
    return request.defer() if how == "defer" else request.send(*request.visible_core())


@dataclass(frozen=True, slots=True)
class _DeliveryRequest:
    """The arguments of one delivery, with a method for each way to deliver.

    Attributes:
        meta: tools in front of all others. A catalog tool with the name of one of them is left out.
        core_names: own names of the core tools; None for the offer's core.
    """

    offer: Offer
    target: Provider
    how: How
    meta: tuple[Tool, ...]
    core_names: frozenset[str] | None
    must_call: bool
    form: Form

    @property
    def core(self) -> frozenset[str]:
        """Own names of the core tools."""
        return frozenset(self.offer.core()) if self.core_names is None else self.core_names

    def replace(self) -> Delivery:
        """Sends the selected tools. If the provider takes fewer, sends the core and the best by score."""
        tools, left_out = self.split(self.offer.definitions)
        most = self.target.most_tools
        if most is not None and len(tools) > most - len(self.meta):
            selected = zip(self.offer.definitions, self.offer.scores.tolist(), strict=True)
            scores = {tool.name: score for tool, score in selected}
            core = self.core
            best = sorted(tools, key=lambda tool: (tool.name not in core, -scores[tool.name]))
            kept = {tool.name for tool in best[: max(most - len(self.meta), 0)]}
            left_out += tuple(tool.name for tool in tools if tool.name not in kept)
            tools = tuple(tool for tool in tools if tool.name in kept)
        return self.send(tools, left_out)

    def send(self, tools: tuple[Tool, ...], left_out: tuple[str, ...]) -> Delivery:
        """Sends these tools; the model may call all of them."""
        self.check_number(len(self.meta) + len(tools))
        sent = sent_tools((*self.meta, *tools), self.target.name, self.form)
        names = sent.names
        choice = required(self.target.name) if self.must_call else {}
        return self.delivery(sent, choice, names.values(), names, left_out)

    def restrict(self) -> Delivery:
        """Sends all visible tools; the model may call the selected ones."""
        self.check_number(len(self.meta) + len(self.offer.allowed))
        sent, names, left_out = self.whole()
        if not sent:
            return self.delivery(sent, {}, (), names, left_out)
        selected = {tool.name for tool in self.offer.definitions}
        offered = selected.difference(left_out) | {tool.name for tool in self.meta}
        called = [name for name, own in names.items() if own in offered]
        assert self.target.restrict is not None
        choice = self.target.restrict(called, self.must_call)
        return self.delivery(sent, choice, offered, names, left_out)

    def defer(self) -> Delivery:
        """Sends all tools, most deferred; or only the core, if a search's answer brings the others."""
        search = self.target.search
        assert search is not None
        if not self.offer.allowed:
            return self.delivery(SentTools(self.target.name, ()), {}, (), {}, ())
        core, left_out = self.visible_core()
        listed = [*self.meta, *core]
        self.check_number(len(listed))
        if search.sends_all:
            self.check_number(len(self.offer.allowed) - len(core), is_deferred=True)
            sent, names, left_out = self.whole(core)
        else:
            plain = sent_tools(listed, self.target.name, self.form)
            names = plain.names
            sent = (
                plain
                if search.tool is None
                else plain._replace(items=[_as_search(item, search.tool) for item in plain.items])
            )
        choice = required(self.target.name) if self.must_call else {}
        return self.delivery(sent, choice, (tool.name for tool in listed), names, left_out)

    def whole(
        self, core: tuple[Tool, ...] | None = None
    ) -> tuple[SentTools, Mapping[str, str], tuple[str, ...]]:
        """All visible tools in catalog order, their sent names, and the names of the tools left out.

        They are the same on each turn, so each catalog makes them once. core: these tools come first, and all
        others are deferred.
        """
        rows = self.offer.allowed.rows()
        core_names = None if core is None else tuple([tool.name for tool in core])
        meta = tuple([(tool.name, id(tool)) for tool in self.meta])

        def make() -> tuple[SentTools, Mapping[str, str], tuple[str, ...], tuple[Tool, ...]]:
            tools = self.offer.catalog.tools
            visible, left_out = self.split(tuple(tools[row] for row in rows.tolist()))
            front = (*self.meta, *(core or ()))
            loaded = {tool.name for tool in front}
            behind = [tool for tool in visible if tool.name not in loaded]
            hidden = () if core is None else frozenset(tool.name for tool in behind)
            sent = sent_tools([*front, *behind], self.target.name, self.form, hidden)
            sent.text()  # raises an error that names the tool
            return sent, sent.names, left_out, self.meta

        key = (self.target.name, self.form, meta, core_names, rows.tobytes())
        sent, names, left_out, _ = self.offer.catalog.remembered(key, make)
        return sent, names, left_out

    def visible_core(self) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
        """The core tools that this caller may see, in catalog order, and the names of the tools left out."""
        catalog, allowed = self.offer.catalog, self.offer.allowed
        rows = sorted(catalog.names[name] for name in self.core if name in catalog.names)
        return self.split(tuple(catalog.tools[row] for row in rows if row in allowed))

    def split(self, tools: tuple[Tool, ...]) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
        """The tools whose names no meta-tool has, and the names of the other tools."""
        if not self.meta:
            return tools, ()
        taken = {provider_name(tool.name, self.target.name) for tool in self.meta}
        is_out = [provider_name(tool.name, self.target.name) in taken for tool in tools]
        return (
            tuple(tool for tool, out in zip(tools, is_out, strict=True) if not out),
            tuple(tool.name for tool, out in zip(tools, is_out, strict=True) if out),
        )

    def check_number(self, count: int, *, is_deferred: bool = False) -> None:
        most = self.target.most_deferred if is_deferred else self.target.most_tools
        if most is None or count <= most:
            return
        advice = "name fewer core or meta-tools"
        if is_deferred:
            advice = "use how='meta-tools', or narrow the context"
        elif self.how == "allow":
            advice = "use how='replace' or 'meta-tools', or narrow the context"
        raise InvalidInput(
            f"how={self.how!r} would {'defer' if is_deferred else 'send'} {count} tools, "
            f"{self.target.name} takes {most}: {advice}"
        )

    def delivery(
        self,
        sent: SentTools,
        choice: Mapping[str, Any],
        allowed: Iterable[str],
        names: Mapping[str, str],
        left_out: tuple[str, ...],
    ) -> Delivery:
        return Delivery(
            self.target.name,
            self.how,
            frozenset(allowed),
            left_out,
            sent,
            choice,
            names,
            self.offer,
            self.meta,
        )


def _as_search(item: SentTool, search: Callable[[Mapping[str, Any]], dict[str, Any]]) -> SentTool:
    """The item; for our search tool, the provider's own search."""
    if item.name != SEARCH_TOOLS.name:
        return item
    schema = search(item.schema)
    return item._replace(schema=schema, text=json_text(schema))


def _either(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
