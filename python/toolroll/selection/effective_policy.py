"""Rules and page mappings: as written, in effect despite errors, and as stages over a catalog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from toolroll._core import Bitset
from toolroll.catalog.catalog import Catalog
from toolroll.model.errors import Failure, InvalidDefinition
from toolroll.model.rules import OnPolicyError, PageMapping, Rule
from toolroll.selection.policy import pages as page_patterns
from toolroll.selection.policy import policy
from toolroll.selection.policy.pages import PageTable
from toolroll.selection.policy.policy import ListedNames, Policy
from toolroll.selection.policy.rule_checks import tiers_of
from toolroll.selection.stages.visibility import Visibility

_SHOWN = 3  # problems in a failure
T = TypeVar("T", Rule, PageMapping)


@dataclass(frozen=True, slots=True)
class PolicySource:
    """Rules and page mappings as their authors wrote them.

    Attributes:
        rules, pages: the platform's ("") and the organisations'.
        tiers: lowest first.
        problems: organisation → errors in its rules, mappings or tiers; "" for the platform.
        closed: organisation → errors in other data that its policy reads, such as toolkits.
    """

    rules: tuple[Rule, ...] = ()
    pages: tuple[PageMapping, ...] = ()
    tiers: tuple[str, ...] = ()
    problems: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    closed: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def of(self, orgs: Iterable[str]) -> PolicySource:
        """The rules and mappings of these organisations; "" is the platform."""
        wanted = frozenset(orgs)
        return PolicySource(
            tuple(rule for rule in self.rules if rule.org in wanted),
            tuple(page for page in self.pages if page.org in wanted),
            self.tiers,
            {org: found for org, found in self.problems.items() if org in wanted},
            {org: found for org, found in self.closed.items() if org in wanted},
        )

    @property
    def orgs(self) -> frozenset[str]:
        """The organisations with rules, mappings or errors; "" for the platform."""
        owners = {*(rule.org for rule in self.rules), *(page.org for page in self.pages)}
        return frozenset(owners.union(self.problems, self.closed))

    def check(self) -> None:
        """Checks all rules and mappings.

        Raises:
            InvalidDefinition: see `policy.check` and `pages.check`; or two rules have one name.
        """
        assert not self.problems and not self.closed
        names = set()
        for rule in self.rules:
            policy.check(rule, self.tiers)
            if (rule.org, rule.name) in names:
                raise InvalidDefinition(f"rule {rule.name!r:.80}: there are two of that name", field="name")
            names.add((rule.org, rule.name))
        for page in self.pages:
            page_patterns.check(page)

    def sorted_out(self, before: PolicySource | None = None) -> PolicySource:
        """The source without invalid rules and mappings; `problems` names them.

        before: an earlier result of `sorted_out`. Its tiers stand in for missing tiers. Its rules are not
        checked again under the same tiers.
        """
        known_tiers = () if before is None else before.tiers
        problems = {org: list(found) for org, found in self.problems.items()}
        tiers = known_tiers
        try:
            tiers = tiers_of(self.tiers)
        except InvalidDefinition as error:
            problems.setdefault("", []).append(str(error))
        names = Counter((rule.org, rule.name) for rule in self.rules)
        checked = {id(rule) for rule in before.rules} if before is not None and before.tiers == tiers else ()

        def check_rule(rule: Rule) -> None:
            if id(rule) not in checked:
                policy.check(rule, tiers)
            if names[rule.org, rule.name] > 1:  # the two cannot be told apart
                raise InvalidDefinition(f"rule {rule.name!r:.80}: there are two of that name")

        rules = tuple(_valid(self.rules, check_rule, problems))
        pages = tuple(_valid(self.pages, page_patterns.check, problems))
        found = {org: tuple(several) for org, several in problems.items()}
        return replace(self, rules=rules, pages=pages, tiers=tiers, problems=found)

    def with_last_known(self, before: PolicySource) -> PolicySource:
        """The source with the rules and mappings of an earlier policy for each organisation with errors.

        Newer deny rules count, too.
        """
        kept = self.problems.keys() - before.problems.keys()
        if not kept:
            return self
        rest, last, known = (
            self.of(self.orgs - kept),
            before.of(kept),
            {rule.rule_id for rule in before.rules},
        )
        since = (rule for rule in self.of(kept).rules if rule.effect == "deny" and rule.rule_id not in known)
        tiers = before.tiers if "" in kept else self.tiers
        rules, pages = (*rest.rules, *last.rules, *since), rest.pages + last.pages
        return PolicySource(rules, pages, tiers, rest.problems, self.closed).sorted_out(before)

    def failures(self) -> dict[str, tuple[Failure, ...]]:
        """Organisation → the failure in its selections; "" for all selections."""
        return {
            org: (Failure("policy", InvalidDefinition(summary(found))),)
            for org, found in self.wrong().items()
        }

    def wrong(self) -> dict[str, tuple[str, ...]]:
        """Organisation → all of its errors; "" for the platform."""
        orgs = self.problems.keys() | self.closed.keys()
        return {org: (*self.problems.get(org, ()), *self.closed.get(org, ())) for org in orgs}


def _valid(written: Iterable[T], check: Callable[[T], None], problems: dict[str, list[str]]) -> Iterator[T]:
    """Yields the items that pass the check, and adds the errors of the others to `problems`."""
    for one in written:
        try:
            check(one)
        except InvalidDefinition as error:
            problems.setdefault(one.org, []).append(str(error))
        else:
            yield one


@dataclass(frozen=True, slots=True)
class EffectivePolicy:
    """The rules and mappings in effect, whatever errors there are.

    Attributes:
        policy_source: the rules, mappings and tiers in effect, and the organisations that see public
            tools only.
        failures: organisation → the failures in its selections; "" for all selections.
        require_known_tiers: whether an unknown tier of a toolkit is an error; otherwise the toolkit is
            hidden.
        owners: the organisations with rules or errors, "" for the platform.
    """

    policy_source: PolicySource = field(default_factory=PolicySource)
    failures: Mapping[str, tuple[Failure, ...]] = field(default_factory=dict, hash=False, compare=False)
    require_known_tiers: bool = False
    owners: frozenset[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        source = self.policy_source
        owners = (*(rule.org for rule in source.rules), *source.wrong())
        object.__setattr__(self, "owners", frozenset(owners))

    @classmethod
    def validated(cls, written: PolicySource) -> EffectivePolicy:
        """The policy of rules that the caller passes, which must all be valid.

        Raises:
            InvalidDefinition: see `PolicySource.check`.
        """
        written.check()
        return cls(written, require_known_tiers=True)

    @classmethod
    def of(
        cls, written: PolicySource, on_error: OnPolicyError, known: EffectivePolicy | None
    ) -> EffectivePolicy:
        """The valid rules and mappings; `on_error` decides about an organisation with errors.

        "last_known": its rules and mappings in `known` count, and its new deny rules. If `known` has none, or
        if there are other errors, "closed" applies. "closed": its contexts see only those public tools that
        the other rules allow; an error of the platform closes all contexts. "open": only names the failure.

        known: the policy before this one.
        """
        before = PolicySource() if known is None else known.policy_source
        source = counts = written.sorted_out(before if on_error == "last_known" else PolicySource())
        if on_error == "open":
            counts = replace(source, problems={}, closed={})
        elif on_error == "last_known" and known is not None:
            counts = source.with_last_known(before)
        return cls(counts, source.failures())

    def concerning(self, org: str) -> EffectivePolicy:
        """The part for one organisation: the platform's rules and its own."""
        return EffectivePolicy(self.policy_source.of(("", org)), require_known_tiers=self.require_known_tiers)

    def concerns_otherwise(self, before: EffectivePolicy) -> Callable[[str], bool]:
        """A function that tells whether an organisation's part differs from an earlier policy. O(rules)."""
        now, then = _by_owner(self.policy_source), _by_owner(before.policy_source)
        changed = {org for org in now.keys() | then.keys() if now.get(org) != then.get(org)}
        tiers_differ = self.policy_source.tiers != before.policy_source.tiers
        return lambda org: tiers_differ or "" in changed or org in changed

    def stages(
        self, catalog: Catalog, platform: Policy | None = None, before: Policy | None = None
    ) -> tuple[Visibility, PageTable]:
        """The rules and the page mappings as stages over a catalog.

        platform: the policy of the shared catalog under the same rules; its platform rules are used here,
        too.
        before: an earlier policy over this catalog, see `Policy.of`.

        Raises:
            InvalidDefinition: a toolkit's tier is unknown, and `require_known_tiers` is set.
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
        return self._visibility(compiled, catalog.not_public), table

    def over_list(self, catalog: Catalog, size: int, listed: ListedNames) -> Visibility:
        """The rules over tools that came with a request. None of these tools counts as public.

        size: the number of the list's functions. The rows of its other items come after them.
        """
        source = self.policy_source
        compiled = Policy.of(
            size, source.rules, catalog.names, {}, {}, source.tiers, tools=catalog.tools, listed=listed
        )
        return self._visibility(compiled, Bitset.full(size))

    def _visibility(self, compiled: Policy, not_public: Bitset) -> Visibility:
        closed = {org: summary(found) for org, found in self.policy_source.wrong().items()}
        return Visibility(compiled, closed, not_public)


def _by_owner(source: PolicySource) -> dict[str, list[object]]:
    """Organisation → its rules, mappings and errors, in order."""
    found: dict[str, list[object]] = {}
    parts: tuple[Rule | PageMapping, ...] = (*source.rules, *source.pages)
    for one in parts:
        found.setdefault(one.org, []).append(one)
    for org, problems in source.wrong().items():
        found.setdefault(org, []).append(problems)
    return found


def summary(problems: Sequence[str]) -> str:
    """The first problems, and the number of the others."""
    shown, others = "; ".join(sorted(problems)[:_SHOWN]), len(problems) - _SHOWN
    return f"{shown}; and {others} more" if others > 0 else shown
