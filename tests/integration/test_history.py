"""What a registry was as of an earlier revision."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from tests.integration.governance import Governed
from toolroll import Tool, Toolkit
from toolroll.model.errors import NotFound, ToolrollError
from toolroll.model.rules import PageMapping, Rule
from toolroll.model.tools import Definitions, Route
from toolroll.registry.follow.history import as_of, earlier
from toolroll.registry.follow.replica import Replica, catch_up
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

ORGS = ("", "acme", "blue")


def seen(replica: Replica, org: str) -> tuple[Any, ...]:
    """All that decides for an organisation."""
    policy_source = replica.policy_source.of(("", org))
    return (
        replica.definitions("").toolkits,
        replica.definitions("").routes,
        sorted(replica.definitions("").tools, key=lambda tool: tool.name),
        replica.definitions(org).toolkits,
        replica.definitions(org).routes,
        sorted(replica.definitions(org).tools, key=lambda tool: tool.name),
        sorted(policy_source.rules, key=lambda rule: rule.rule_id),
        sorted(policy_source.pages, key=lambda page: page.page_id),
        policy_source.tiers,
    )


class Walk:
    """People and plugins who change a registry at random; what they may not do is refused and skipped."""

    def __init__(self, database: Database, seed: int) -> None:
        self.registry, self.governed = Registry(database, actor="ann"), Governed(database)
        self.draw = random.Random(seed)
        self.steps: tuple[Callable[[], Any], ...] = (
            self.put_toolkit, self.put_toolkit, self.drop_toolkit, self.restore_toolkit,
            self.add_tool, self.add_tool, self.change_tool, self.drop_tool, self.restore_tool, self.rollback,
            self.add_rule, self.change_rule, self.rename_rule, self.switch_rule, self.drop_rule,
            self.add_page, self.change_page, self.drop_page, self.sync, self.sync, self.tiers, self.judge,
        )  # fmt: skip

    def step(self) -> None:
        with contextlib.suppress(ToolrollError):
            self.draw.choice(self.steps)()

    def org(self) -> str:
        return self.draw.choice(ORGS)

    def name(self, kind: str) -> str:
        return f"{kind}_{self.draw.choice('abc')}"

    def put_toolkit(self) -> None:
        name, said = self.name("kit"), self.draw.choice(("one", "two"))
        members = ("tool_*",) if said == "two" else ()
        kit = Toolkit(name, said, None, (), self.draw.random() < 0.3, None, members)
        self.governed.toolkits.put(kit, keywords=[self.draw.choice("xyz")], org=self.org())

    def drop_toolkit(self) -> None:
        self.governed.toolkits.delete(self.name("kit"), org=self.org())

    def restore_toolkit(self) -> None:
        self.governed.toolkits.restore(self.name("kit"), org=self.org())

    def add_tool(self) -> None:
        tool = Tool(self.name("tool"), self.draw.choice(("does", "makes")), tags=("t",), examples=("do it",))
        self.registry.create(tool, org=self.org())

    def change_tool(self) -> None:
        changes = self.draw.choice(({"description": f"text {self.draw.random()}"}, {"public": True}))
        name, org = self.name("tool"), self.org()
        self.registry.update(name, changes, version=self.registry.tool(name, org=org).version, org=org)

    def drop_tool(self) -> None:
        self.registry.delete(self.name("tool"), org=self.org())

    def restore_tool(self) -> None:
        self.registry.restore(self.name("tool"), org=self.org())

    def rollback(self) -> None:
        self.registry.rollback(self.name("tool"), self.draw.randint(1, 3), org=self.org())

    def add_rule(self) -> None:
        condition = {"user": {"eq": self.draw.choice("uv")}}
        rule = Rule(
            self.name("rule"), "deny", "composite", condition, toolkit=self.name("kit"), org=self.org()
        )
        self.governed.rules.add(rule, active=self.draw.random() < 0.8)

    def change_rule(self) -> None:
        self.governed.rules.update(self.name("rule"), {"priority": self.draw.randint(0, 9)}, org=self.org())

    def rename_rule(self) -> None:
        self.governed.rules.update(self.name("rule"), {"name": self.name("rule")}, org=self.org())

    def switch_rule(self) -> None:
        self.draw.choice((self.governed.rules.enable, self.governed.rules.disable))(
            self.name("rule"), org=self.org()
        )

    def drop_rule(self) -> None:
        self.governed.rules.delete(self.name("rule"), org=self.org())

    def add_page(self) -> None:
        self.governed.pages.add(
            PageMapping(self.name("page"), (self.name("kit"),), self.draw.randint(0, 2), self.org())
        )

    def page_id(self) -> str:
        return self.draw.choice([page.mapping.page_id for page in self.governed.pages.list()] or ["none"])

    def change_page(self) -> None:
        self.governed.pages.update(self.page_id(), {"priority": self.draw.randint(0, 9)})

    def drop_page(self) -> None:
        self.governed.pages.delete(self.page_id())

    def sync(self) -> None:
        def some(of: str) -> list[str]:
            return [f"{of}_{letter}" for letter in "def" if self.draw.random() < 0.6]

        kits = some("kit")
        self.registry.sync(
            Definitions(
                tuple(Tool(name, self.draw.choice(("one", "two")), toolkit="kit_d") for name in some("tool")),
                tuple(Toolkit(name, self.draw.choice(("one", "two"))) for name in {*kits, "kit_d"}),
                tuple(Route((name,), (self.draw.choice("xyz"),)) for name in kits),
                (),
                tuple(
                    PageMapping(self.name("page"), ("kit_d",), self.draw.randint(0, 2)) for _ in some("page")
                ),
            ),
            plugin="p",
            org=self.draw.choice(("", "acme")),
            review=self.draw.choice(("auto", "auto", "changed", "all")),
            while_waiting=self.draw.choice(("hidden", "approved", "approved")),
        )

    def judge(self) -> None:
        for record in self.registry.tools(org=(org := self.org()), review="changed").records[:1]:
            self.draw.choice((self.registry.approve, self.registry.reject))(record.name, org=org)

    def tiers(self) -> None:
        self.registry.set_tiers(self.draw.sample(("free", "pro", "max"), 2))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_every_revision_is_as_it_was_read_then(database: Database, seed: int) -> None:
    walk = Walk(database, seed)
    read: dict[int, Replica] = {}
    for _ in range(220):
        walk.step()
        replica = catch_up(database, Replica())
        read[replica.revision] = replica
    assert len(read) > 50
    done = {change.action for change in walk.governed.audit.list(limit=1_000)}
    assert {"page.delete", "rule.update", "toolkit.restore", "toolkit.delete", "tiers.set"} <= done
    for revision, replica in list(read.items())[::3]:
        for org in ORGS:
            assert seen(as_of(database, revision, [org]), org) == seen(replica, org), (revision, org)


def test_catalogs_differ_only_between_the_revisions_that_are_named(database: Database) -> None:
    walk = Walk(database, 7)
    read: dict[int, Replica] = {}
    for _ in range(120):
        walk.step()
        replica = catch_up(database, Replica())
        read[replica.revision] = replica
    newest = max(read)
    named = earlier(database, newest, ORGS, 10_000)
    assert named == sorted(named, reverse=True) and named[-1] == 0
    boundaries = {number + 1 for number in named}
    revisions = sorted(read)
    for before, after in itertools.pairwise(revisions):
        if not boundaries & set(range(before + 1, after + 1)):
            for org in ORGS:
                assert seen(read[before], org)[:6] == seen(read[after], org)[:6]
    assert earlier(database, newest, ORGS, 3) == named[:3]


def test_what_another_organisation_changes_makes_no_other_catalog_here(database: Database) -> None:
    registry = Registry(database)
    for org in ("blue", "", "acme", "blue"):
        registry.create(Tool(f"tool_{org}_{catch_up(database, Replica()).revision}"), org=org)
    assert earlier(database, 4, ["acme"], 10) == [2, 1]


def test_an_empty_registry_was_empty_at_the_beginning(database: Database) -> None:
    Registry(database).create(Tool("mail", "sends"))
    was = as_of(database, 0, ["acme"])
    assert not was.tools and not was.toolkits and not was.policy_source.rules


def test_a_revision_that_is_not_there_is_said_to_be_missing(database: Database) -> None:
    for revision in (-1, 1):
        with pytest.raises(NotFound, match=f"revision {revision} does not exist, it is at 0"):
            as_of(database, revision, ())


def test_a_change_that_left_no_line_is_said_to_be_missing(database: Database) -> None:
    Governed(database).toolkits.put(Toolkit("mail"))
    with database.writing("ann") as write:  # past the registry
        write.log("tool.create", "x")
        write.connection.execute(
            sa.update(tables.toolkits), {"description": "new", "revision": write.revision}
        )
    with pytest.raises(
        NotFound, match="toolkit 'mail' has changed since, and the audit log does not say how"
    ):
        as_of(database, 1, ())
