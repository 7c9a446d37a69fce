"""Rule and PageMapping: which contexts may see which tools, and which toolkits belong to a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

Effect = Literal["allow", "deny"]
EFFECTS: frozenset[str] = frozenset(get_args(Effect))

Kind = Literal["org", "user", "page", "role", "tier", "annotation", "composite"]
KINDS: frozenset[str] = frozenset(get_args(Kind))

OnPolicyError = Literal["closed", "last_known", "open"]

EVERYTHING = "*"  # all tools, as a rule's toolkit


@dataclass(frozen=True, slots=True)
class Rule:
    """Allows or denies a tool, or a toolkit and its descendants, in contexts that match its condition.

    A condition may also compare annotations of the tool: then the rule applies to the matching tools.

    Attributes:
        name: unique among the rules of its organisation; `why` reports it.
        kind: the attribute that the condition reads, or "annotation"; "composite" for any of them.
        condition: as JSON, such as {"tier": {"lt": "pro"}} or {"all": [{"org": "acme"}, {"not": …}]}.
        tool, toolkit: the target, one of both; toolkit "*" is every tool.
        priority: of the rules that name a tool, the highest priority decides; at equal priority, deny wins.
        org: the owner: "" for the platform, whose rules apply to everybody. An organisation's rules apply to
            its own contexts and can only remove tools that the platform allows.
        rule_id: its id in storage; "" outside a registry.
    """

    name: str
    effect: Effect
    kind: Kind
    condition: Mapping[str, Any] = field(hash=False)
    tool: str = ""
    toolkit: str = ""
    priority: int = 0
    org: str = ""
    rule_id: str = ""


@dataclass(frozen=True, slots=True)
class PageMapping:
    """On pages that match the pattern, the tools of these toolkits are candidates.

    Attributes:
        pattern: "contacts" (exactly), "contacts*" (prefix), "*contacts" (suffix), "*contacts*" (contains).
        toolkits: with their descendants.
        priority: mappings are listed and read in this order, highest first; all matches count.
        org: the owner; "" for the platform.
        page_id: its id in storage; "" outside a registry.
    """

    pattern: str
    toolkits: tuple[str, ...]
    priority: int = 0
    org: str = ""
    page_id: str = ""


def pattern_problem(pattern: str) -> str:
    """The problem with a pattern, in words; "" for none."""
    if not pattern:
        return "must not be empty: say '*' for every page"
    if pattern != "*" and (pattern == "**" or "*" in pattern[1:-1]):
        return "may have '*' only as its first or last character: page, prefix*, *suffix, *contains*"
    return ""
