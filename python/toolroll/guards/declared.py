"""The keys that a schema names anywhere among its alternatives, and whether it is open to others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolroll.guards.acceptance import Acceptance, Schema, branches, mapping


class Declared:
    """What one schema names, itself, by reference and in its alternatives.

    Attributes:
        names: the keys of all its `properties`.
    """

    def __init__(self, acceptance: Acceptance, schema: Schema) -> None:
        self.names: set[str] = set()
        self._acceptance = acceptance
        self._patterns: list[object] = []
        self._open = True  # until a list of properties is found
        welcoming = False
        waiting: list[Any] = [schema]
        seen: set[int] = set()
        while waiting:
            part = waiting.pop()
            if not isinstance(part, Mapping) or id(part) in seen:
                continue
            seen.add(id(part))
            acceptance.step()
            self._open = self._open and not isinstance(part.get("properties"), Mapping)
            self.names.update(mapping(part, "properties"))
            self._patterns += mapping(part, "patternProperties")
            for keyword in ("additionalProperties", "unevaluatedProperties"):
                welcoming = welcoming or part.get(keyword, False) is not False
            waiting += [acceptance.target(part), *mapping(part, "dependentSchemas").values()]
            waiting += [part.get(keyword) for keyword in ("if", "then", "else")]
            for keyword in ("allOf", "anyOf", "oneOf"):
                waiting += branches(part, keyword)
        self._open = self._open or welcoming

    def has(self, name: str) -> bool:
        """Whether the key is named, falls under a pattern, or the schema is open to any."""
        if self._open or name in self.names:
            return True
        self._acceptance.step(len(self._patterns) // 3)
        return any(self._acceptance.matches(pattern, name) is not False for pattern in self._patterns)
