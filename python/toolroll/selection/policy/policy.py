"""Rules, compiled to sets of rows: which tools a context must not see, and why.

There are two levels: the platform's rules, and the rules of the context's organisation. A tool is visible if
both show it: an organisation can hide tools and never add any. At one level, the matching rule of the highest
priority that names a tool decides; at equal priority deny does. A tool that no rule names is visible, unless
an allow rule matches: then the level is an allow list, even if the tool of that rule does not exist.

An allow rule matches where its condition is true, a deny rule unless its condition is false: an attribute
that the caller leaves empty is unknown, and unknown never helps. A condition on annotations is asked for each
tool, and a missing annotation is unknown as well. An allow rule with such a condition makes its level an
allow list wherever it could match some tool, even if the catalog has no such tool. A toolkit's lowest tier is
a denial by the platform that no priority outweighs.

Nothing leaks from one caller to another: an answer is kept under a digest of every attribute that the
effective rules can read, each with its length, and of no other attribute.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import compress, groupby
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from toolroll._core import Bitset
from toolroll.formats.sources.labels import folded
from toolroll.model.arrays import Rows
from toolroll.model.context import Context
from toolroll.model.errors import InvalidDefinition, NotFound, quoted
from toolroll.model.rules import EVERYTHING, Effect, Rule
from toolroll.model.tools import Tool, Toolkit
from toolroll.selection.policy.annotated_rows import AnnotatedRows
from toolroll.selection.policy.conditions import (
    Annotated,
    Condition,
    Facts,
    annotated_in,
    facts_of,
    of_some_tool,
    of_tool,
)
from toolroll.selection.policy.rule_checks import (
    check as check,  # for a registry, before it keeps a rule
)
from toolroll.selection.policy.rule_checks import check_fields, condition_of, tier_problem, tiers_of, wrong

LevelName: TypeAlias = Literal["platform", "organisation", ""]

_REMEMBERED = 4096  # callers whose answer is kept; forgotten all at once when there are more
_REMEMBERED_BYTES = 4 << 20  # bytes of their sets of rows; many callers share one
_SHOWN = 200  # characters of a condition in a sentence
_LISTED = 3  # rules without effect in a sentence

NOT_NAMED = "no rule names it"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a context sees a tool, and the rule that decided it.

    Attributes:
        visible: whether a selection could have the tool.
        rule: the rule that decided or made the level an allow list; None if no rule did.
        level: the level that decided; "" if none did.
        reason: a sentence for people.
    """

    visible: bool
    rule: Rule | None
    level: LevelName
    reason: str


class ListedNames(NamedTuple):
    """The rows of a request's list, by the names in rules.

    Attributes:
        own: own name → rows, for allow rules.
        alike: folded name (`labels.py`) → rows, for deny rules: all names of a row.
        claimed: toolkit → the rows that claim to be in it.
        are_believed: whether allow rules accept `claimed`, too.
    """

    own: Mapping[str, Sequence[int]]
    alike: Mapping[str, Sequence[int]]
    claimed: Mapping[str, Rows]
    are_believed: bool = False


def attribute_key(context: Context, attributes: Iterable[str]) -> bytes:
    """A digest of these attributes of a context. Digests are equal exactly if all attributes are.

    Each is written with its name and its length, so no text can pass for two ("a|b" is not "a" and "b").
    Roles count as a set.
    """
    parts = []
    for attribute in attributes:
        if attribute == "role":
            roles = sorted(set(context.roles))
            parts.append(f"role{len(roles)}:")
            parts += [f"{len(role)}:{role}" for role in roles]
        else:
            value: str = getattr(context, attribute)
            parts.append(f"{attribute}{len(value)}:{value}")
    # Lone surrogates are text, too; each gets bytes of its own.
    return blake2b("".join(parts).encode("utf-8", "surrogatepass"), digest_size=32).digest()


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """The platform's rules, or one organisation's.

    Rules without `rows` and `asked` are not applied to a catalog yet, so many catalogs share them.

    Attributes:
        rules: highest priority first, at equal priority deny before allow.
        conditions: the distinct conditions of the rules.
        places: for each rule, the place of its condition in `conditions`.
        denies: for each rule, whether it denies.
        reads: the attributes in the conditions.
        rows: for each rule, the rows to which its condition applies; None for all that it names.
        asked: for each condition, its comparisons with annotations.
    """

    rules: tuple[Rule, ...]
    conditions: tuple[Condition, ...]
    places: tuple[int, ...]
    denies: tuple[bool, ...]
    reads: frozenset[str]
    rows: tuple[Bitset | None, ...]
    asked: tuple[tuple[Annotated, ...], ...]

    @classmethod
    def of(cls, rules: Iterable[Rule], tiers: tuple[str, ...]) -> _Level:
        ordered = sorted(rules, key=lambda rule: (-rule.priority, rule.effect != "deny", rule.name))
        return cls._of([(rule, condition_of(rule, tiers), None) for rule in ordered])

    @classmethod
    def _of(cls, parts: Sequence[tuple[Rule, Condition, Bitset | None]]) -> _Level:
        places: dict[Condition, int] = {}
        at = [places.setdefault(condition, len(places)) for _, condition, _ in parts]
        return cls(
            tuple(rule for rule, _, _ in parts),
            tuple(places),
            tuple(at),
            tuple(rule.effect == "deny" for rule, _, _ in parts),
            frozenset().union(*(condition.reads() for condition in places)),
            tuple(rows for _, _, rows in parts),
            tuple(map(annotated_in, places)),
        )

    def over(self, tools: AnnotatedRows) -> _Level:
        """The rules over a catalog. A rule on annotations becomes one part for each kind of tool.

        The context alone decides the conditions of the parts. One more part without rows makes an allow list.
        """
        if not any(self.asked):
            return self
        parts: list[tuple[Rule, Condition, Bitset | None]] = []
        for rule, place in zip(self.rules, self.places, strict=True):
            condition, asked = self.conditions[place], self.asked[place]
            if not asked:
                parts.append((rule, condition, None))
                continue
            if rule.effect == "allow":
                parts.append((rule, of_some_tool(condition), Bitset.empty(tools.size)))
            parts += ((rule, of_tool(condition, truths), rows) for truths, rows in tools.kinds(asked))
        return self._of(parts)

    def matching(self, facts: Facts) -> bytes:
        """For each rule 1 if it matches, else 0."""
        truths = [condition.truth(facts) for condition in self.conditions]
        return bytes(
            [
                truths[at] is not False if denies else truths[at] is True
                for at, denies in zip(self.places, self.denies, strict=True)
            ]
        )


_NO_RULES = _Level((), (), (), (), frozenset(), (), ())


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """The effective rules over one catalog. Safe to use from many threads; the caches need no lock.

    Attributes:
        size: rows in the catalog.
        names: tool name → row.
        below: toolkit → rows of its tools and of the toolkits below it, ascending.
        tiers: as configured, lowest first.
        levels: organisation → its rules without a catalog; "" has the platform's.
        applied: organisation → its rules over this catalog.
        tools: the tools by their annotations.
        gates: toolkits with a lowest tier → the tiers that get them.
        attributes: organisation → the attributes that its rules read, sorted; "" for organisations
            without rules. None if no rule can deny a tool.
        listed: the names of a request's list; None for a catalog.
    """

    size: int
    names: Mapping[str, int]
    below: Mapping[str, Rows]
    tiers: tuple[str, ...]
    levels: Mapping[str, _Level]
    applied: Mapping[str, _Level]
    tools: AnnotatedRows
    gates: Mapping[str, tuple[str, ...]]
    attributes: Mapping[str, tuple[str, ...] | None]
    listed: ListedNames | None = None
    _answers: dict[bytes, Bitset | None] = field(default_factory=dict, repr=False)
    # Callers for whom the same rules match see the same: thousands of users share a few sets.
    _sets: dict[tuple[str, bytes, bytes, bytes], Bitset | None] = field(default_factory=dict, repr=False)
    _above: dict[bytes, Bitset] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        size: int,
        rules: Iterable[Rule],
        names: Mapping[str, int],
        below: Mapping[str, Rows],
        toolkits: Mapping[str, Toolkit],
        tiers: Sequence[str],
        *,
        tools: Sequence[Tool] = (),
        platform: Policy | None = None,
        before: Policy | None = None,
        require_known_tiers: bool = True,
        listed: ListedNames | None = None,
    ) -> Policy:
        """Checks every rule and compiles them. A rule for an unknown tool or toolkit matches no row.

        tools: by row, for rules that read annotations.
        require_known_tiers: False hides a toolkit whose tier is not one of `tiers`, instead of raising.
        platform: a policy with the same tiers and platform rules, which are compiled once for all
        organisations' catalogs and not passed again.
        listed: the names of a request's list.
        before: an earlier policy. If catalog and tiers are the same, it gives the compiled rules of each
        organisation whose rules are the same objects.

        Raises:
            InvalidDefinition: see `check`; two rules of one organisation have the same name; a toolkit's
                tier is not one of `tiers`.
        """
        known = tiers_of(tiers)
        is_over_same = before is not None and before.names is names and before.tiers == known
        compiled = before.levels if before is not None and is_over_same else {}
        checked = {id(rule) for level in compiled.values() for rule in level.rules}
        by_org: dict[str, dict[str, Rule]] = {}
        for rule in rules:
            if id(rule) not in checked:
                check_fields(rule)
            own = by_org.setdefault(rule.org, {})
            if rule.name in own:
                raise wrong(rule, "name", "is taken by another rule: must be unique in an organisation")
            own[rule.name] = rule
        kept = {
            org: level
            for org, level in compiled.items()
            if org in by_org and set(map(id, level.rules)) == set(map(id, by_org[org].values()))
        }
        levels = {org: kept.get(org) or _Level.of(own.values(), known) for org, own in by_org.items()}
        if platform is not None:
            assert platform.tiers == known and "" not in levels
            levels[""] = platform.levels.get("", _NO_RULES)
        gates: dict[str, tuple[str, ...]] = {}
        for toolkit in toolkits.values():
            if toolkit.tier is not None:
                problem = tier_problem(toolkit.tier, known)
                if problem and not require_known_tiers:
                    gates[toolkit.name] = ()
                    continue
                if problem:
                    raise InvalidDefinition(f"toolkit {quoted(toolkit.name)}: tier {problem}", field="tier")
                gates[toolkit.name] = known[known.index(toolkit.tier) :]
        annotated = AnnotatedRows.of(size, tools, None if platform is None else platform.tools)
        applied = {
            org: before.applied[org] if before is not None and org in kept else level.over(annotated)
            for org, level in levels.items()
        }
        attributes = _attributes(levels, bool(gates))
        return cls(size, names, below, known, levels, applied, annotated, gates, attributes, listed)

    def denied(self, context: Context) -> Bitset | None:
        """The rows that this context must not see; None if no rule applies."""
        org = context.org
        if org not in self.attributes:
            org = ""
        attributes = self.attributes[org]
        if attributes is None:
            return None
        asked = attribute_key(context, attributes)
        try:
            return self._answers[asked]  # None is an answer, too
        except KeyError:
            pass
        answer = self._find(org, facts_of(context))
        if len(self._answers) >= _REMEMBERED:
            self._forget()
        self._answers[asked] = answer
        return answer

    def above(self, tier: str) -> Bitset | None:
        """The rows of toolkits that need a higher tier; `denied` has them, too. None if there are none."""
        if not self.gates:
            return None
        shut = bytes([tier not in tiers for tiers in self.gates.values()])
        rows = self._above.get(shut)
        if rows is None:  # there are no more of these than tiers, and one
            rows = self._above[shut] = self._rows_of((), compress(self.gates, shut))
        return rows or None

    def could_deny(self, org: str) -> Bitset:
        """The rows that some rule or tier could hide from some context of this organisation."""
        rows = self._rows_of((), self.gates)
        for owner in {"", org}:
            level = self.levels.get(owner, _NO_RULES)
            if not all(level.denies):  # an allow list
                return Bitset.full(self.size)
            rows = rows | self._rows_named([(rule.tool, rule.toolkit) for rule in level.rules], "deny")
        return rows

    def named(self, tool: str, toolkit: str) -> Bitset:
        """The rows of a deny rule with this target."""
        return self._rows_named([(tool, toolkit)], "deny")

    def why(self, name: str, context: Context) -> Verdict:
        """Whether the context sees the tool, and the rule that decided. For explanations: O(rules).

        Raises:
            NotFound: there is no such tool in the catalog.
        """
        if name not in self.names:
            raise NotFound(f"tool {quoted(name)}: is not in the catalog")
        row = self.names[name]
        for toolkit, tiers in sorted(self.gates.items()):
            if context.tier not in tiers and self._is_below(row, toolkit):
                said = f"tier {quoted(context.tier)}" if context.tier else "no tier"
                whom = f"tier {tiers[0]!r} and above" if tiers else "a tier that is not configured"
                reason = f"toolkit {toolkit!r} is for {whom}, the context has {said}"
                return Verdict(False, None, "platform", reason)
        facts = facts_of(context)
        verdict = self._judge("platform", self.levels.get("", _NO_RULES), name, row, facts)
        if verdict.visible and context.org and context.org in self.levels:
            own = self._judge("organisation", self.levels[context.org], name, row, facts)
            if own.rule is not None:
                return own
            if verdict.rule is None and own.reason != NOT_NAMED:
                reasons = [one.reason for one in (verdict, own) if one.reason != NOT_NAMED]
                return replace(verdict, reason="; ".join(reasons))
        return verdict

    def reads(self, org: str) -> frozenset[str]:
        """The attributes of a context of this organisation that the policy reads."""
        return frozenset(self.attributes.get(org, self.attributes[""]) or ())

    def _find(self, org: str, facts: Facts) -> Bitset | None:
        platform = self.applied.get("", _NO_RULES)
        own = self.applied[org] if org else _NO_RULES
        by_platform, by_org = platform.matching(facts), own.matching(facts)
        shut = bytes([facts["tier"] not in tiers for tiers in self.gates.values()])
        matched = (org, by_platform, by_org, shut)
        try:
            return self._sets[matched]
        except KeyError:
            pass
        denied = self._rows_of((), compress(self.gates, shut))
        denied = denied | self._denied_by(platform, by_platform)
        denied = denied | self._denied_by(own, by_org)
        answer = denied if denied else None
        bytes_each = self.size // 8 + len(by_platform) + len(by_org)
        if (len(self._sets) + 1) * bytes_each > _REMEMBERED_BYTES:
            self._forget()
        self._sets[matched] = answer
        return answer

    def _denied_by(self, level: _Level, matching: bytes) -> Bitset:
        """The rows that the matching rules of one level deny; the first match of a row decides.

        Neighbouring rules with the same effect are applied in one step, since it does not matter which of
        them decides. A target is looked up only at its first rule.
        """
        undecided, denied = Bitset.full(self.size), Bitset.empty(self.size)
        decided: set[tuple[str, str, str]] = set()
        is_allow_list = False
        parts = compress(zip(level.rules, level.rows, strict=True), matching)
        for effect, grouped in groupby(parts, key=lambda part: part[0].effect):
            run = list(grouped)
            targets = dict.fromkeys((rule.tool, rule.toolkit) for rule, rows in run if rows is None)
            new = [target for target in targets if (effect, *target) not in decided]
            decided.update((effect, *target) for target in new)
            rows = self._rows_named(new, effect)
            for rule, about in run:
                if about:  # else it is about all that it names, which are in `new`, or about no tool
                    rows = rows | (self._rows_named([(rule.tool, rule.toolkit)], effect) & about)
            if effect == "deny":
                denied = denied | (undecided & rows)
            else:
                is_allow_list = True
            undecided = undecided - rows
            if not undecided:
                break
        return denied | undecided if is_allow_list else denied

    def _rows_named(self, targets: Sequence[tuple[str, str]], effect: Effect) -> Bitset:
        if ("", EVERYTHING) in targets:
            return Bitset.full(self.size)
        tools, kits = [tool for tool, _ in targets if tool], [kit for _, kit in targets if kit]
        if self.listed is None:
            return self._rows_of(tools, kits)
        own, alike, claimed, are_believed = self.listed
        if effect == "allow":
            found = [row for name in tools for row in own.get(name, ())]
        else:
            found = [row for name in tools for row in alike.get(folded(name), ())]
        if effect == "deny" or are_believed:
            found += [row for kit in kits if kit in claimed for row in claimed[kit].tolist()]
        return Bitset.of(self.size, np.array(found, np.int32))

    def _rows_of(self, tools: Iterable[str], toolkits: Iterable[str]) -> Bitset:
        """The rows of all of these names. A name that the catalog lacks has no row."""
        rows = [np.array([self.names[name] for name in tools if name in self.names], np.int32)]
        rows += [self.below[name] for name in toolkits if name in self.below]
        return Bitset.of(self.size, np.concatenate(rows) if len(rows) > 1 else rows[0])

    def _forget(self) -> None:
        self._answers.clear()
        self._sets.clear()

    # Explanations: plainly, rule by rule, so that masks and words can be compared.

    def _judge(self, name: LevelName, level: _Level, tool: str, row: int, facts: Facts) -> Verdict:
        naming: list[tuple[Rule, frozenset[str]]] = []
        idle: list[tuple[Rule, frozenset[str]]] = []  # they name it, and their conditions do not hold
        allows: list[tuple[Rule, frozenset[str]]] = []  # and the unknown annotations of the tool
        for rule, place in zip(level.rules, level.places, strict=True):
            written = level.conditions[place]
            condition = of_tool(written, self.tools.truths(row, level.asked[place]))
            truth, is_named = condition.truth(facts), self._names(rule, tool, row)
            if is_named and (truth is True or (truth is None and rule.effect == "deny")):
                naming.append((rule, condition.unknown(facts)))
            elif is_named:
                idle.append((rule, condition.unknown(facts) if truth is None else frozenset()))
            if rule.effect == "allow" and of_some_tool(written).truth(facts) is True:
                allows.append((rule, condition.unknown(facts) if is_named else frozenset()))
        if naming:
            rule, unknown = max(naming, key=lambda found: (found[0].priority, found[0].effect == "deny"))
            visible = rule.effect == "allow"
            verb = "shown" if visible else "hidden"
            return Verdict(visible, rule, name, f"{verb} by {_described(rule, name)}{_unsaid(unknown)}")
        if allows:
            rule, unknown = max(allows, key=lambda found: found[0].priority)
            reason = f"an allow list is in force and does not name it: {_described(rule, name)}"
            lacking = f"; unknown of this tool: {', '.join(sorted(unknown))}" if unknown else ""
            return Verdict(False, rule, name, reason + lacking)
        return Verdict(True, None, "", _without_effect(idle, name) or NOT_NAMED)

    def _names(self, rule: Rule, tool: str, row: int) -> bool:
        if self.listed is not None:
            return row in self._rows_named([(rule.tool, rule.toolkit)], rule.effect)
        if rule.tool:
            return rule.tool == tool
        return rule.toolkit == EVERYTHING or self._is_below(row, rule.toolkit)

    def _is_below(self, row: int, toolkit: str) -> bool:
        return toolkit in self.below and bool((self.below[toolkit] == row).any())


def _without_effect(rules: Sequence[tuple[Rule, frozenset[str]]], level: LevelName) -> str:
    """A sentence about rules that name a tool but do not match; "" if there are none."""
    said = []
    for rule, unknown in rules[:_LISTED]:
        known = f"is not known to hold ({', '.join(sorted(unknown))})" if unknown else "does not hold"
        said.append(
            f"{_owner(rule, level)} rule {quoted(rule.name)} names it, its condition {known}: {_shown(rule)}"
        )
    if len(rules) > _LISTED:
        said.append(f"and so for {len(rules) - _LISTED} more")
    return "; ".join(said)


def _described(rule: Rule, level: LevelName) -> str:
    what = f"({rule.effect}, priority {rule.priority})"
    return f"{_owner(rule, level)} rule {quoted(rule.name)} {what}: {_shown(rule)}"


def _owner(rule: Rule, level: LevelName) -> str:
    return "the platform's" if level == "platform" else f"{quoted(rule.org)}'s"


def _shown(rule: Rule) -> str:
    condition = json.dumps(rule.condition, ensure_ascii=False, default=dict)
    condition = condition.encode("utf-8", "replace").decode()  # printable, with any value
    if len(condition) > _SHOWN:
        condition = condition[: _SHOWN - 1] + "…"
    return condition


def _unsaid(unknown: frozenset[str]) -> str:
    of_tool = {name for name in unknown if name.startswith("annotation ")}
    return "".join(
        f"; unknown of this {what}, so it counts: {', '.join(sorted(names))}"
        for what, names in (("context", unknown - of_tool), ("tool", of_tool))
        if names
    )


def _attributes(levels: Mapping[str, _Level], has_gates: bool) -> dict[str, tuple[str, ...] | None]:
    """Organisation → the attributes that the rules for its contexts read."""
    platform = levels.get("", _NO_RULES)
    reads = platform.reads | ({"tier"} if has_gates else set())
    shared = tuple(sorted(reads)) if platform.rules or has_gates else None
    # An organisation's rules concern nobody else: the organisation is part of the key.
    own = {org: tuple(sorted(reads | level.reads | {"org"})) for org, level in levels.items() if org}
    return {"": shared, **own}
