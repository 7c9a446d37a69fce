"""Contexts that rules may tell apart, to show people whom a rule affects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from toolroll.model.context import Context
from toolroll.model.rules import Rule
from toolroll.selection.policy.conditions import ATTRIBUTES

_MOST = 24


def sample_contexts(rules: Iterable[Rule], tiers: Iterable[str], org: str) -> tuple[Context, ...]:
    """Contexts that rules of this organisation may tell apart, the first ones for the first rules.

    In order: a context without attributes; for each rule, a context with a value for each attribute of its
    condition; each single value; each tier. A page pattern gives its part without stars.

    org: the organisation of the contexts; "" for any that rules name.
    """
    named = [_values(rule.condition) for rule in rules]
    found: dict[tuple[str, ...], Context] = {}

    def add(values: Mapping[str, str]) -> None:
        values = {**values, "org": org or values.get("org", "")}
        context = Context(
            org=values["org"],
            user=values.get("user", ""),
            roles=(values["role"],) if "role" in values else (),
            tier=values.get("tier", ""),
            page=values.get("page", ""),
        )
        found.setdefault(tuple(values.get(name, "") for name in ATTRIBUTES), context)

    add({})
    for one in named:
        add({attribute: values[0] for attribute, values in one.items()})
    for one in [*named, {"tier": [*tiers]}]:
        for attribute, values in one.items():
            for value in values:
                add({attribute: value})
    return tuple(found.values())[:_MOST]


def _values(condition: object) -> dict[str, list[str]]:
    """Attribute → the distinct texts in its comparisons, in the order of the condition."""
    found: dict[str, list[str]] = {}

    def read(part: object) -> None:
        if isinstance(part, list):
            for each in part:
                read(each)
        elif isinstance(part, dict):
            for name, value in part.items():
                if name in ATTRIBUTES:
                    known = found.setdefault(name, [])
                    known += [text for text in _texts(value) if text and text not in known]
                else:
                    read(value)

    def _texts(value: object) -> list[str]:
        if isinstance(value, str):
            return [value.strip("*") if value != "*" else ""]
        if isinstance(value, dict):
            value = list(value.values())
        return [text for each in value for text in _texts(each)] if isinstance(value, list) else []

    read(condition)
    return {attribute: values for attribute, values in found.items() if values}
