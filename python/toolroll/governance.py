"""Rules and page mappings as they are in force, and what they become over one catalog."""

from __future__ import annotations

from dataclasses import dataclass, replace

from toolroll.catalog import Catalog
from toolroll.errors import InvalidDefinition
from toolroll.pages import NO_PAGES, PageTable
from toolroll.policy import Policy
from toolroll.rules import OnPolicyError, PageMapping, Rule
from toolroll.selection import Failure
from toolroll.stages.page import Page
from toolroll.stages.visibility import Visibility


@dataclass(frozen=True, slots=True)
class Governance:
    """Who sees what, and what belongs to which page.

    Attributes:
        rules, pages: of the platform and of organisations.
        tiers: lowest first.
        error: why the rules could not be read; None where they could.
    """

    rules: tuple[Rule, ...] = ()
    pages: tuple[PageMapping, ...] = ()
    tiers: tuple[str, ...] = ()
    error: Exception | None = None

    def of(self, org: str) -> Governance:
        """What concerns this organisation: the platform's and its own."""
        orgs = ("", org)
        return replace(
            self,
            rules=tuple(rule for rule in self.rules if rule.org in orgs),
            pages=tuple(page for page in self.pages if page.org in orgs),
        )

    def stages(self, catalog: Catalog, platform: Policy | None = None) -> tuple[Visibility, Page]:
        """The two stages over a catalog.

        platform: the shared catalog's policy, whose rules of the platform hold here too.

        Raises:
            InvalidDefinition: a rule or mapping cannot be read, or `error` says so.
        """
        if self.error is not None:
            raise InvalidDefinition(f"rules cannot be read: {self.error}") from self.error
        if platform is not None and platform.tiers != self.tiers:
            platform = None
        rules = self.rules if platform is None else tuple(rule for rule in self.rules if rule.org)
        policy = Policy.of(
            len(catalog),
            rules,
            catalog.names,
            catalog.below,
            catalog.toolkits,
            self.tiers,
            platform=platform,
        )
        return Visibility(policy), Page(PageTable.of(len(catalog), self.pages, catalog.below))


@dataclass(frozen=True, slots=True, eq=False)
class Governed:
    """The two stages that are in force over a catalog, whatever could be read.

    Attributes:
        visibility, page: the stages.
        failures: what every selection has to say of them.
    """

    visibility: Visibility
    page: Page
    failures: tuple[Failure, ...] = ()

    @classmethod
    def of(
        cls,
        catalog: Catalog,
        governance: Governance,
        on_error: OnPolicyError,
        last_known: Governance | None,
        platform: Policy | None = None,
    ) -> Governed:
        """Rules that cannot be read close the catalog, unless `on_error` has something better.

        last_known: what was in force before; with "last_known" it stays so over the new catalog.
        platform: see `Governance.stages`.
        """
        try:
            return cls(*governance.stages(catalog, platform))
        except InvalidDefinition as error:
            failure = Failure("policy", error)
            if on_error == "open":
                return cls(Visibility(None), Page(NO_PAGES), (failure,))
            if on_error == "last_known" and last_known is not None:
                try:
                    return cls(*last_known.stages(catalog), (failure,))
                except InvalidDefinition:
                    pass  # not even those fit the new catalog, such as a toolkit's tier that is no more
            return cls(Visibility(None, error), Page(NO_PAGES), (failure,))
