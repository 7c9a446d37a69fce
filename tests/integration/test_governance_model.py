"""Whatever is done to toolkits, rules, pages and tiers, in whatever order: as with dictionaries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from toolroll import Toolkit
from toolroll.model.errors import Conflict, InvalidDefinition, NotFound, ToolrollError
from toolroll.model.rules import PageMapping, Rule
from toolroll.registry.editing.tiers import read_tiers, set_tiers
from toolroll.registry.store.database import Database

from .governance import Governed

pytestmark = pytest.mark.slow

ORGS = ("", "acme")
NAMES = ("a", "b", "c")
TIERS = ("free", "pro", "max")

orgs, names = st.sampled_from(ORGS), st.sampled_from(NAMES)
tiers = st.just(TIERS) | st.lists(st.sampled_from(TIERS), unique=True).map(tuple)
versions = st.sampled_from(("any", "any", "any", "read", "read", "stale"))

Key = tuple[str, str]  # organisation and name


@dataclass
class Kit:
    parent: str | None
    tier: str | None
    keyword: str
    version: int = 1


@dataclass
class Ruling:
    toolkit: str
    tier: str
    priority: int
    active: bool = True
    version: int = 1


@dataclass
class Page:
    org: str
    pattern: str
    toolkits: tuple[str, ...]
    version: int = 1


class Dictionaries(RuleBasedStateMachine):
    """The registry beside its model. What the model refuses, the registry must, by the same error."""

    new_url: Callable[[], str]

    @initialize()
    def open(self) -> None:
        self.database = Database.open(type(self).new_url(), create=False, migrate=False)
        self.governed = Governed(self.database)
        self.kits: dict[Key, Kit] = {}
        self.deleted: dict[Key, list[Kit]] = {}
        self.rules: dict[Key, Ruling] = {}
        self.pages: dict[str, Page] = {}
        self.tiers: tuple[str, ...] = ()
        self.changes = 0
        # Something to begin with: most of what can be done needs something that is there.
        self.order_tiers(TIERS)
        for org, name, parent in (("", "a", None), ("", "b", "a"), ("acme", "c", "a")):
            self.put(org, name, parent, None, name, "any")
            self.add_rule(org, name, name, "pro", 0)

    def teardown(self) -> None:
        if hasattr(self, "database"):
            self.database.close()

    def attempt(self, expected: type[ToolrollError] | None, call: Callable[[], Any]) -> Any:
        if expected is None:
            return call()
        with pytest.raises(ToolrollError) as caught:
            call()
        assert type(caught.value) is expected, caught.value
        return None

    def said(self, version: str, thing: Any) -> int | None:
        """The version that a caller names who has read it, has read it long ago, or doesn't care."""
        held = 0 if thing is None else thing.version
        return {"any": None, "read": held, "stale": held + 1}[version]

    # What the model says.

    def sees(self, org: str, name: str) -> bool:
        return (org, name) in self.kits or ("", name) in self.kits

    def is_circle(self, org: str, name: str, parent: str) -> bool:
        seen, ends = set(), {parent}
        while ends - seen:
            seen |= ends
            held = [
                self.kits.get((whose, end))
                for whose in {"", org}
                for end in ends
                if (whose, end) != (org, name)
            ]
            ends = {kit.parent for kit in held if kit is not None and kit.parent is not None}
        return name in seen

    def is_wrong(self, org: str, name: str, kit: Kit) -> bool:
        if kit.tier is not None and kit.tier not in self.tiers:
            return True
        if kit.parent is None:
            return False
        known = kit.parent == name or self.sees(org, kit.parent)
        return not known or self.is_circle(org, name, kit.parent)

    def is_used(self, org: str, name: str) -> bool:
        if org and ("", name) in self.kits:
            return False
        return any(
            kit.parent == name and (whose == org or (not org and (whose, name) not in self.kits))
            for (whose, _), kit in self.kits.items()
        )

    # What is done.

    @rule(tiers=tiers)
    def order_tiers(self, tiers: tuple[str, ...]) -> None:
        needed = {kit.tier for kit in self.kits.values()} | {ruling.tier for ruling in self.rules.values()}
        expected = Conflict if needed - {None} - {*tiers} and tiers != self.tiers else None
        self.attempt(expected, lambda: set_tiers(self.database, "ann", tiers))
        if expected is None and tiers != self.tiers:
            self.tiers = tiers
            self.changes += 1

    @rule(
        org=orgs,
        name=names,
        parent=st.none() | names,
        tier=st.sampled_from((None, None, None, *TIERS)),
        keyword=st.sampled_from(("x", "y")),
        version=versions,
    )
    def put(
        self, org: str, name: str, parent: str | None, tier: str | None, keyword: str, version: str
    ) -> None:
        old = self.kits.get((org, name))
        new = Kit(parent, tier, keyword, 1 if old is None else old.version + 1)
        expected: type[ToolrollError] | None = None
        if version == "stale":
            expected = Conflict
        elif self.is_wrong(org, name, new):
            expected = InvalidDefinition
        toolkit, said = Toolkit(name, parent=parent, tier=tier), self.said(version, old)
        self.attempt(
            expected,
            lambda: self.governed.toolkits.put(toolkit, keywords=[keyword], org=org, version=said),
        )
        is_same = old is not None and (parent, tier, keyword) == (old.parent, old.tier, old.keyword)
        if expected is None and not is_same:
            self.kits[org, name] = new
            self.changes += 1

    @rule(org=orgs, name=names, version=versions)
    def delete(self, org: str, name: str, version: str) -> None:
        kit = self.kits.get((org, name))
        expected: type[ToolrollError] | None = None
        if kit is None:
            expected = NotFound
        elif version == "stale" or self.is_used(org, name):
            expected = Conflict
        said = self.said(version, kit)
        self.attempt(expected, lambda: self.governed.toolkits.delete(name, org=org, version=said))
        if expected is None:
            kit = self.kits.pop((org, name))
            kit.version += 1
            self.deleted.setdefault((org, name), []).append(kit)
            self.changes += 1

    @rule(org=orgs, name=names)
    def restore(self, org: str, name: str) -> None:
        expected: type[ToolrollError] | None = None
        kits = self.deleted.get((org, name))
        if (org, name) in self.kits:
            expected = Conflict
        elif not kits:
            expected = NotFound
        elif self.is_wrong(org, name, kits[-1]):
            expected = InvalidDefinition
        self.attempt(expected, lambda: self.governed.toolkits.restore(name, org=org))
        if expected is None and kits:
            kit = self.kits[org, name] = kits.pop()
            kit.version += 1
            self.changes += 1

    @rule(org=orgs, name=names, toolkit=names, tier=st.sampled_from(TIERS), priority=st.integers(0, 2))
    def add_rule(self, org: str, name: str, toolkit: str, tier: str, priority: int) -> None:
        expected: type[ToolrollError] | None = None
        if (org, name) in self.rules:
            expected = Conflict
        elif tier not in self.tiers or not self.sees(org, toolkit):
            expected = InvalidDefinition
        added = Rule(name, "deny", "tier", {"tier": {"lt": tier}}, "", toolkit, priority, org)
        self.attempt(expected, lambda: self.governed.rules.add(added))
        if expected is None:
            self.rules[org, name] = Ruling(toolkit, tier, priority)
            self.changes += 1

    @rule(org=orgs, name=names, toolkit=st.none() | names, priority=st.integers(0, 2), version=versions)
    def update_rule(self, org: str, name: str, toolkit: str | None, priority: int, version: str) -> None:
        ruling = self.rules.get((org, name))
        wanted = {"priority": priority, **({} if toolkit is None else {"toolkit": toolkit})}
        expected: type[ToolrollError] | None = None
        if ruling is None:
            expected = NotFound
        elif version == "stale":
            expected = Conflict
        elif toolkit not in (None, ruling.toolkit) and not self.sees(org, str(toolkit)):
            expected = InvalidDefinition
        said = self.said(version, ruling)
        self.attempt(expected, lambda: self.governed.rules.update(name, wanted, org=org, version=said))
        if expected is None and ruling is not None:
            target = toolkit or ruling.toolkit
            if (target, priority) != (ruling.toolkit, ruling.priority):
                ruling.toolkit, ruling.priority = target, priority
                ruling.version += 1
                self.changes += 1

    @rule(org=orgs, name=names, active=st.booleans(), version=versions)
    def switch_rule(self, org: str, name: str, active: bool, version: str) -> None:
        ruling = self.rules.get((org, name))
        expected: type[ToolrollError] | None = None
        if ruling is None:
            expected = NotFound
        elif version == "stale":
            expected = Conflict
        elif active and not ruling.active and not self.sees(org, ruling.toolkit):
            expected = InvalidDefinition
        switch = self.governed.rules.enable if active else self.governed.rules.disable
        self.attempt(expected, lambda: switch(name, org=org, version=self.said(version, ruling)))
        if expected is None and ruling is not None and ruling.active != active:
            ruling.active = active
            ruling.version += 1
            self.changes += 1

    @rule(org=orgs, name=names)
    def delete_rule(self, org: str, name: str) -> None:
        expected = None if (org, name) in self.rules else NotFound
        self.attempt(expected, lambda: self.governed.rules.delete(name, org=org))
        if expected is None:
            del self.rules[org, name]
            self.changes += 1

    @rule(org=orgs, pattern=st.sampled_from(("x", "x*")), toolkits=st.lists(names, min_size=1, max_size=2))
    def add_page(self, org: str, pattern: str, toolkits: list[str]) -> None:
        expected: type[ToolrollError] | None = None
        if not all(self.sees(org, toolkit) for toolkit in toolkits):
            expected = InvalidDefinition
        elif any(
            (page.org, page.pattern, {*page.toolkits}) == (org, pattern, {*toolkits})
            for page in self.pages.values()
        ):
            expected = Conflict
        mapping = PageMapping(pattern, tuple(toolkits), org=org)
        record = self.attempt(expected, lambda: self.governed.pages.add(mapping))
        if record is not None:
            self.pages[record.page_id] = Page(org, pattern, tuple(toolkits))
            self.changes += 1

    @rule(at=st.integers(0, 3), version=versions)
    def delete_page(self, at: int, version: str) -> None:
        page_id = [*self.pages, "nowhere"][min(at, len(self.pages))]
        page = self.pages.get(page_id)
        expected: type[ToolrollError] | None = None
        if page is None:
            expected = NotFound
        elif version == "stale":
            expected = Conflict
        said = self.said(version, page)
        self.attempt(expected, lambda: self.governed.pages.delete(page_id, version=said))
        if expected is None:
            del self.pages[page_id]
            self.changes += 1

    # What holds after each.

    @invariant()
    def is_what_the_model_says(self) -> None:
        if not hasattr(self, "database"):
            return
        governed = self.governed
        assert self.database.revision() == self.changes == len(governed.audit.list(after=0, limit=1000))
        assert read_tiers(self.database) == self.tiers
        kits = {(it.org, it.name): it for org in ORGS for it in governed.toolkits.list(org)}
        assert {
            key: Kit(it.toolkit.parent, it.toolkit.tier, it.keywords[0][0], it.version)
            for key, it in kits.items()
        } == self.kits
        assert {
            (it.rule.org, it.name): Ruling(
                it.rule.toolkit, it.rule.condition["tier"]["lt"], it.rule.priority, it.active, it.version
            )
            for it in governed.rules.list()
        } == self.rules
        assert {
            it.page_id: Page(it.mapping.org, it.mapping.pattern, it.mapping.toolkits, it.version)
            for it in governed.pages.list()
        } == self.pages

    @invariant()
    def every_organisation_has_a_tree(self) -> None:
        for org in ORGS if hasattr(self, "database") else ():
            tree = {name: kit for (whose, name), kit in self.kits.items() if whose == org}
            tree |= {name: kit for (whose, name), kit in self.kits.items() if not whose}
            for name, kit in tree.items():
                way = [name]
                while kit.parent is not None:
                    assert kit.parent in tree and kit.parent not in way
                    way.append(kit.parent)
                    kit = tree[kit.parent]


@pytest.mark.parametrize(("dialect", "examples", "steps"), [("sqlite", 30, 40), ("postgresql", 4, 30)])
def test_governance_is_as_with_dictionaries(
    dialect: str, examples: int, steps: int, new_database_url: Callable[[str], str]
) -> None:
    class Machine(Dictionaries):
        new_url = staticmethod(lambda: new_database_url(dialect))

    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        ),
    )
