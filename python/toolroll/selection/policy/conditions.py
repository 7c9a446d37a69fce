"""Conditions of rules: true, false or unknown of a context.

    {"tier": {"gte": "pro", "ne": "trial"}}                      all of an attribute's comparisons
    {"org": "acme", "page": {"in": ["contacts*", "deals"]}}      all of an object's keys
    {"annotation": {"destructiveHint": true}}                    of the tool that the rule is about
    {"all": [...]}   {"any": [...]}   {"not": {...}}             of conditions

An attribute that a context leaves empty or blank is unknown, and so is every comparison with it (Kleene's
three values). The same holds for an annotation that a tool lacks (`Tool.hints`). The caller of `truth`
decides what unknown means; for a rule it never helps (see policy.py). rule_checks.py reads conditions from
JSON.

Source: S. C. Kleene, Introduction to Metamathematics (1952), §64: the strong tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from toolroll.formats.visible_text import is_blank
from toolroll.model.context import Context
from toolroll.selection.policy.pages import matches

ATTRIBUTES = ("org", "user", "page", "role", "tier")
OPERATORS = ("eq", "ne", "in")
TIER_OPERATORS = (*OPERATORS, "gt", "gte", "lt", "lte")

Facts: TypeAlias = Mapping[str, "str | frozenset[str]"]


def facts_of(context: Context) -> Facts:
    """A context's attributes for conditions. Blank text is unknown, like empty text."""
    return {
        "org": _known(context.org),
        "user": _known(context.user),
        "page": _known(context.page),
        "role": frozenset(filter(_known, context.roles)),
        "tier": _known(context.tier),
    }


def _known(text: str) -> str:
    return "" if is_blank(text) else text


@dataclass(frozen=True, slots=True)
class Among:
    """Whether an attribute has one of these values. For several roles, one is enough.

    Attributes:
        patterns: page patterns.
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
        """The attributes that make the condition unknown."""
        return frozenset({self.attribute}) if self.truth(facts) is None else frozenset()

    def reads(self) -> frozenset[str]:
        """The attributes that the condition reads."""
        return frozenset({self.attribute})


@dataclass(frozen=True, slots=True)
class Annotated:
    """Whether an annotation of the tool has one of these values. Unknown until the tool is known."""

    name: str
    values: frozenset[bool | str]

    def holds(self, hints: Mapping[str, bool | str]) -> bool | None:
        """True, False or None (unknown) for a tool with these hints."""
        value = hints.get(self.name)
        return None if value is None else value in self.values

    def truth(self, facts: Facts) -> bool | None:
        """None: the answer depends on the tool, not on the context."""
        return None

    def unknown(self, facts: Facts) -> frozenset[str]:
        """The annotation."""
        return frozenset({f"annotation {self.name}"})

    def reads(self) -> frozenset[str]:
        """No attribute."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class Constant:
    """True or false in every context."""

    value: bool

    def truth(self, facts: Facts) -> bool | None:
        """The constant."""
        return self.value

    def unknown(self, facts: Facts) -> frozenset[str]:
        """Nothing."""
        return frozenset()

    def reads(self) -> frozenset[str]:
        """No attribute."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; unknown stays unknown."""

    part: Condition

    def truth(self, facts: Facts) -> bool | None:
        """True, False, or None for unknown."""
        truth = self.part.truth(facts)
        return None if truth is None else not truth

    def unknown(self, facts: Facts) -> frozenset[str]:
        """The attributes that make the condition unknown."""
        return self.part.unknown(facts)

    def reads(self) -> frozenset[str]:
        """The attributes that the condition reads."""
        return self.part.reads()


@dataclass(frozen=True, slots=True)
class Several:
    """A condition of several parts, which must all be true, or one of which must.

    A part with the value `settles` decides. Otherwise the condition is unknown if some part is.

    Attributes:
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
        """The attributes that make the condition unknown."""
        if self.truth(facts) is not None:
            return frozenset()
        return frozenset().union(*(part.unknown(facts) for part in self.parts))

    def reads(self) -> frozenset[str]:
        """The attributes that the condition reads."""
        return frozenset().union(*(part.reads() for part in self.parts))


Condition: TypeAlias = Among | Annotated | Constant | Not | Several


def annotated_in(condition: Condition) -> tuple[Annotated, ...]:
    """The comparisons with annotations in a condition, each once."""
    if isinstance(condition, Annotated):
        return (condition,)
    if isinstance(condition, Not):
        return annotated_in(condition.part)
    if isinstance(condition, Several):
        return tuple(dict.fromkeys(one for part in condition.parts for one in annotated_in(part)))
    return ()


def of_tool(condition: Condition, truths: Mapping[Annotated, bool | None]) -> Condition:
    """The condition for a tool with these annotations. The result depends on the context alone."""

    def known(one: Annotated, _: bool) -> Condition:
        truth = truths[one]
        return one if truth is None else Constant(truth)

    return _replaced(condition, known, True)


def of_some_tool(condition: Condition) -> Condition:
    """A condition on contexts alone, which may hold wherever the condition holds for some tool.

    Each comparison with an annotation is replaced by the value that helps. If the result is not true in a
    context, the condition is true of no tool there.
    """
    return _replaced(condition, lambda _, helps: Constant(helps), True)


def _replaced(
    condition: Condition, replacement: Callable[[Annotated, bool], Condition], helps: bool
) -> Condition:
    """The condition with its comparisons with annotations replaced.

    helps: whether a true part makes the whole condition true rather than false.
    """
    if isinstance(condition, Annotated):
        return replacement(condition, helps)
    if isinstance(condition, Not):
        return Not(_replaced(condition.part, replacement, not helps))
    if isinstance(condition, Several):
        parts = tuple(_replaced(part, replacement, helps) for part in condition.parts)
        return Several(parts, condition.settles)
    return condition
