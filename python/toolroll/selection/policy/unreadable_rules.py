"""Rules that cannot be read: which tools they hide.

Such a rule may be about anything and hold for anybody, so it hides whatever it could have hidden, whoever
asks and whatever the priorities of the others. A deny rule can only hide its target, public or not. An allow
rule can hide all other tools, since it makes its level an allow list; so can a rule whose effect or target is
unknown. Then all tools that are not public are hidden, and the target of a rule that may be a deny rule. The
readable rules stay in force in each case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from toolroll._core import Bitset
from toolroll.rules import EVERYTHING, Rule


@dataclass(frozen=True, slots=True)
class UnreadableRule:
    """A rule that cannot be read, and what is known of it.

    Attributes:
        org: its owner; "" for the platform, and where the owner cannot be read.
        problem: why it cannot be read.
        rule_id, name: "" where they cannot be read.
        tool, toolkit: what it could deny, as far as that can be read.
        closes: whether it could hide other tools, too.
    """

    org: str
    problem: str
    rule_id: str = ""
    name: str = ""
    tool: str = ""
    toolkit: str = ""
    closes: bool = True

    @classmethod
    def of(cls, values: Mapping[str, object], problem: str) -> UnreadableRule:
        """values: the fields of the rule; one that is missing or of a wrong type cannot be read."""
        read = {
            name: value
            for name in ("org", "rule_id", "name", "effect", "tool", "toolkit")
            if isinstance(value := values.get(name), str)
        }
        tool, toolkit = read.get("tool", ""), read.get("toolkit", "")
        has_target = {"tool", "toolkit"} <= read.keys() and bool(tool) != bool(toolkit) and tool != EVERYTHING
        return cls(
            read.get("org", ""),
            problem,
            read.get("rule_id", ""),
            read.get("name", ""),
            tool if read.get("effect") != "allow" else "",
            toolkit if read.get("effect") != "allow" else "",
            closes=read.get("effect") != "deny" or not has_target,
        )

    @classmethod
    def of_rule(cls, rule: Rule, problem: str) -> UnreadableRule:
        """A rule with a field that makes no sense."""
        return cls.of({name: getattr(rule, name) for name in Rule.__slots__}, problem)

    def was(self, rule: Rule) -> bool:
        """Whether the rule may be an earlier form of this one."""
        if self.rule_id and rule.rule_id:
            return rule.rule_id == self.rule_id
        return bool(self.name) and (rule.org, rule.name) == (self.org, self.name)


def closed_rows(
    rules: Iterable[UnreadableRule], named: Callable[[str, str], Bitset], not_public: Bitset
) -> Bitset:
    """The rows that these rules hide.

    Args:
        rules: of one owner.
        named: the rows that a deny rule with this tool, or this toolkit, is about.
        not_public: the rows of tools that are not public.
    """
    rows = Bitset.empty(not_public.size)
    for rule in rules:
        if rule.closes:
            rows = rows | not_public
        rows = rows | named(rule.tool, "") | named("", rule.toolkit)
    return rows
