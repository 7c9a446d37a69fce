"""What a plugin sends, checked and hashed: the part of a sync that needs no database.

What is wrong is collected and told at once: whoever sends a thousand tools wants to know of all that is
wrong with them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from toolroll.arrays import NO_ROWS
from toolroll.catalog.routes import RouteTable
from toolroll.errors import InvalidDefinition
from toolroll.identity import canonical_json
from toolroll.registry.content import LONGEST, LONGEST_NAME
from toolroll.registry.tool_edits import checked
from toolroll.rules import PageMapping
from toolroll.selection.policy.pages import check as check_page
from toolroll.tools import Definitions, Tool, Toolkit


@dataclass(frozen=True, slots=True)
class Problem:
    """Why nothing can be done: a name that another holds, or a definition that is wrong."""

    kind: Literal["conflict", "invalid"]
    message: str


@dataclass(frozen=True, slots=True)
class Payload:
    """Definitions, checked and hashed, which is most of the work and needs no database.

    Attributes:
        hashes: tool name → SHA-256 of its content.
        toolkits: name → content.
        digest: of all of it, whatever its order.
        problems: what is wrong with it by itself.
        notes: what of it is not read.
    """

    plugin: str
    org: str
    version: str
    tools: Mapping[str, Tool]
    hashes: Mapping[str, str]
    toolkits: Mapping[str, Mapping[str, Any]]
    pages: tuple[PageMapping, ...]
    digest: str
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, definitions: Definitions, *, plugin: str, org: str = "", version: str = "") -> Payload:
        """Checks and hashes. What is wrong is collected, not raised. O(bytes), about 10 µs a tool."""
        problems: list[Problem] = []
        tools: dict[str, Tool] = {}
        hashes: dict[str, str] = {}
        twice: Counter[str] = Counter()
        for tool in definitions.tools:
            if tool.name in tools:
                twice[tool.name] += 1
                continue
            tools[tool.name] = tool
            try:
                hashes[tool.name] = checked(tool)
            except InvalidDefinition as error:
                problems.append(Problem("invalid", str(error)))
        problems += (
            Problem(
                "conflict", f"tool {name!r}: defined {times + 1} times in one payload; names must be unique"
            )
            for name, times in twice.items()
        )
        toolkits = _toolkits(definitions, problems)
        pages = tuple(replace(page, org=org, page_id="") for page in _pages(definitions.pages, problems))
        digest = hashlib.sha256()
        for part in (
            sorted(hashes.items()),
            sorted((name, _said(content)) for name, content in toolkits.items()),
            sorted((page.pattern, list(page.toolkits), page.priority) for page in pages),
        ):
            digest.update(canonical_json(part).encode())
        notes = []
        if definitions.rules:
            count = len(definitions.rules)
            said = "1 rule is" if count == 1 else f"{count} rules are"
            notes.append(f"{said} not read: who sees what is for people to say")
        return cls(
            plugin,
            org,
            version,
            tools,
            hashes,
            toolkits,
            pages,
            digest.hexdigest(),
            tuple(problems),
            tuple(notes),
        )


def toolkit_content(
    toolkit: Toolkit, keywords: Iterable[tuple[str, str]] = (), patterns: Iterable[str] = ()
) -> dict[str, Any]:
    """A toolkit with the routes to it, as its row holds it."""
    return {
        "description": toolkit.description,
        "parent": toolkit.parent,
        "settings_keys": list(toolkit.settings_keys),
        "base": toolkit.base,
        "tier": toolkit.tier,
        "keywords": [{"keyword": keyword, "mode": mode} for keyword, mode in keywords],
        "patterns": list(patterns),
        "members": list(toolkit.members),
    }


def _said(content: Mapping[str, Any]) -> dict[str, Any]:
    """A toolkit as a digest reads it: the same in every release, or each would sync all plugins anew."""
    return {field: value for field, value in content.items() if field != "members" or value}


def _toolkits(definitions: Definitions, problems: list[Problem]) -> dict[str, dict[str, Any]]:
    """Toolkits with the keywords and patterns of the routes that switch them on.

    A route to several toolkits is one to each of them. One that is named only by a route is a toolkit too.
    """
    declared: dict[str, Toolkit] = {}
    for toolkit in definitions.toolkits:
        if toolkit.name in declared:
            problems.append(
                Problem("conflict", f"toolkit {toolkit.name!r}: defined more than once in one payload")
            )
        declared[toolkit.name] = toolkit
    keywords: dict[str, dict[str, str]] = {}
    patterns: dict[str, dict[str, None]] = {}
    for route in definitions.routes:
        modes = route.modes or ("",) * len(route.keywords)
        for name in route.toolkits:
            declared.setdefault(name, Toolkit(name))
            keywords.setdefault(name, {}).update(zip(route.keywords, modes, strict=True))
            patterns.setdefault(name, {}).update(dict.fromkeys(route.patterns))
    try:  # what a catalog could not read must not get into the registry
        RouteTable.of(0, definitions.routes, dict.fromkeys(declared, NO_ROWS))
    except InvalidDefinition as error:
        problems.append(Problem("invalid", str(error)))
    found: dict[str, dict[str, Any]] = {}
    for name, toolkit in declared.items():
        content = toolkit_content(toolkit, keywords.get(name, {}).items(), patterns.get(name, ()))
        if problem := _toolkit_problem(toolkit, content):
            problems.append(Problem("invalid", f"toolkit {name[:80]!r}: {problem}"))
        else:
            found[name] = content
    return found


def _toolkit_problem(toolkit: Toolkit, content: Mapping[str, Any]) -> str:
    if not isinstance(toolkit.description, str):
        return f"description is {toolkit.description!r:.80}, must be a string"
    for name, value in (("parent", toolkit.parent), ("tier", toolkit.tier)):
        if value is not None and (not isinstance(value, str) or not value):
            return f"{name} is {value!r:.80}, must be a name or None"
    if type(toolkit.base) is not bool:
        return f"base is {toolkit.base!r:.80}, must be True or False"
    return _unkept({"name": toolkit.name, **content}, toolkit.name)


def _unkept(value: Any, name: str) -> str:
    """Why a database could not keep this; "" if it could."""
    if len(name) > LONGEST_NAME:
        return f"name has {len(name)} characters, must have at most {LONGEST_NAME}"
    try:
        text = canonical_json(value)
    except InvalidDefinition as error:
        return error.problem
    if len(text.encode()) > LONGEST:
        return f"takes {len(text.encode()):,} bytes as JSON, must be at most {LONGEST:,}"
    # A backslash before it would make it the text of an escape; to refuse that too costs nobody anything.
    return "holds a NUL character, which no database keeps" if "\\u0000" in text else ""


def _pages(pages: Iterable[PageMapping], problems: list[Problem]) -> Iterator[PageMapping]:
    for page in pages:
        try:
            check_page(page)
        except InvalidDefinition as error:
            problems.append(Problem("invalid", str(error)))
            continue
        if problem := _unkept([page.pattern, list(page.toolkits)], ""):
            problems.append(Problem("invalid", f"page mapping {page.pattern!r:.80}: {problem}"))
        elif not -_WIDEST <= page.priority < _WIDEST:
            problems.append(
                Problem("invalid", f"page mapping {page.pattern!r:.80}: priority is out of range")
            )
        else:
            yield page


_WIDEST = 1 << 31
