"""Rules and page mappings: as written, as effective when some cannot be read, and as stages of a catalog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from toolroll._core import Bitset
from toolroll.catalog.catalog import Catalog
from toolroll.errors import Failure, InvalidDefinition
from toolroll.rules import OnPolicyError, PageMapping, Rule
from toolroll.selection.policy import pages as page_patterns
from toolroll.selection.policy import policy
from toolroll.selection.policy.pages import PageTable
from toolroll.selection.policy.policy import ListedNames, Policy
from toolroll.selection.policy.rule_checks import tiers_of
from toolroll.selection.policy.unreadable_rules import UnreadableRule, closed_rows
from toolroll.selection.stages.page import Page
from toolroll.selection.stages.visibility import Closed, Visibility

_SHOWN = 3  # problems in a failure


@dataclass(frozen=True, slots=True)
class PolicySource:
    """Rules and page mappings as they are written.

    Attributes:
        rules, pages: of the platform ("") and of organisations.
        tiers: lowest first.
        unreadable: rules that are written and cannot be read.
        problems: organisation → what else cannot be read, such as a page mapping; "" for the platform.
    """

    rules: tuple[Rule, ...] = ()
    pages: tuple[PageMapping, ...] = ()
    tiers: tuple[str, ...] = ()
    unreadable: tuple[UnreadableRule, ...] = ()
    problems: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def of(self, orgs: Iterable[str]) -> PolicySource:
        """The rules and mappings of these organisations; "" is the platform."""
        wanted = frozenset(orgs)
        return PolicySource(
            tuple(rule for rule in self.rules if rule.org in wanted),
            tuple(page for page in self.pages if page.org in wanted),
            self.tiers,
            tuple(rule for rule in self.unreadable if rule.org in wanted),
            {org: found for org, found in self.problems.items() if org in wanted},
        )

    def check(self) -> None:
        """Raises what is wrong with a rule or a mapping.

        Raises:
            InvalidDefinition: see `policy.check` and `pages.check`; or two rules have one name.
        """
        assert not self.unreadable and not self.problems
        names = set()
        for rule in self.rules:
            policy.check(rule, self.tiers)
            if (rule.org, rule.name) in names:
                raise InvalidDefinition(f"rule {rule.name!r:.80}: there are two of that name", field="name")
            names.add((rule.org, rule.name))
        for page in self.pages:
            page_patterns.check(page)

    def sorted_out(self, before: PolicySource | None = None) -> PolicySource:
        """The same, with rules and mappings that make no sense among those that cannot be read.

        before: one that was sorted out. Its tiers count where these are no tiers, and its rules are not
            checked again under the same tiers.
        """
        known_tiers = () if before is None else before.tiers
        problems = {org: list(found) for org, found in self.problems.items()}
        tiers = known_tiers
        try:
            tiers = tiers_of(self.tiers)
        except InvalidDefinition as error:
            problems.setdefault("", []).append(str(error))
        rules, unreadable = [], list(self.unreadable)
        names = Counter((rule.org, rule.name) for rule in self.rules)
        checked = {id(rule) for rule in before.rules} if before is not None and before.tiers == tiers else ()
        for rule in self.rules:
            try:
                if id(rule) not in checked:
                    policy.check(rule, tiers)
                if names[rule.org, rule.name] > 1:  # neither can be told from the other
                    raise InvalidDefinition(f"rule {rule.name!r:.80}: there are two of that name")
            except InvalidDefinition as error:
                unreadable.append(UnreadableRule.of_rule(rule, str(error)))
            else:
                rules.append(rule)
        pages = []
        for page in self.pages:
            try:
                page_patterns.check(page)
            except InvalidDefinition as error:
                problems.setdefault(page.org if isinstance(page.org, str) else "", []).append(str(error))
            else:
                pages.append(page)
        found = {org: tuple(several) for org, several in problems.items()}
        return PolicySource(tuple(rules), tuple(pages), tiers, tuple(unreadable), found)

    def failures(self) -> dict[str, tuple[Failure, ...]]:
        """Organisation → the failure that its selections name; "" is for all."""
        problems = {org: list(found) for org, found in self.problems.items()}
        for rule in self.unreadable:
            problems.setdefault(rule.org, []).append(rule.problem)
        return {
            org: (Failure("policy", InvalidDefinition(summary(found))),) for org, found in problems.items()
        }


@dataclass(frozen=True, slots=True)
class EffectivePolicy:
    """The rules and mappings that count, whatever could be read.

    Attributes:
        policy_source: the rules, mappings and tiers that count, and the unreadable rules that hide tools.
        failures: organisation → the failures that its selections name; "" for all selections.
        require_known_tiers: whether a toolkit's tier that is not configured is an error; otherwise nobody
            sees the toolkit.
        owners: the organisations with rules, "" for the platform; those that cannot be read count.
    """

    policy_source: PolicySource = field(default_factory=PolicySource)
    failures: Mapping[str, tuple[Failure, ...]] = field(default_factory=dict, hash=False, compare=False)
    require_known_tiers: bool = False
    owners: frozenset[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        source = self.policy_source
        owners = (*(rule.org for rule in source.rules), *(one.org for one in source.unreadable))
        object.__setattr__(self, "owners", frozenset(owners))

    @classmethod
    def validated(cls, written: PolicySource) -> EffectivePolicy:
        """All of it, or an error: for rules that the caller passes.

        Raises:
            InvalidDefinition: see `PolicySource.check`.
        """
        written.check()
        return cls(written, require_known_tiers=True)

    @classmethod
    def of(
        cls, written: PolicySource, on_error: OnPolicyError, known: EffectivePolicy | None
    ) -> EffectivePolicy:
        """What can be read, and for each rule that cannot what `on_error` says.

        With "last_known" the rule counts as it is in `known`. If it is not, and with "closed", it hides what
        it could hide (see unreadable_rules.py). With "open" it does not count. All other rules stay in force.

        known: the policy before this one.
        """
        before = PolicySource()
        if on_error == "last_known" and known is not None:
            before = known.policy_source
        source = written.sorted_out(before)
        rules, unreadable = list(source.rules), []
        for one in source.unreadable if on_error != "open" else ():
            last = next((rule for rule in before.rules if one.was(rule)), None)
            if last is not None and _fits(last, rules, source.tiers):
                rules.append(last)
            else:
                unreadable.append(one)
        counts = PolicySource(tuple(rules), source.pages, source.tiers, tuple(unreadable))
        return cls(counts, source.failures())

    def concerning(self, org: str) -> EffectivePolicy:
        """The part for one organisation: the platform's rules and its own."""
        return EffectivePolicy(self.policy_source.of(("", org)), require_known_tiers=self.require_known_tiers)

    def concerns_otherwise(self, before: EffectivePolicy) -> Callable[[str], bool]:
        """Says whether the part for an organisation is another than in an earlier policy. O(rules)."""
        now, then = _by_owner(self.policy_source), _by_owner(before.policy_source)
        changed = {org for org in now.keys() | then.keys() if now.get(org) != then.get(org)}
        tiers_differ = self.policy_source.tiers != before.policy_source.tiers
        return lambda org: tiers_differ or "" in changed or org in changed

    def stages(
        self, catalog: Catalog, platform: Policy | None = None, before: Policy | None = None
    ) -> tuple[Visibility, Page]:
        """The two stages over a catalog.

        platform: the policy of the shared catalog under the same rules, whose platform's hold here too.
        before: an earlier policy over this catalog, see `Policy.of`.

        Raises:
            InvalidDefinition: a toolkit's tier is not configured, where that is an error.
        """
        policy_source = self.policy_source
        rules: Iterable[Rule] = policy_source.rules
        if platform is not None and platform.tiers == policy_source.tiers:
            rules = (rule for rule in rules if rule.org)
        else:
            platform = None
        compiled = Policy.of(
            len(catalog),
            rules,
            catalog.names,
            catalog.below,
            catalog.toolkits,
            policy_source.tiers,
            tools=catalog.tools,
            platform=platform,
            before=before,
            require_known_tiers=self.require_known_tiers,
        )
        table = PageTable.of(len(catalog), policy_source.pages, catalog.below)
        return self._visibility(compiled, catalog.not_public), Page(table)

    def over_list(self, catalog: Catalog, size: int, listed: ListedNames) -> Visibility:
        """The rules over tools that came with a request, of which none counts as public.

        size: rows of the catalog of its functions, and behind them those of what else is in the list.
        """
        source = self.policy_source
        compiled = Policy.of(
            size, source.rules, catalog.names, {}, {}, source.tiers, tools=catalog.tools, listed=listed
        )
        return self._visibility(compiled, Bitset.full(size))

    def _visibility(self, compiled: Policy, not_public: Bitset) -> Visibility:
        by_owner: dict[str, list[UnreadableRule]] = {}
        for one in self.policy_source.unreadable:
            by_owner.setdefault(one.org, []).append(one)
        closed = {
            org: Closed(
                closed_rows(found, compiled.named, not_public), summary([one.problem for one in found])
            )
            for org, found in by_owner.items()
        }
        return Visibility(compiled, closed)


def _by_owner(source: PolicySource) -> dict[str, list[object]]:
    """Organisation → everything of it, in its order."""
    found: dict[str, list[object]] = {}
    parts: tuple[Rule | PageMapping | UnreadableRule, ...] = (
        *source.rules,
        *source.pages,
        *source.unreadable,
    )
    for one in parts:
        found.setdefault(one.org, []).append(one)
    for org, problems in source.problems.items():
        found.setdefault(org, []).append(problems)
    return found


def _fits(rule: Rule, others: Iterable[Rule], tiers: tuple[str, ...]) -> bool:
    """Whether a rule of an earlier policy still makes sense beside these."""
    if any((other.org, other.name) == (rule.org, rule.name) for other in others):
        return False
    try:
        policy.check(rule, tiers)
    except InvalidDefinition:  # its tier is gone
        return False
    return True


def summary(problems: Sequence[str]) -> str:
    """The first problems, and the number of the others."""
    shown, others = "; ".join(sorted(problems)[:_SHOWN]), len(problems) - _SHOWN
    return f"{shown}; and {others} more" if others > 0 else shown
