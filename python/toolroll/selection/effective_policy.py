"""Rules and page mappings: as written, as effective when some cannot be read, and as stages of a catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from toolroll.catalog.catalog import Catalog
from toolroll.errors import Failure, InvalidDefinition
from toolroll.rules import OnPolicyError, PageMapping, Rule
from toolroll.selection.policy import pages as page_patterns
from toolroll.selection.policy import policy
from toolroll.selection.policy.pages import PageTable
from toolroll.selection.policy.policy import Policy
from toolroll.selection.stages.page import Page
from toolroll.selection.stages.visibility import Visibility


@dataclass(frozen=True, slots=True)
class PolicySource:
    """Rules and page mappings as they are written.

    Attributes:
        rules, pages: of the platform ("") and of organisations.
        tiers: lowest first.
        broken: organisation → why its rules or mappings cannot be read.
        unread: why nothing at all could be read; None where it could.
    """

    rules: tuple[Rule, ...] = ()
    pages: tuple[PageMapping, ...] = ()
    tiers: tuple[str, ...] = ()
    broken: Mapping[str, Exception] = field(default_factory=dict, hash=False)
    unread: Exception | None = None

    @property
    def authors(self) -> frozenset[str]:
        """Whose rules and mappings these are."""
        return frozenset({rule.org for rule in self.rules} | {page.org for page in self.pages})

    def of(self, orgs: Iterable[str]) -> PolicySource:
        """The rules and mappings of these organisations; "" is the platform."""
        wanted = frozenset(orgs)
        return PolicySource(
            tuple(rule for rule in self.rules if rule.org in wanted),
            tuple(page for page in self.pages if page.org in wanted),
            self.tiers,
            {org: error for org, error in self.broken.items() if org in wanted},
        )

    def check(self) -> None:
        """Raises what is wrong with a rule or a mapping.

        Raises:
            InvalidDefinition: see `policy.check` and `pages.check`; or two rules have one name.
        """
        for error in (self.unread, *self.broken.values()):
            if error is not None:
                raise error
        names = set()
        for rule in self.rules:
            policy.check(rule, self.tiers)
            if (rule.org, rule.name) in names:
                raise InvalidDefinition(f"rule {rule.name!r:.80}: there are two of that name", field="name")
            names.add((rule.org, rule.name))
        for page in self.pages:
            page_patterns.check(page)

    def sound_denials(self, known: Iterable[Rule]) -> tuple[Rule, ...]:
        """Readable deny rules whose names are not among the known: such rules can only hide more."""
        names, sound = {rule.name for rule in known}, []
        for rule in self.rules:
            if rule.effect == "deny" and rule.name not in names:
                try:
                    policy.check(rule, self.tiers)
                except InvalidDefinition:
                    continue
                names.add(rule.name)
                sound.append(rule)
        return tuple(sound)

    def errors(self) -> dict[str, Exception]:
        """Organisation → why its rules or mappings cannot be read; a broken one breaks no other."""
        found = dict(self.broken)
        for org in self.authors - found.keys():
            try:
                self.of((org,)).check()
            except InvalidDefinition as error:
                found[org] = error
        return found


@dataclass(frozen=True, slots=True)
class EffectivePolicy:
    """The rules and mappings that count, whatever could be read.

    Attributes:
        policy_source: the rules, mappings and tiers that count; nothing in it is broken.
        closed: organisation → why its contexts see public tools only; "" for all contexts.
        failures: organisation → the failures that its selections name; "" for all selections.
        require_known_tiers: whether a toolkit's tier that is not configured is an error; otherwise nobody
            sees the toolkit.
    """

    policy_source: PolicySource = field(default_factory=PolicySource)
    closed: Mapping[str, Exception] = field(default_factory=dict, hash=False)
    failures: Mapping[str, tuple[Failure, ...]] = field(default_factory=dict, hash=False, compare=False)
    require_known_tiers: bool = False

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
        """What can be read, and for the rest what `on_error` says.

        An organisation whose rules cannot be read sees public tools only. With "last_known" it keeps its
        rules in `known`, if there are any, beside its readable deny rules. With "open" it has no rules.

        known: the policy before this one.
        """
        if written.unread is not None:
            failures = {"": (Failure("policy", written.unread),)}
            if on_error == "last_known" and known is not None:
                return replace(known, failures=failures)
            return cls(closed={} if on_error == "open" else {"": written.unread}, failures=failures)
        errors = written.errors()
        if not errors:
            return cls(written)
        kept = written.of(written.authors - errors.keys())
        closed = {}
        for org, error in errors.items():
            before = PolicySource() if known is None else known.policy_source.of((org,))
            before = replace(before, tiers=written.tiers)
            if on_error == "last_known" and before.rules and not before.errors():
                rules = before.rules + written.of((org,)).sound_denials(before.rules)
                kept = replace(kept, rules=kept.rules + rules, pages=kept.pages + before.pages)
            elif on_error != "open":
                closed[org] = error
        return cls(kept, closed, {org: (Failure("policy", error),) for org, error in errors.items()})

    def concerning(self, org: str) -> EffectivePolicy:
        """The part for one organisation: the platform's rules and its own."""
        orgs = ("", org)
        return EffectivePolicy(
            self.policy_source.of(orgs),
            {name: error for name, error in self.closed.items() if name in orgs},
            require_known_tiers=self.require_known_tiers,
        )

    def stages(self, catalog: Catalog, platform: Policy | None = None) -> tuple[Visibility, Page]:
        """The two stages over a catalog.

        platform: the policy of the shared catalog under the same rules, whose platform's hold here too.

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
            require_known_tiers=self.require_known_tiers,
        )
        table = PageTable.of(len(catalog), policy_source.pages, catalog.below)
        return Visibility(compiled, self.closed), Page(table)
