"""How a selection reaches the model: the fields to put into the provider's request.

Four ways. **replace** sends the selected tools. **allow** sends every tool that the caller may see, byte
for byte the same on each turn, and restricts the model to the selected ones. **defer** sends them out of
the prompt, and answers the model's search. **meta-tools** sends a constant few with which the model asks.
All but the first keep the provider's prompt cache, which any change in the list of tools throws away.

Pure: what is made depends on the offer alone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from toolroll._core import Bitset
from toolroll.arrays import Rows, Scores
from toolroll.catalog.catalog import Catalog
from toolroll.errors import Denied, InvalidInput, NotFound
from toolroll.formats.meta_tools import CALL_TOOL, SEARCH_TOOLS
from toolroll.formats.providers import PROVIDERS, How, Provider, provider_of
from toolroll.formats.schemas import PLAIN, Form, convert_all, provider_name
from toolroll.formats.schemas.form import names_of, tools_of
from toolroll.formats.schemas.names import is_replaced
from toolroll.formats.schemas.requests import answer_search, client_search, only, required
from toolroll.tools import Tool

__all__ = ["Delivery", "Offer", "answer_search", "deliver"]

_DEFAULT_META: Mapping[How, tuple[Tool, ...]] = {
    "replace": (),
    "allow": (),
    "defer": (SEARCH_TOOLS,),
    "meta-tools": (SEARCH_TOOLS, CALL_TOOL),
}


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """What one turn has for a model.

    Attributes:
        catalog: what the rows mean.
        allowed: rows that this caller may see.
        rows: int32[n], the selected ones, in order.
        scores: float32[n], aligned with rows.
        is_required: whether the caller named the tools.
    """

    catalog: Catalog
    allowed: Bitset
    rows: Rows
    scores: Scores
    is_required: bool

    @property
    def definitions(self) -> tuple[Tool, ...]:
        """The selected tools, in order."""
        tools = self.catalog.tools
        return tuple([tools[row] for row in self.rows.tolist()])

    def core(self) -> Iterable[str]:
        """Names of what is pinned or of a base toolkit; of the required tools where the caller named them."""
        catalog = self.catalog
        rows = self.rows.tolist() if self.is_required else (*catalog.base.tolist(), *catalog.pinned.tolist())
        return [catalog.tools[row].name for row in rows]


@dataclass(frozen=True, eq=False)
class Delivery:
    """One turn's fields of a request, and what the model may then call.

    Attributes:
        provider, how: as asked for.
        request: fields to merge into the request: ``tools`` and, where something restricts them,
            ``tool_choice`` or Gemini's ``tool_config``; empty where there is no tool. The caller's to change.
        allowed: own names of the tools that the model may call at once, meta-tools among them.
        left_out: own names of tools that could not be sent: a meta-tool has their name, or the provider takes
            no more.
    """

    provider: str
    how: How
    request: dict[str, Any] = field(repr=False)
    allowed: frozenset[str]
    left_out: tuple[str, ...]
    _names: Mapping[str, str] = field(repr=False)  # as sent → own, of every tool in the list
    _offer: Offer = field(repr=False)
    _meta: tuple[Tool, ...] = field(repr=False)

    def own_name(self, sent: str) -> str:
        """The tool's own name for the one that the model called.

        A tool outside the list, to which a search has led the model, is known by either of its names.

        Raises:
            NotFound: no tool that this caller may see has such a name.
        """
        if isinstance(sent, str) and (own := self._names.get(sent)) is not None:
            return own
        if isinstance(sent, str) and self.how in ("defer", "meta-tools"):
            catalog, visible = self._offer.catalog, self._offer.allowed
            if is_replaced(sent):  # rare, and the only case that looks at every tool; nobody's own name
                for row in visible.rows().tolist():
                    name: str = catalog.tools[row].name
                    if provider_name(name, self.provider) == sent:
                        return name
            else:
                row = catalog.names.get(sent)
                if row is not None and visible.holds(np.array([row], np.int32))[0]:
                    return sent
        raise NotFound(f"tool {sent!r:.200}: is not among the tools that {self.provider} was told of")

    def check(self, sent: str) -> Tool:
        """The tool, or meta-tool, that the model may call at once under this name.

        The session knows what a search has found since.

        Raises:
            Denied: it was not offered, or there is no such tool.
        """
        own = self._names.get(sent, "") if isinstance(sent, str) else ""
        if own not in self.allowed:
            raise Denied(
                f"tool {sent!r:.200}: was not offered in this turn; "
                f"offered: {', '.join(sorted(self.allowed)) or 'none'}"
            )
        for tool in self._meta:  # a tool of the catalog that has the name of one is left out
            if tool.name == own:
                return tool
        return self._offer.catalog.tools[self._offer.catalog.names[own]]


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
    """What to send for a selection; `Selection.deliver` has the arguments and the errors."""
    target = provider_of(provider)
    if how not in target.hows:
        can = [name for name, other in PROVIDERS.items() if how in other.hows]
        others = f"; {how!r} is for {', '.join(can)}" if can else ""
        raise InvalidInput(f"how is {how!r:.80}, must be {_either(target.hows)} for {provider}{others}")
    if must_call and provider == "mcp":
        raise InvalidInput("must_call is True, must be False for mcp: a server has no say in what is called")
    meta = _DEFAULT_META[how] if meta_tools is None else tools_of(meta_tools, "meta_tools")
    if how == "defer" and all(tool.name != SEARCH_TOOLS.name for tool in meta):
        meta = (SEARCH_TOOLS, *meta)
    always = frozenset(offer.core()) if core is None else names_of(core, "core")
    plan = _Plan(offer, target, how, meta, always)
    if how == "replace":
        return plan.replaced(must_call, form)
    if how == "allow":
        return plan.restricted(must_call, form)
    if how == "defer":
        return plan.deferred(must_call, form)
    return plan.asking(must_call, form)


@dataclass(frozen=True, slots=True)
class _Plan:
    """One delivery in the making.

    Attributes:
        meta: tools in front of all others; a tool of the catalog that has the name of one is left out.
        core: own names of the tools that every turn has.
    """

    offer: Offer
    target: Provider
    how: How
    meta: tuple[Tool, ...]
    core: frozenset[str]

    def replaced(self, must_call: bool, form: Form) -> Delivery:
        picked, left_out = self.apart(self.offer.definitions)
        if self.target.most_tools is not None:
            picked, no_room = self.within(picked, self.target.most_tools - len(self.meta))
            left_out += no_room
        return self.plain([*self.meta, *picked], left_out, must_call, form)

    def asking(self, must_call: bool, form: Form) -> Delivery:
        core, left_out = self.apart(self.core_tools())
        return self.plain([*self.meta, *core], left_out, must_call, form)

    def plain(self, listed: list[Tool], left_out: tuple[str, ...], must_call: bool, form: Form) -> Delivery:
        """A list of which all may be called."""
        self.check_number(len(listed))
        tools, names = convert_all(listed, self.target.name, form)
        request: dict[str, Any] = {"tools": tools} if tools else {}
        if must_call and tools:
            request |= required(self.target.name)
        return self.made(request, names.values(), names, left_out)

    def restricted(self, must_call: bool, form: Form) -> Delivery:
        self.check_number(len(self.meta) + len(self.offer.allowed))
        tools, names, left_out = self.whole(form)
        if not tools:
            return self.made({}, (), names, left_out)
        selected = {tool.name for tool in self.offer.definitions}
        offered = selected.difference(left_out) | {tool.name for tool in self.meta}
        sent = [name for name, own in names.items() if own in offered]
        request = {"tools": tools, **only(self.target.name, sent, must_call)}
        return self.made(request, offered, names, left_out)

    def deferred(self, must_call: bool, form: Form) -> Delivery:
        """For Anthropic all tools, most out of the prompt; OpenAI gets those it finds with the answer."""
        if not self.offer.allowed:
            return self.made({}, (), {}, ())
        core, left_out = self.apart(self.core_tools())
        listed = [*self.meta, *core]
        self.check_number(len(listed))
        loaded = frozenset(tool.name for tool in listed)
        if self.target.name == "anthropic":
            self.check_number_deferred(len(self.offer.allowed) - len(core))
            tools, names, left_out = self.whole(form, tuple(core))
        else:
            tools, names = convert_all(listed, self.target.name, form)
            tools = [client_search(tool) if tool["name"] == SEARCH_TOOLS.name else tool for tool in tools]
        request = {"tools": tools, **(required(self.target.name) if must_call else {})}
        return self.made(request, loaded, names, left_out)

    def whole(
        self, form: Form, core: tuple[Tool, ...] | None = None
    ) -> tuple[list[dict[str, Any]], Mapping[str, str], tuple[str, ...]]:
        """All tools that this caller may see, in catalog order, their sent names, and who was left out.

        The same on each turn, so it is made once for a catalog and read from its text after that. core: these
        in front, and all others deferred.
        """
        rows = self.offer.allowed.rows()
        fronted = None if core is None else tuple(tool.name for tool in core)
        meta = tuple((tool.name, id(tool)) for tool in self.meta)

        def make() -> tuple[str, Mapping[str, str], tuple[str, ...], tuple[Tool, ...]]:
            tools = self.offer.catalog.tools
            visible, left_out = self.apart(tuple(tools[row] for row in rows.tolist()))
            front = (*self.meta, *(core or ()))
            loaded = {tool.name for tool in front}
            behind = [tool for tool in visible if tool.name not in loaded]
            hidden = () if core is None else frozenset(tool.name for tool in behind)
            listed, names = convert_all([*front, *behind], self.target.name, form, hidden)
            try:
                text = json.dumps(listed, default=dict)
            except (TypeError, ValueError, RecursionError) as error:
                raise InvalidInput(f"tools: cannot be written as JSON: {error}") from error
            return text, names, left_out, self.meta

        key = (self.target.name, form, meta, fronted, rows.tobytes())
        text, names, left_out, _ = self.offer.catalog.remembered(key, make)
        return json.loads(text), names, left_out

    def core_tools(self) -> tuple[Tool, ...]:
        """Those of the core that this caller may see, in catalog order."""
        catalog = self.offer.catalog
        rows = np.array(sorted(catalog.names[name] for name in self.core if name in catalog.names), np.int32)
        kept = rows[self.offer.allowed.holds(rows)] if len(rows) else rows
        return tuple(catalog.tools[row] for row in kept.tolist())

    def apart(self, tools: tuple[Tool, ...]) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
        """The tools that no meta-tool keeps from their name, and the names of the others."""
        if not self.meta:
            return tools, ()
        taken = {provider_name(tool.name, self.target.name) for tool in self.meta}
        is_out = [provider_name(tool.name, self.target.name) in taken for tool in tools]
        return (
            tuple(tool for tool, out in zip(tools, is_out, strict=True) if not out),
            tuple(tool.name for tool, out in zip(tools, is_out, strict=True) if out),
        )

    def within(self, tools: tuple[Tool, ...], room: int) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
        """The core and the best by score, in their order, and the names of those that find no room."""
        if len(tools) <= room:
            return tools, ()
        scores = {
            tool.name: score
            for tool, score in zip(self.offer.definitions, self.offer.scores.tolist(), strict=True)
        }
        best = sorted(tools, key=lambda tool: (tool.name not in self.core, -scores[tool.name]))
        kept = {tool.name for tool in best[: max(room, 0)]}
        return (
            tuple(tool for tool in tools if tool.name in kept),
            tuple(tool.name for tool in tools if tool.name not in kept),
        )

    def check_number(self, count: int) -> None:
        most = self.target.most_tools
        if most is not None and count > most:
            advice = {"allow": "use how='replace' or 'meta-tools', or narrow the context"}
            raise InvalidInput(
                f"how={self.how!r} would send {count} tools, {self.target.name} takes {most}: "
                f"{advice.get(self.how, 'name fewer core or meta-tools')}"
            )

    def check_number_deferred(self, count: int) -> None:
        most = self.target.most_deferred
        if most is not None and count > most:
            raise InvalidInput(
                f"how='defer' would defer {count} tools, {self.target.name} takes {most}: "
                "use how='meta-tools', or narrow the context"
            )

    def made(
        self,
        request: dict[str, Any],
        allowed: Iterable[str],
        names: Mapping[str, str],
        left_out: tuple[str, ...],
    ) -> Delivery:
        return Delivery(
            self.target.name, self.how, request, frozenset(allowed), left_out, names, self.offer, self.meta
        )


def _either(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
