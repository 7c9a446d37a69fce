"""Checks and hashes the definitions that a plugin sends. Needs no database.

A plugin may send a thousand tools, so all errors are collected and reported together.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from toolroll.catalog.routes import RouteTable
from toolroll.model.arrays import NO_ROWS
from toolroll.model.errors import Conflict, InvalidDefinition
from toolroll.model.identity import canonical_json
from toolroll.model.rules import PageMapping
from toolroll.model.tools import Definitions, Tool, Toolkit
from toolroll.registry.editing.content import GOVERNED, storable, toolkit_content
from toolroll.registry.editing.governed_rows import check_content
from toolroll.registry.editing.tool_edits import checked_hash
from toolroll.registry.store.database import checked_text
from toolroll.selection.policy.pages import check as check_page
from toolroll.selection.policy.rule_checks import tiers_of

_PLAIN = Tool("plain")
_MOST_SKIPPED = 20  # unreadable tools that get a note each

# A reason to refuse a sync: the name belongs to somebody else, or the definition is wrong.
Problem: TypeAlias = "Conflict | InvalidDefinition"


@dataclass(frozen=True, slots=True)
class Payload:
    """A plugin's definitions, checked and hashed.

    Attributes:
        hashes: tool name → SHA-256 of the fields that the plugin sends.
        toolkits: name → content.
        digest: the hash of all definitions, independent of their order.
        problems: errors in the definitions.
        notes: parts of the definitions that the sync ignores.
        skipped: names of tools that the source could not read. A sync does not delete them.
    """

    plugin: str
    org: str
    version: str
    tools: Mapping[str, Tool]
    hashes: Mapping[str, str]
    toolkits: Mapping[str, Mapping[str, Any]]
    pages: tuple[PageMapping, ...]
    tiers: tuple[str, ...]
    digest: str
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    skipped: frozenset[str] = frozenset()

    @classmethod
    def of(cls, definitions: Definitions, *, plugin: str = "", org: str = "", version: str = "") -> Payload:
        """Checks and hashes definitions; collects problems instead of raising. About 10 µs a tool."""
        checked_text(org, "org")
        checked_text(version, "version")
        problems: list[Problem] = [*definitions.refused]
        tools: dict[str, Tool] = {}
        hashes: dict[str, str] = {}
        duplicates: Counter[str] = Counter()
        for tool in definitions.tools:
            if tool.name in tools:
                duplicates[tool.name] += 1
                continue
            tools[tool.name] = tool
            try:
                hashes[tool.name] = _source_hash(tool)
            except InvalidDefinition as error:
                problems.append(error)
        problems += (
            Conflict(f"tool {name!r}: defined {times + 1} times in one payload; names must be unique")
            for name, times in duplicates.items()
        )
        toolkits = _toolkits(definitions, problems)
        pages = tuple(replace(page, org=org, page_id="") for page in _pages(definitions.pages, problems))
        digest = hashlib.sha256()
        for part in (
            sorted(hashes.items()),
            sorted(toolkits.items()),
            sorted((page.pattern, list(page.toolkits), page.priority) for page in pages),
        ):
            digest.update(canonical_json(part).encode())
        if definitions.tiers:
            digest.update(canonical_json(list(tiers_of(definitions.tiers))).encode())
        notes = []
        if definitions.rules:
            count = len(definitions.rules)
            subject = "1 rule is" if count == 1 else f"{count} rules are"
            notes.append(f"{subject} ignored: only people decide who sees a tool")
        notes += (f"skipped: {error}" for error in definitions.skipped[:_MOST_SKIPPED])
        if len(definitions.skipped) > _MOST_SKIPPED:
            notes.append(f"skipped: {len(definitions.skipped) - _MOST_SKIPPED:,} more tools")
        return cls(
            plugin,
            org,
            version,
            tools,
            hashes,
            toolkits,
            pages,
            definitions.tiers,
            digest.hexdigest(),
            tuple(problems),
            tuple(notes),
            frozenset(error.tool for error in (*definitions.skipped, *definitions.refused) if error.tool),
        )


def _source_hash(tool: Tool) -> str:
    """The hash of the fields in the definition. An empty list of examples differs from a missing one."""
    parts = [checked_hash(tool), *sorted(tool.keys or ())]
    parts += (
        f"{name}={value}" for name in GOVERNED if (value := getattr(tool, name)) != getattr(_PLAIN, name)
    )
    return parts[0] if len(parts) == 1 else hashlib.sha256(" ".join(parts).encode()).hexdigest()


def _toolkits(definitions: Definitions, problems: list[Problem]) -> dict[str, dict[str, Any]]:
    """Toolkits with the keywords and patterns of their routes.

    A route to several toolkits counts for each of them. A route may be the only declaration of a toolkit.
    """
    declared: dict[str, Toolkit] = {}
    for toolkit in definitions.toolkits:
        if toolkit.name in declared:
            problems.append(Conflict(f"toolkit {toolkit.name!r}: defined more than once in one payload"))
        declared[toolkit.name] = toolkit
    keywords: dict[str, dict[str, str]] = {}
    patterns: dict[str, dict[str, None]] = {}
    for route in definitions.routes:
        modes = route.modes or ("",) * len(route.keywords)
        for name in route.toolkits:
            declared.setdefault(name, Toolkit(name))
            keywords.setdefault(name, {}).update(zip(route.keywords, modes, strict=True))
            patterns.setdefault(name, {}).update(dict.fromkeys(route.patterns))
    try:  # the registry must not store content that no catalog can read
        RouteTable.of(0, definitions.routes, dict.fromkeys(declared, NO_ROWS))
    except InvalidDefinition as error:
        problems.append(error)
    found: dict[str, dict[str, Any]] = {}
    for name, toolkit in declared.items():
        content = toolkit_content(toolkit, keywords.get(name, {}).items(), patterns.get(name, ()))
        if problem := _toolkit_problem(toolkit, content):
            problems.append(InvalidDefinition(f"toolkit {name[:80]!r}: {problem}"))
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
    try:
        storable({"name": toolkit.name, **content}, toolkit.name)
    except InvalidDefinition as error:
        return error.problem
    return ""


def _pages(pages: Iterable[PageMapping], problems: list[Problem]) -> Iterator[PageMapping]:
    for page in pages:
        try:
            check_page(page)
            content = {"toolkits": [page.pattern, *page.toolkits], "priority": page.priority}
            check_content(content, f"page mapping {page.pattern!r:.80}")
        except InvalidDefinition as error:
            problems.append(error)
        else:
            yield page
