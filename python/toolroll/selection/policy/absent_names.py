"""Warnings about rules and page mappings with names of tools or toolkits that a catalog lacks.

They are no errors: a tool may come later. But a rule with a misspelt name denies nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches
from typing import NamedTuple

from toolroll.model.rules import EVERYTHING, PageMapping, Rule
from toolroll.model.tools import Definitions

_log = logging.getLogger("toolroll")

_NEAR_AMONG = 5_000  # names that a misspelt one is compared with; bounds the time of a warning
_MOST_WARNINGS = 20  # warnings about one catalog


class AbsentNames:
    """Finds names in rules and mappings that definitions lack, and logs each once."""

    def __init__(self, rules: Iterable[Rule], pages: Iterable[PageMapping]) -> None:
        """rules, pages: the caller's, not checked yet."""
        self._rules, self._pages = tuple(rules), tuple(pages)
        self._warned: set[str] = set()

    def warn(self, definitions: Definitions) -> Definitions:
        """Logs the names that these definitions lack, and returns the definitions.

        A catalog without tools is for tools that come with requests, so it lacks no name.
        """
        if not definitions.tools or not (self._rules or self._pages):
            return definitions
        tools = {tool.name for tool in definitions.tools}
        toolkits = {toolkit.name for toolkit in definitions.toolkits}
        toolkits.update(tool.toolkit for tool in definitions.tools)
        found = {one.what: one for one in _absent(self._rules, self._pages, tools, toolkits)}
        new = [one for what, one in found.items() if what not in self._warned]
        for one in new[:_MOST_WARNINGS]:
            near = get_close_matches(one.name[:200], sorted(one.known)[:_NEAR_AMONG], n=1)
            hint = f"; did you mean {near[0]!r:.80}?" if near else ""
            _log.warning("%s is not in the catalog%s", one.what, hint)
        if len(new) > _MOST_WARNINGS:
            _log.warning("%d more names of rules and pages are not in the catalog", len(new) - _MOST_WARNINGS)
        self._warned.update(one.what for one in new)
        return definitions


class _Absent(NamedTuple):
    """A name that a catalog lacks.

    Attributes:
        what: the rule or page mapping, and the field with the name.
        known: the names that the catalog has.
    """

    what: str
    name: str
    known: Collection[str]


def _absent(
    rules: Iterable[Rule], pages: Iterable[PageMapping], tools: Collection[str], toolkits: Collection[str]
) -> Iterator[_Absent]:
    for rule in rules:
        if not isinstance(rule.tool, str) or not isinstance(rule.toolkit, str):
            continue  # an error, which is raised when the rule is read
        kind, name, known = ("tool", rule.tool, tools) if rule.tool else ("toolkit", rule.toolkit, toolkits)
        if name not in ("", EVERYTHING) and name not in known:
            yield _Absent(f"rule {rule.name!r:.80}: {kind} {name!r:.80}", name, known)
    for page in pages:
        for name in page.toolkits if isinstance(page.toolkits, (tuple, list)) else ():
            if isinstance(name, str) and name and name not in toolkits:
                yield _Absent(f"page mapping {page.pattern!r:.80}: toolkit {name!r:.80}", name, toolkits)
