"""One request to a provider: its tools and conversation, and its text with other tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from toolroll.adapters.messages import read_message
from toolroll.adapters.provider_requests.json_spans import (
    Item,
    Member,
    after_space,
    object_members,
    read_value,
    with_members,
)
from toolroll.adapters.provider_requests.tool_texts import KnownToolTexts, ToolTexts
from toolroll.formats.providers import provider_of
from toolroll.formats.providers.request_form import RequestForm

_MOST_VALUES = 4_000_000  # of a body: each takes about a hundred bytes, and two or three of the body


@dataclass(frozen=True, slots=True, eq=False)
class ProviderRequest:
    """A request with tools.

    Attributes:
        form: of the request.
        text: of its body.
        members: of the object that it is.
        tools: the list.
        messages: of the conversation, oldest first.
        choice: the caller's own `tool_choice`, or the provider's equivalent; None without one.
    """

    form: RequestForm
    text: str
    members: list[Member]
    tools: ToolTexts
    messages: list[Any]
    choice: Any

    @classmethod
    def read(
        cls,
        body: bytes,
        form: RequestForm,
        known: KnownToolTexts,
        check: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> ProviderRequest | None:
        """Reads a body; None if it has no tools.

        check: checks the members of a body whose tools are under rules: all readers must read its list alike.

        Raises:
            ValueError: it is not a JSON object in UTF-8, has a member twice or too many values, or its tools
                are not a list, or are too many.
        """
        if len(body) > _MOST_VALUES and sum([body.count(mark) for mark in (b",", b"[", b"{")]) > _MOST_VALUES:
            raise ValueError(f"it has more than {_MOST_VALUES:,} values")
        text = body.decode("utf-8")
        lists: list[ToolTexts] = []

        def read_member(name: str, text: str, at: int) -> Item:
            if name not in form.tools or text[at : at + 1] != "[":
                return read_value(text, at)
            lists.append(known.read(text, at))
            return Item(at, at + len(lists[-1].text), lists[-1].items)

        members, end = object_members(text, after_space(text, 0), read_member)
        if after_space(text, end) != len(text):
            raise ValueError("the JSON object is not all of the body")
        values = {member.name: member.item.value for member in members}
        if len(values) != len(members):
            raise ValueError("the JSON object has a member twice")
        given = [values[name] for name in form.tools if values.get(name) is not None]
        if len(given) > 1 or not all(isinstance(one, list) for one in given):
            raise ValueError("the tools are no list")
        if check is not None:
            check(values)
            if not all(one.are_clear for one in lists):
                raise ValueError("a tool has a member twice")
        if not given or not given[0]:
            return None
        messages = _first(form.messages, values)
        if not isinstance(messages, list):
            messages = [] if messages is None else [messages]
        # An empty list beside the one that counts was read too.
        tools = next(one for one in lists if one.items)
        return cls(form, text, members, tools, messages, _first(form.choice, values))

    @property
    def asks(self) -> bool:
        """Whether there is a user's message to select by."""
        if not self.form.selects:
            return False
        for message in reversed(self.messages):
            read = read_message(message)
            if read is not None and read.role == "user":
                return bool(read.text.strip())
        return False

    @property
    def chosen(self) -> tuple[str, ...]:
        """Names of the tools that the caller's choice names."""
        return self.form.chosen(self.choice)

    @property
    def may_be_restricted(self) -> bool:
        """Whether the provider can restrict this list and the caller has not restricted it already."""
        provider = provider_of(self.form.provider)
        most = provider.most_tools
        if (
            "allow" not in provider.hows
            or not self.tools.are_functions
            or self._name_of(self.form.tools) != "tools"
        ):
            return False
        if most is not None and self.tools.count(self.tools.items) > most:
            return False
        return self.form.is_free(self.choice)

    def with_tools(self, items: Iterable[Any]) -> bytes:
        """The body with these items as its list; a choice loses the tools that are not sent.

        items: of the list, in the order to send.
        """
        items = list(items)
        name = self._name_of(self.form.tools)
        changes: dict[str, str | None] = {name: self.tools.of(items)}
        if not items:  # providers refuse an empty list, and a choice without a list
            changes = dict.fromkeys((name, *self.form.choice, *self.form.beside_tools))
        elif (chosen := self.chosen) and (missing := self._missing_names(items).intersection(chosen)):
            choice = self.form.choice_without(self.choice, missing)
            changes[self._name_of(self.form.choice)] = None if choice is None else _json(choice)
        return self._changed(changes)

    def restricted_to(self, names: list[str]) -> bytes:
        """The body with its list unchanged, restricted to calls of these tools."""
        restrict = provider_of(self.form.provider).restrict
        assert restrict is not None
        choice = self.form.restricted(self.choice, restrict(names, self.form.must_call(self.choice)))
        return self._changed({self._name_of(self.form.choice): _json(choice)})

    def _missing_names(self, items: Iterable[Any]) -> frozenset[str]:
        return self.tools.names(self.tools.items) - self.tools.names(items)

    def _name_of(self, names: tuple[str, ...]) -> str:
        """The name among these that the request uses, else the first."""
        used = {member.name for member in self.members if member.item.value is not None}
        return next((name for name in names if name in used), names[0])

    def _changed(self, changes: Mapping[str, str | None]) -> bytes:
        return with_members(self.text, self.members, changes).encode()


def _first(names: Iterable[str], values: Mapping[str, Any]) -> Any:
    return next((values[name] for name in names if values.get(name) is not None), None)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
