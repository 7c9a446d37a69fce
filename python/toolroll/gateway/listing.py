"""Reads the tools, prompts and resources of an MCP server, within limits."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mcp import MCPError

from toolroll.gateway.client import Client
from toolroll.gateway.protocol import METHOD_NOT_FOUND, Json
from toolroll.gateway.server_output import MARK
from toolroll.model.errors import InvalidDefinition, nearest
from toolroll.registry.editing.flags import hidden_characters

MOST_PAGES = 200
MOST_ITEMS = 5_000  # of one kind
LARGEST = 8_000_000  # bytes of a list as JSON
LARGEST_ITEM = 200_000  # of one item; the registry takes little more

_KINDS = {
    "tools": "tools/list",
    "prompts": "prompts/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
}
_CAPABILITY = {"resourceTemplates": "resources"}


@dataclass(frozen=True, slots=True)
class Listing:
    """The lists of one server, as it sent them, in its order. Of two equal names the first one counts.

    Attributes:
        tools, prompts: by the server's own names.
        resources, templates: by URI, and by URI template.
        problems: the omitted items with reasons, in sentences.
    """

    tools: Mapping[str, Json] = field(default_factory=dict)
    prompts: Mapping[str, Json] = field(default_factory=dict)
    resources: Mapping[str, Json] = field(default_factory=dict)
    templates: Mapping[str, Json] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


async def read_listing(client: Client) -> Listing:
    """Reads all lists that the server declares.

    Raises:
        InvalidDefinition: a list is too large, or has no end.
        MCPError: the server answers with an error.
    """
    problems: list[str] = []
    found = {}
    for kind, method in _KINDS.items():
        key = _CAPABILITY.get(kind, kind)
        items = []
        if key in client.capabilities:
            items = await _read(client.request, method, kind, problems)
        found[kind] = _by_name(items, kind, problems)
    return Listing(
        found["tools"], found["prompts"], found["resources"], found["resourceTemplates"], tuple(problems)
    )


def without_excluded(
    listing: Listing, included: Collection[str] | None, excluded: Collection[str]
) -> Listing:
    """Returns the listing without the tools that the configuration switches off; "*" stands for all.

    An unknown name is a problem: a mistyped name leaves its tool switched on.
    """
    problems = [
        f"switched {state}: the server has no tool {name[:80]!a}{nearest(name, listing.tools)}"
        for state, names in (("on", included or ()), ("off", excluded))
        for name in names
        if name not in listing.tools and name != "*"
    ]
    kept = {
        name: tool
        for name, tool in listing.tools.items()
        if not {name, "*"}.intersection(excluded) and (included is None or name in included)
    }
    return replace(listing, tools=kept, problems=(*listing.problems, *problems))


_IDENTITY = {"tools": "name", "prompts": "name", "resources": "uri", "resourceTemplates": "uriTemplate"}


async def _read(
    request: Callable[[str, Json], Awaitable[Json]], method: str, kind: str, problems: list[str]
) -> list[Any]:
    items: list[Any] = []
    count, size, cursor = 0, 0, None
    for _ in range(MOST_PAGES):
        try:
            page = await request(method, {} if cursor is None else {"cursor": cursor})
        except MCPError as error:
            if error.code == METHOD_NOT_FOUND and not items:
                return []  # it declares them, but has none
            raise
        found = page.get(kind)
        if not isinstance(found, list):
            raise InvalidDefinition(f"{method}: its answer has no list of {kind}")
        for item in found:
            length, problem = _measured(item)
            size += length
            if problem:
                problems.append(f"{kind}: {_name_of(item, kind)[:80]!a} is left out: {problem}")
            else:
                items.append(item)
        count += len(found)
        if count > MOST_ITEMS or size > LARGEST:
            raise InvalidDefinition(
                f"{method}: lists {count:,} {kind} of {size:,} bytes, may be {MOST_ITEMS:,} of {LARGEST:,}"
            )
        following = page.get("nextCursor")
        if not following or following == cursor:
            return items
        cursor = following
    raise InvalidDefinition(f"{method}: its list has more than {MOST_PAGES} pages")


def _measured(item: Any) -> tuple[int, str]:
    """Returns the bytes of an item as JSON, and the reason to omit it; "" for none."""
    try:
        text = json.dumps(item, ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except (ValueError, RecursionError):
        return 0, "a value in it is none of JSON, such as NaN"
    if size > LARGEST_ITEM:
        return size, f"it takes {size:,} bytes, may take {LARGEST_ITEM:,}"
    if MARK in text:
        return size, f"a value in it is {MARK}"
    return size, ""


def _name_of(item: Any, kind: str) -> str:
    name = item.get(_IDENTITY[kind]) if isinstance(item, dict) else None
    return name if isinstance(name, str) else ""


def _by_name(items: list[Any], kind: str, problems: list[str]) -> dict[str, Json]:
    named: dict[str, Json] = {}
    for item in items:
        name = _name_of(item, kind)
        if not name:
            problems.append(f"{kind}: an item has no {_IDENTITY[kind]}")
        elif name in named:
            problems.append(f"{kind}: {name[:80]!a} is there twice; the first one counts")
        elif hidden := hidden_characters(kind[:-1], item):
            problems.append(f"{kind}: {name[:80]!a} is left out: {hidden}")
        else:
            named[name] = item
    return named
