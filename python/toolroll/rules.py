"""Rule and PageMapping: who may see what, and what belongs to which page. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

Effect = Literal["allow", "deny"]
EFFECTS: frozenset[str] = frozenset(get_args(Effect))

Kind = Literal["org", "user", "page", "role", "tier", "composite"]
KINDS: frozenset[str] = frozenset(get_args(Kind))

OnPolicyError = Literal["closed", "last_known", "open"]

EVERYTHING = "*"  # as a rule's toolkit: all tools


@dataclass(frozen=True, slots=True)
class Rule:
    """Shows or hides a tool, or a toolkit and those below it, for those whom its condition describes.

    Attributes:
        name: unique among the rules of its organisation; what `why` answers with.
        effect: "allow" or "deny".
        kind: the attribute that the condition reads; "composite" for any of them.
        condition: as JSON, such as {"tier": {"lt": "pro"}} or {"all": [{"org": "acme"}, {"not": …}]}.
        tool, toolkit: one of them; toolkit "*" is everything.
        priority: the rule of the highest priority that names a tool decides; at equal priority deny does.
        org: whose rule it is: "" the platform's, which concerns everybody. An organisation's own concerns its
            own contexts and only takes away from what the platform lets it see.
        rule_id: what storage knows it by; "" outside a registry.
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
    """On pages that match the pattern, the tools of these toolkits are in play.

    Attributes:
        pattern: "contacts" (exactly), "contacts*" (prefix), "*contacts" (suffix), "*contacts*" (contains).
        toolkits: with those below them.
        priority: the order in which mappings are listed and read, highest first; all that match count.
        org: whose mapping it is: "" the platform's.
        page_id: what storage knows it by; "" outside a registry.
    """

    pattern: str
    toolkits: tuple[str, ...]
    priority: int = 0
    org: str = ""
    page_id: str = ""
