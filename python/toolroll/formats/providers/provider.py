"""`Provider`: all that toolroll knows about one interface of a provider, in one value.

Your own package can add a provider by an entry point of the group `toolroll.providers`. If the provider
resembles one of ours, copy ours with other fields:
``replace(PROVIDERS["openai"], name="mistral", most_tools=None, requests=())``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from toolroll.formats.providers.form import Form
from toolroll.formats.providers.history_form import HistoryForm
from toolroll.formats.providers.references import Notes
from toolroll.formats.providers.request_form import RequestForm
from toolroll.model.errors import InvalidInput, quoted
from toolroll.model.tools import Tool

How = Literal["replace", "allow", "defer", "meta-tools"]
HOWS: tuple[How, ...] = get_args(How)

# Tool, name to send, options, losses → the definition. The function adds to the losses: pairs of a place in
# the tool, such as "parameters.properties.to", and a text, such as "default is dropped".
Writer = Callable[[Tool, str, Form, Notes], dict[str, Any]]

DIGITS = 16  # hexadecimal digits of the hash: a second name for 64 bits of SHA-256 is hard to find
_REPLACED = re.compile(rf"__[0-9a-f]{{{DIGITS},}}\Z")


@dataclass(frozen=True, slots=True, eq=False)
class ToolSearch:
    """How a provider's model searches for tools that its prompt does not contain (delivery by "defer").

    Attributes:
        id_key: the key of the id in the block with which the model searches.
        sends_all: whether the request has all tools, the deferred ones with ``defer_loading``. Otherwise
            the answer to the search brings their definitions.
        answer: makes the answer from the id of the call, the names of the found tools, and their
            definitions, which are empty if `sends_all`.
        tool: turns the definition of `search_tools` into the provider's own search; None keeps it.
    """

    id_key: str
    sends_all: bool
    answer: Callable[[str, Sequence[str], Sequence[Mapping[str, Any]]], dict[str, Any]]
    tool: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Provider:
    """One interface of a provider. A limit that the provider does not state is None.

    Attributes:
        name: as callers write it.
        write: makes the definition of a tool. It may return `Tool.original` itself if that fits.
        name_pattern: matches the allowed tool names.
        longest_name: in characters, at least 24.
        most_tools: the most tools in one request.
        most_deferred: the most deferred tools beside them.
        list_key: the key of a single object that holds the whole list; "" for a plain list.
        restrict: makes the fields of the request that let the model call only these sent names (delivery
            by "allow"); its second argument requires a call. None if the provider cannot.
        require: fields of the request that make the model call a tool; None if nothing does.
        search: the model's search (delivery by "defer"); None if it has none.
        read: turns a definition in the provider's own form into our plain form, a dictionary with `name`,
            `description` and `parameters`; returns None for any other object. It is asked only for objects
            in no form that toolroll reads itself (`sources/dicts.py`).
        history: the form of its conversations; None if `toolroll.repair` cannot read them.
        requests: forms of requests that the drop-in reads.
        error: makes the JSON of an error from HTTP status and message; None for OpenAI's form.
        takes_strict: whether it has OpenAI's strict mode.
        takes_json_schema: whether it has JSON Schema beside a form of its own.
        dialect: whose marks in a definition it understands: "openai", "anthropic", "gemini" or "".
        carries: keys of a tool's further fields that `write` sends, beside name, description and parameters.
    """

    name: str
    write: Writer
    name_pattern: re.Pattern[str]
    longest_name: int = 64
    most_tools: int | None = None
    most_deferred: int | None = None
    list_key: str = ""
    restrict: Callable[[list[str], bool], dict[str, Any]] | None = None
    require: Mapping[str, Any] | None = None
    search: ToolSearch | None = None
    read: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] | None = None
    history: HistoryForm | None = None
    requests: tuple[RequestForm, ...] = ()
    error: Callable[[int, str], dict[str, Any]] | None = None
    takes_strict: bool = False
    takes_json_schema: bool = False
    dialect: str = ""
    carries: tuple[str, ...] = ()
    hows: tuple[How, ...] = field(init=False)  # the ways in which a selection can be delivered

    def __post_init__(self) -> None:
        for key, is_right, must in (
            ("name", isinstance(self.name, str) and self.name != "", "a text"),
            ("write", callable(self.write), "a function"),
            ("name_pattern", isinstance(self.name_pattern, re.Pattern), "a compiled pattern"),
            ("longest_name", isinstance(self.longest_name, int) and self.longest_name >= 24, "24 or more"),
        ):
            if not is_right:
                raise InvalidInput(f"provider: {key} is {quoted(getattr(self, key))}, must be {must}")
        can = {"allow": self.restrict is not None, "defer": self.search is not None}
        object.__setattr__(self, "hows", tuple(how for how in HOWS if can.get(how, True)))

    def allows(self, name: str) -> bool:
        """Whether a tool may have this name."""
        return self.name_pattern.fullmatch(name) is not None

    def sent_name(self, name: str, digits: int = DIGITS) -> str:
        """The name to send for a tool: `name` itself, unless it is not allowed or looks like a replaced name.

        ``uber.ride`` becomes ``uber_ride__`` and `digits` hex digits of its SHA-256.
        """
        if self.allows(name) and not is_replaced(name):
            return name
        room = self.longest_name - digits - 2
        stem = re.sub(r"[^a-zA-Z0-9]+", "_", name).strip("_")[:room].rstrip("_")
        if not stem or stem[0].isdigit():
            stem = f"t_{stem}"[:room].rstrip("_")
        return f"{stem}__{name_hash(name)[:digits]}"


def is_replaced(name: str) -> bool:
    """Whether this looks like a name that replaces a tool's own."""
    return _REPLACED.search(name) is not None


def name_hash(name: str) -> str:
    """The SHA-256 of a name, in hexadecimal digits."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
