"""Conditions of rules: true, false or unknown of a context.

    {"tier": {"gte": "pro", "ne": "trial"}}                      all of an attribute's comparisons
    {"org": "acme", "page": {"in": ["contacts*", "deals"]}}      all of an object's keys
    {"all": [...]}   {"any": [...]}   {"not": {...}}             of conditions

What a context leaves empty is unknown, and so is every comparison with it (Kleene's three values). The caller
of `truth` decides what unknown means; for a rule it never helps (see policy.py). rule_checks.py reads
conditions from JSON.

Source: S. C. Kleene, Introduction to Metamathematics (1952), §64: the strong tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from toolroll.context import Context
from toolroll.selection.policy.pages import matches

ATTRIBUTES = ("org", "user", "page", "role", "tier")
OPERATORS = ("eq", "ne", "in")
TIER_OPERATORS = (*OPERATORS, "gt", "gte", "lt", "lte")

Facts: TypeAlias = Mapping[str, "str | frozenset[str]"]


def facts_of(context: Context) -> Facts:
    """A context's attributes as conditions read them."""
    return {
        "org": context.org,
        "user": context.user,
        "page": context.page,
        "role": frozenset(context.roles),
        "tier": context.tier,
    }


@dataclass(frozen=True, slots=True)
class Among:
    """Whether an attribute has one of these values; of several roles, one is enough.

    Attributes:
        attribute: whose value is looked at.
        values: as they are written.
        patterns: of pages.
        known: the values that can be compared; empty for all.
    """

    attribute: str
    values: frozenset[str]
    patterns: tuple[str, ...] = ()
    known: frozenset[str] = frozenset()

    def truth(self, facts: Facts) -> bool | None:
        """True, False, or None for unknown."""
        said = facts[self.attribute]
        if not said:
            return None
        if isinstance(said, frozenset):
            return not self.values.isdisjoint(said)
        if self.known and said not in self.known:
            return None
        if said in self.values:
            return True
        return any(matches(pattern, said) for pattern in self.patterns)

    def unknown(self, facts: Facts) -> frozenset[str]:
        """The attributes that leave it unknown."""
        return frozenset({self.attribute}) if self.truth(facts) is None else frozenset()

    def reads(self) -> frozenset[str]:
        """The attributes that it looks at."""
        return frozenset({self.attribute})


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; unknown stays unknown."""

    part: Condition

    def truth(self, facts: Facts) -> bool | None:
        """True, False, or None for unknown."""
        truth = self.part.truth(facts)
        return None if truth is None else not truth

    def unknown(self, facts: Facts) -> frozenset[str]:
        """The attributes that leave it unknown."""
        return self.part.unknown(facts)

    def reads(self) -> frozenset[str]:
        """The attributes that it looks at."""
        return self.part.reads()


@dataclass(frozen=True, slots=True)
class Several:
    """All of its parts, or any: the first part that is `settles` decides, else it is unknown if one part is.

    Attributes:
        parts: conditions.
        settles: False for all, True for any.
    """

    parts: tuple[Condition, ...]
    settles: bool

    def truth(self, facts: Facts) -> bool | None:
        """True, False, or None for unknown."""
        result: bool | None = not self.settles
        for part in self.parts:
            truth = part.truth(facts)
            if truth is self.settles:
                return truth
            if truth is None:
                result = None
        return result

    def unknown(self, facts: Facts) -> frozenset[str]:
        """The attributes that leave it unknown."""
        if self.truth(facts) is not None:
            return frozenset()
        return frozenset().union(*(part.unknown(facts) for part in self.parts))

    def reads(self) -> frozenset[str]:
        """The attributes that it looks at."""
        return frozenset().union(*(part.reads() for part in self.parts))


Condition: TypeAlias = Among | Not | Several
