"""Which tools a caller may have: read from the documentation, rule by rule, and without the package's policy.

A condition is worth an interval, the least and the greatest truth that it can have: (1, 1) is true, (0, 0) is
false, (0, 1) is unknown. Slow and plain on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from toolroll import Context, Tool, Toolkit
from toolroll.model.rules import Rule

YES, NO, UNKNOWN = (1, 1), (0, 0), (0, 1)
MCP_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


@dataclass(frozen=True)
class World:
    """Tools, toolkits, rules and tiers as they are written.

    Attributes:
        owners: tool → its organisation; a tool that is missing is the platform's.
        stored: organisation → settings that storage has a value for; those of "" are everybody's.
        closed: organisations whose rules are damaged: their contexts see public tools only; "" for all.
    """

    tools: tuple[Tool, ...]
    toolkits: Mapping[str, Toolkit]
    rules: tuple[Rule, ...]
    tiers: tuple[str, ...]
    owners: Mapping[str, str]
    stored: Mapping[str, frozenset[str]]
    closed: frozenset[str] = frozenset()

    def lineage(self, tool: Tool) -> list[str]:
        """The tool's toolkit and those above it."""
        found, at = [], tool.toolkit
        while at:
            found.append(at)
            at = self.toolkits[at].parent or ""
        return found


def permitted(world: World, context: Context) -> frozenset[str]:
    """Names of the tools that this context may have."""
    levels = [_Level(world, context, org) for org in dict.fromkeys(("", context.org))]
    return frozenset(
        tool.name
        for tool in world.tools
        if _is_available(world, context, tool)
        and all(level.shows(tool) for level in levels)
        and (tool.public or world.closed.isdisjoint({"", context.org}))
    )


def _is_available(world: World, context: Context, tool: Tool) -> bool:
    if tool.status != "active" or world.owners.get(tool.name, "") not in ("", context.org):
        return False
    if tool.name in context.exclude or (context.only and tool.name not in context.only):
        return False
    for kit in map(world.toolkits.__getitem__, world.lineage(tool)):
        if kit.tier is not None and _of_tier("gte", kit.tier, context, world.tiers) != YES:
            return False
        if kit.settings_keys and not context.everything:
            stored = world.stored.get("", frozenset()) | world.stored.get(context.org, frozenset())
            if not any(key in stored or _has_value(context.settings, key) for key in kit.settings_keys):
                return False
    return True


def _has_value(settings: Any, key: str) -> bool:
    if not isinstance(settings, Mapping):
        return key in settings
    value = settings.get(key)
    if isinstance(value, str):
        return value.strip() != ""
    return value is not None and value is not False and value not in ([], {}, ())


class _Level:
    """The rules of the platform, or of one organisation, that match a context or could."""

    def __init__(self, world: World, context: Context, org: str) -> None:
        self.world, self.context = world, context
        self.rules = [rule for rule in world.rules if rule.org == org]
        self.is_allow_list = any(
            rule.effect == "allow" and self.worth(rule.condition, None, 1) == YES for rule in self.rules
        )

    def shows(self, tool: Tool) -> bool:
        lineage = self.world.lineage(tool)
        naming = [
            (rule.priority, rule.effect == "deny")
            for rule in self.rules
            if (rule.tool == tool.name or rule.toolkit == "*" or rule.toolkit in lineage)
            and self.matches(rule, tool)
        ]
        return not max(naming)[1] if naming else not self.is_allow_list

    def matches(self, rule: Rule, tool: Tool) -> bool:
        least, greatest = self.worth(rule.condition, tool, 1)
        return greatest == 1 if rule.effect == "deny" else least == 1

    def worth(self, condition: Mapping[str, Any], tool: Tool | None, helpful: int) -> tuple[int, int]:
        """tool: None for one whose annotations are whatever helps; `helpful` is then their truth."""
        parts = [YES]
        for key, value in condition.items():
            if key == "not":
                least, greatest = self.worth(value, tool, 1 - helpful)
                parts.append((1 - greatest, 1 - least))
            elif key in ("all", "any"):
                inner = [self.worth(one, tool, helpful) for one in value] + [YES if key == "all" else NO]
                parts.append(_each(min if key == "all" else max, inner))
            elif key == "annotation" and tool is None:
                parts.append((helpful, helpful))
            else:
                several = value if key == "annotation" else {key: value}
                for name, compared in several.items():
                    by = compared if isinstance(compared, Mapping) else {"eq": compared}
                    for operator, operand in by.items():
                        if key == "annotation":
                            assert tool is not None
                            parts.append(_of_hint(operator, operand, name, tool.annotations or {}))
                        else:
                            parts.append(_of_context(name, operator, operand, self.context, self.world.tiers))
        return _each(min, parts)


def _each(pick: Any, worths: Iterable[tuple[int, int]]) -> tuple[int, int]:
    least, greatest = zip(*worths, strict=True)
    return pick(least), pick(greatest)


def _of_context(
    attribute: str, operator: str, operand: Any, context: Context, tiers: tuple[str, ...]
) -> tuple[int, int]:
    if attribute == "tier":
        return _of_tier(operator, operand, context, tiers)
    held = list(context.roles) if attribute == "role" else [getattr(context, attribute)]
    held = [value for value in held if value.strip()]
    wanted = operand if operator == "in" else [operand]
    if attribute == "page":
        shapes = [".*".join(map(re.escape, pattern.split("*"))) for pattern in wanted]
        found = any(re.fullmatch(shape, page, re.DOTALL) for shape in shapes for page in held)
    else:
        found = any(value in wanted for value in held)
    return UNKNOWN if not held else YES if found != (operator == "ne") else NO


def _of_tier(operator: str, operand: Any, context: Context, tiers: tuple[str, ...]) -> tuple[int, int]:
    if context.tier not in tiers:
        return UNKNOWN
    rank, ranks = tiers.index(context.tier), [tiers.index(one) for one in _list(operand)]
    found = {
        "eq": rank in ranks,
        "in": rank in ranks,
        "ne": rank not in ranks,
        "gt": all(rank > one for one in ranks),
        "gte": all(rank >= one for one in ranks),
        "lt": all(rank < one for one in ranks),
        "lte": all(rank <= one for one in ranks),
    }
    return YES if found[operator] else NO


def _of_hint(operator: str, operand: Any, name: str, annotations: Mapping[str, Any]) -> tuple[int, int]:
    value = annotations.get(name)
    if value is None and annotations.get("readOnlyHint") is True:  # such a tool changes nothing
        value = {"destructiveHint": False, "idempotentHint": True}.get(name)
    if not isinstance(value, bool) and (not isinstance(value, str) or name in MCP_HINTS):
        return UNKNOWN
    found = any(type(one) is type(value) and one == value for one in _list(operand))
    return YES if found != (operator == "ne") else NO


def _list(operand: Any) -> list[Any]:
    return list(operand) if isinstance(operand, (list, tuple)) else [operand]
