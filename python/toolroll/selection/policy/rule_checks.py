"""Reads rules: checks their fields, and makes conditions from JSON.

A rule that silently means something else is worse than no rule. So each error names the rule, the place
in it, and the allowed values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from toolroll.model.argument_checks import LONE_SURROGATE, is_unicode
from toolroll.model.errors import InvalidDefinition, quoted
from toolroll.model.rules import EFFECTS, EVERYTHING, KINDS, Rule, pattern_problem
from toolroll.model.tools import HINTS
from toolroll.selection.policy.conditions import (
    ATTRIBUTES,
    OPERATORS,
    TIER_OPERATORS,
    Among,
    Annotated,
    Condition,
    Not,
    Several,
    annotated_in,
)

_KEYS = (*ATTRIBUTES, "annotation", "all", "any", "not")
MAX_DEPTH = 16  # conditions within conditions
MAX_NODES = 1_000  # comparisons, and what combines them
MAX_ANNOTATED = 8  # different comparisons with annotations: a catalog is split by each


def check(rule: Rule, tiers: Sequence[str]) -> None:
    """Checks the shape of one rule. tiers: lowest first.

    Raises:
        InvalidDefinition: names the rule and the place in it, and says what is allowed.
    """
    condition_of(rule, tiers_of(tiers))


def condition_of(rule: Rule, tiers: Sequence[str]) -> Condition:
    """The condition of a rule. Equal conditions are equal values. tiers: lowest first.

    Raises:
        InvalidDefinition: names the rule and the place in the condition, and says what is allowed.
    """
    check_fields(rule)
    condition = _ConditionReader(rule, tuple(tiers)).read(rule.condition, "condition", 1)
    if (count := len(annotated_in(condition))) > MAX_ANNOTATED:
        problem = f"makes {count} different comparisons with annotations, must make at most {MAX_ANNOTATED}"
        raise wrong(rule, "condition", f"{problem}: make several rules of it")
    return condition


def wrong(rule: Rule, place: str, problem: str) -> InvalidDefinition:
    """An error that names the rule and the place in it."""
    of = f" of organisation {quoted(rule.org)}" if isinstance(rule.org, str) and rule.org else ""
    return InvalidDefinition(f"rule {quoted(rule.name)}{of}: {place} {problem}", field=place)


def allowed(value: object, known: Sequence[str]) -> str:
    """The allowed values in words, with a hint if one of them is near."""
    near = get_close_matches(value, known, n=1) if isinstance(value, str) else []
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}must be {'one of ' if len(known) > 1 else ''}{', '.join(known)}"


class _ConditionReader:
    """Reads one condition and bounds its size."""

    def __init__(self, rule: Rule, tiers: tuple[str, ...]) -> None:
        self._rule = rule
        self._tiers = tiers
        self._nodes = 0

    def read(self, condition: object, place: str, depth: int) -> Condition:
        """Reads the condition at a place such as "condition.any[2].not"."""
        if not isinstance(condition, Mapping):
            raise self._wrong(place, f'is {quoted(condition)}, must be an object such as {{"tier": "pro"}}')
        if not condition:
            raise self._wrong(place, 'is {}, must say something: {"all": []} is always true')
        if depth > MAX_DEPTH:
            raise self._wrong(place, f"is nested {depth} deep, must be at most {MAX_DEPTH}")
        parts = []
        for key, value in condition.items():
            below = f"{place}.{key}"
            if key in ATTRIBUTES:
                parts.append(self._attribute(key, value, below))
                continue
            if key == "annotation":
                parts.append(self._annotations(value, below))
                continue
            self._count(place)
            if key == "not":
                parts.append(Not(self.read(value, below, depth + 1)))
            elif key in ("all", "any"):
                if not isinstance(value, (list, tuple)):
                    raise self._wrong(below, f"is {quoted(value)}, must be a list of conditions")
                inner = (self.read(one, f"{below}[{at}]", depth + 1) for at, one in enumerate(value))
                parts.append(Several(tuple(inner), settles=key == "any"))
            else:
                raise self._wrong(place, f"has the key {quoted(key)}; {allowed(key, _KEYS)}")
        return _all_of(parts)

    def _check_kind(self, attribute: str, place: str) -> None:
        kind = self._rule.kind
        if kind not in ("composite", attribute):
            raise self._wrong(
                place,
                f"reads {attribute!r}, but the rule is of kind {kind!r}: "
                f"must read {kind!r} alone, or be of kind 'composite'",
            )

    def _annotations(self, value: object, place: str) -> Condition:
        """Reads {"destructiveHint": true} or {"destructiveHint": {"ne": false}}, all of which must hold."""
        self._check_kind("annotation", place)
        if not isinstance(value, Mapping) or not value:
            raise self._wrong(
                place, f'is {quoted(value)}, must name annotations, such as {{"destructiveHint": true}}'
            )
        parts: list[Condition] = []
        for name, compared in value.items():
            if not isinstance(name, str) or not name:
                raise self._wrong(place, f"has the key {quoted(name)}, must be the name of an annotation")
            near = get_close_matches(name, HINTS, n=1, cutoff=0.8)
            if near and name not in HINTS:
                raise self._wrong(place, f"has the key {quoted(name)}; did you mean {near[0]!r}?")
            below = f"{place}.{name:.80}"
            comparisons = compared if isinstance(compared, Mapping) else {"eq": compared}
            if not comparisons:
                raise self._wrong(below, 'is {}, must compare, such as {"eq": true}')
            for operator, operand in comparisons.items():
                self._count(place)
                if operator not in OPERATORS:
                    raise self._wrong(
                        below, f"compares by {quoted(operator)}; {allowed(operator, OPERATORS)}"
                    )
                at = f"{below}.{operator}" if isinstance(compared, Mapping) else below
                annotated = Annotated(name, self._hint_values(name, operand, at, is_list=operator == "in"))
                parts.append(Not(annotated) if operator == "ne" else annotated)
        return _all_of(parts)

    def _hint_values(self, name: str, operand: object, place: str, is_list: bool) -> frozenset[bool | str]:
        if is_list and not isinstance(operand, (list, tuple)):
            raise self._wrong(place, f"is {quoted(operand)}, must be a list")
        values: list[bool | str] = []
        for value in operand if is_list and isinstance(operand, (list, tuple)) else (operand,):
            if not (isinstance(value, bool) or (isinstance(value, str) and name not in HINTS)):
                kinds = "true or false" if name in HINTS else "true, false or a string"
                hint = "; a list goes with 'in'" if isinstance(value, (list, tuple)) else ""
                raise self._wrong(
                    place, f"{'holds' if is_list else 'is'} {quoted(value)}, must be {kinds}{hint}"
                )
            if isinstance(value, str) and not is_unicode(value):
                raise self._wrong(place, f"{quoted(value)} {LONE_SURROGATE}")
            values.append(value)
        return frozenset(values)

    def _attribute(self, attribute: str, value: object, place: str) -> Condition:
        self._check_kind(attribute, place)
        comparisons = value if isinstance(value, Mapping) else {"eq": value}
        if not comparisons:
            raise self._wrong(place, 'is {}, must compare, such as {"eq": …}')
        parts = []
        for operator, operand in comparisons.items():
            self._count(place)
            at = f"{place}.{operator}" if isinstance(value, Mapping) else place
            parts.append(self._comparison(attribute, operator, operand, place, at))
        return _all_of(parts)

    def _comparison(
        self, attribute: str, operator: object, operand: object, place: str, at: str
    ) -> Condition:
        operators = TIER_OPERATORS if attribute == "tier" else OPERATORS
        if operator not in operators:
            of_tiers = operator in TIER_OPERATORS
            raise self._wrong(
                place,
                f"compares by {quoted(operator)}; "
                + ("only tiers have an order: " if of_tiers else "")
                + allowed(None if of_tiers else operator, operators),
            )
        values = self._values(attribute, operand, at, is_list=operator == "in")
        if operator in OPERATORS:
            plain = frozenset(value for value in values if attribute != "page" or "*" not in value)
            patterns = tuple(sorted({value for value in values if value not in plain}))
            # A tier that is not configured is a caller's mistake ("Free"): unknown, as under an order.
            known = frozenset(self._tiers if attribute == "tier" else ())
            among = Among(attribute, plain, patterns, known)
            return Not(among) if operator == "ne" else among
        place_of = self._tiers.index(values[0])
        higher, lower = self._tiers[place_of + 1 :], self._tiers[:place_of]
        with_equal = {"gt": higher, "gte": (*higher, values[0]), "lt": lower, "lte": (*lower, values[0])}
        return Among(attribute, frozenset(with_equal[str(operator)]), known=frozenset(self._tiers))

    def _values(self, attribute: str, operand: object, place: str, is_list: bool) -> tuple[str, ...]:
        if is_list and not isinstance(operand, (list, tuple)):
            raise self._wrong(place, f"is {quoted(operand)}, must be a list of strings")
        values = tuple(operand) if is_list and isinstance(operand, (list, tuple)) else (operand,)
        for value in values:
            if not isinstance(value, str):
                raise self._wrong(
                    place,
                    f"{'holds' if is_list else 'is'} {quoted(value)}, must {'hold' if is_list else 'be'} "
                    + ("strings" if is_list else "a string; a list goes with 'in'"),
                )
            if not is_unicode(value):
                raise self._wrong(place, f"{quoted(value)} {LONE_SURROGATE}")
            if attribute == "tier" and (problem := tier_problem(value, self._tiers)):
                raise self._wrong(place, problem)
            if attribute == "page" and "*" in value and (problem := pattern_problem(value)):
                raise self._wrong(place, f"is {quoted(value)}, {problem}")
        return values

    def _count(self, place: str) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise self._wrong(
                place,
                f"goes beyond {MAX_NODES:,} comparisons and combinations: make several rules of it, "
                "or list values with 'in'",
            )

    def _wrong(self, place: str, problem: str) -> InvalidDefinition:
        return wrong(self._rule, place, problem)


def tier_problem(tier: object, tiers: Sequence[str]) -> str:
    """The error in a tier, in words; "" for a configured one."""
    if tier in tiers:
        return ""
    if not tiers:
        return f"is {quoted(tier)}, but no tiers are configured"
    return f"is {quoted(tier)}; {allowed(tier, tiers)}"


def _all_of(parts: Sequence[Condition]) -> Condition:
    return parts[0] if len(parts) == 1 else Several(tuple(parts), settles=False)


def check_fields(rule: Rule) -> None:
    """Checks all fields but the condition.

    Raises:
        InvalidDefinition: names the rule and the field, and says what is allowed.
    """
    for name in ("name", "org", "tool", "toolkit", "rule_id"):
        if not isinstance(value := getattr(rule, name), str):
            raise wrong(rule, name, f"is {quoted(value)}, must be a string")
        if not is_unicode(value):
            raise wrong(rule, name, f"{quoted(value)} {LONE_SURROGATE}")
    if not rule.name:
        raise wrong(rule, "name", "is empty, must be text: it is what `why` answers with")
    for name, known in (("effect", EFFECTS), ("kind", KINDS)):
        value = getattr(rule, name)
        if not isinstance(value, str) or value not in known:
            raise wrong(rule, name, f"is {quoted(value)}; {allowed(value, sorted(known))}")
    if type(rule.priority) is not int:
        raise wrong(rule, "priority", f"is {quoted(rule.priority)}, must be a whole number")
    if bool(rule.tool) == bool(rule.toolkit):
        both = f"tool {quoted(rule.tool)} and toolkit {quoted(rule.toolkit)}"
        said = f"names {both}, must name one of them" if rule.tool else "names nothing"
        raise wrong(rule, "tool", f"{said}: a tool, or a toolkit, or toolkit '*' for everything")
    if rule.tool == EVERYTHING:
        raise wrong(rule, "tool", "is '*', which is no tool: toolkit '*' means everything")


def tiers_of(tiers: Sequence[str]) -> tuple[str, ...]:
    """The configured tiers as a tuple.

    Raises:
        InvalidDefinition: the tiers are no list of names, or one occurs twice.
    """
    is_list = isinstance(tiers, Sequence) and not isinstance(tiers, (str, bytes))
    if not is_list or not all(isinstance(tier, str) and tier for tier in tiers):
        raise InvalidDefinition(
            f"tiers: is {quoted(tiers)}, must be a list of names, lowest first", field="tiers"
        )
    for tier in tiers:
        if not is_unicode(tier):
            raise InvalidDefinition(f"tiers: {quoted(tier)} {LONE_SURROGATE}", field="tiers")
    if len(set(tiers)) != len(tiers):
        raise InvalidDefinition(
            f"tiers: {list(tiers)!r:.200} names one twice, must order them", field="tiers"
        )
    return tuple(tiers)
