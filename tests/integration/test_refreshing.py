"""What goes wrong for one, or for a while, while a registry is followed: nobody else notices, and it is said."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from toolroll import Context, Follow, Profile, Tool, Toolroll
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.model.errors import EmbedderUnavailable, InvalidDefinition, StoreUnavailable
from toolroll.model.rules import Rule
from toolroll.model.tools import Toolkit
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables

pytestmark = pytest.mark.slow

ACME, GLOBEX, NOBODY = Context(org="acme"), Context(org="globex"), Context()
SOON_S = 60.0


@pytest.fixture
def registry(database_url: str) -> Iterator[Registry]:
    with Registry.open(database_url, actor="ada") as opened:
        for at in range(4):
            opened.create(Tool(f"plat_{at}", f"serves the platform, number {at}", public=at == 0))
        for org in ("acme", "globex"):
            opened.create(Tool(f"{org}_tool", f"serves {org}"), org=org)
        yield opened


@pytest.fixture
def roll(registry: Registry, database_url: str) -> Iterator[Toolroll]:
    with Toolroll.open(database_url, follow=Follow(poll_s=0.2)) as opened:
        opened.warm_up()
        yield opened


def names(roll: Toolroll, context: Context) -> set[str]:
    return set(roll.select("serves", context, k=50).names)


def soon(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON_S
    while not holds():
        assert time.monotonic() < deadline, "never came true"
        time.sleep(0.01)


def deny(name: str, tool: str, org: str = "") -> Rule:
    return Rule(name, "deny", "composite", {"all": []}, tool=tool, org=org)


def write(
    registry: Registry, table: sa.Table, where: sa.ColumnElement[bool], org: str = "", **values: object
) -> None:
    """Changes rows of an organisation past the registry, as somebody with SQL would."""
    with registry.database.writing("nobody", org) as writing:
        statement = sa.update(table).where(where).values(**values, revision=writing.revision)
        writing.connection.execute(statement)
        writing.log("damage", table.name)


def overwrite(registry: Registry, toolkit: str, **values: object) -> None:
    """Changes a toolkit past the registry."""
    write(registry, tables.toolkits, tables.toolkits.c.name == toolkit, **values)


def test_a_change_of_one_organisation_forgets_no_other_that_waits_for_the_platforms(registry, roll):
    for at in range(40):
        registry.create(Tool(f"own_{at}", "serves one"), org=f"org-{at}")
    roll.refresh()
    roll.warm_up()
    registry.update("plat_1", {"description": "serves the platform anew"}, version=1)
    roll.refresh()
    registry.update("own_3", {"description": "serves one better"}, version=1, org="org-3")
    registry.settings.set("key", "value", org="org-5")
    roll.refresh()
    is_done = {"ready": 42, "waiting": 0, "unread": 0, "failing": []}
    soon(lambda: roll.health()["organisations"] == is_done)
    for at in range(40):
        picked = roll.select("serves", Context(org=f"org-{at}"), k=50)
        assert picked.check("plat_1").description == "serves the platform anew"


def test_a_broken_rule_of_one_organisation_concerns_it_alone(registry, roll, database_url):
    registry.rules.add(deny("fire bob", "plat_1", "acme"))
    roll.refresh()
    rules = tables.visibility_rules
    write(registry, rules, rules.c.org == "acme", "acme", active=False)
    registry.rules.add(deny("not now", "plat_2"))
    roll.refresh()
    for context in (GLOBEX, NOBODY, Context(org="others")):
        picked = roll.select("serves", context, k=50)
        assert picked.degraded == () and "fire bob" not in str(picked.to_dict())
        assert "plat_1" in picked.names and "plat_2" not in picked.names
    assert roll.select("serves", ACME, k=50).degraded == ("policy",)
    assert not names(roll, ACME) & {"plat_1", "plat_2"}  # the last known one counts
    assert roll.health()["organisations"]["failing"] == ["acme"]
    with Toolroll.open(database_url) as fresh:  # which has known none
        fresh.warm_up()
        assert names(fresh, ACME) == {"plat_0"}  # which is public
        assert names(fresh, GLOBEX) == {"plat_0", "plat_1", "plat_3", "globex_tool"}


def test_a_public_tool_that_the_platform_denies_stays_hidden_beside_a_broken_rule(registry, database_url):
    registry.rules.add(deny("not now", "plat_0"))
    registry.rules.add(Rule("own", "allow", "composite", {"all": []}, tool="acme_tool", org="acme"))
    rules = tables.visibility_rules
    write(registry, rules, rules.c.name == "own", "acme", priority=7)
    for choice in ("closed", "last_known"):
        with Toolroll.open(database_url, profile=Profile(on_policy_error=choice)) as fresh:
            fresh.warm_up()
            assert names(fresh, ACME) == set()
            assert not fresh.why("plat_0", ACME).visible
            assert names(fresh, GLOBEX) == {"plat_1", "plat_2", "plat_3", "globex_tool"}
            assert fresh.select("serves", ACME).degraded == ("policy",)
            assert fresh.select("serves", GLOBEX).degraded == ()


def test_beside_a_broken_rule_of_the_platform_new_denials_count_for_everybody(registry, roll):
    registry.rules.add(deny("first", "plat_1"))
    roll.refresh()
    rules = tables.visibility_rules
    registry.rules.add(deny("second", "plat_2"))
    write(registry, rules, rules.c.name == "second", priority=7)
    registry.rules.add(deny("third", "plat_3"))
    roll.refresh()
    for context in (ACME, GLOBEX, NOBODY):
        assert roll.select("serves", context, k=50).degraded == ("policy",)
        assert not names(roll, context) & {"plat_1", "plat_3"}


def test_a_damaged_tool_of_one_organisation_closes_it_and_stops_nobody(registry, roll, database_url):
    registry.create(Tool("acme_secret", "serves the merger"), org="acme")
    write(registry, tables.tools, tables.tools.c.name == "acme_secret", "acme", toolkit="other")
    registry.rules.add(deny("not now", "plat_2"))
    registry.delete("plat_3")
    roll.refresh()
    roll.warm_up()
    for context in (GLOBEX, NOBODY):
        picked = roll.select("serves", context, k=50)
        assert picked.degraded == () and "acme" not in str(picked.to_dict()) + picked.explain()
        assert not set(picked.names) & {"plat_2", "plat_3"}
    assert roll.select("serves", ACME).degraded == ("policy",) and names(roll, ACME) == {"plat_0"}
    with Toolroll.open(database_url) as fresh:
        assert "plat_1" in names(fresh, GLOBEX)


@pytest.mark.parametrize(
    ("org", "parent"),
    [
        ("", "nowhere"),
        ("acme", "child"),
        *(
            pytest.param(org, parent, marks=pytest.mark.slow)
            for org, parent in (("", "kit"), ("", "child"), ("acme", "nowhere"), ("acme", "kit"))
        ),
    ],
)
def test_a_toolkit_whose_parent_is_not_there_closes_its_organisation_alone(
    registry, database_url, org, parent
):
    registry.toolkits.put(Toolkit("kit"), org=org)
    registry.toolkits.put(Toolkit("child", parent="kit"), org=org)
    registry.toolkits.put(Toolkit("other"), org=org)
    for kit in ("kit", "child", "other"):
        registry.create(Tool(f"in_{kit}", "serves", toolkit=kit), org=org)
    overwrite(registry, "kit", parent=parent)
    context = Context(org=org)
    with Toolroll.open(database_url, follow=Follow(poll_s=0.2)) as roll:
        roll.warm_up()
        assert names(roll, context) == {"plat_0"}  # which is public
        assert roll.select("serves", context).degraded == ("policy",)
        assert "toolkits of" in str(roll.health()["why"])
        assert (roll.select("serves", GLOBEX).degraded == ()) == bool(org)
        overwrite(registry, "kit", parent=None)
        roll.refresh()
        roll.warm_up()
        assert {"in_kit", "in_child", "in_other"} <= names(roll, context)
        assert roll.select("serves", context).degraded == ()


def test_rules_follow_while_the_shared_catalog_cannot_be_built(registry, roll):
    registry.rules.add(deny("not now", "plat_1"))
    registry.toolkits.put(Toolkit("kit"))
    roll.refresh()
    overwrite(registry, "kit", patterns=["("])
    with pytest.raises(InvalidDefinition):
        roll.refresh()
    registry.rules.disable("not now")
    soon(lambda: "plat_1" in names(roll, NOBODY) and "plat_1" in names(roll, ACME))
    registry.rules.enable("not now")
    registry.rules.add(deny("own", "plat_2", "acme"))
    soon(lambda: not names(roll, NOBODY) & {"plat_1"} and not names(roll, ACME) & {"plat_1", "plat_2"})
    registry.delete("plat_3")
    soon(lambda: "plat_3" not in names(roll, ACME) | names(roll, NOBODY))
    assert "registry" in roll.select("serves").degraded
    overwrite(registry, "kit", patterns=[])
    roll.refresh()
    soon(lambda: roll.select("serves", ACME).degraded == ())


@pytest.mark.parametrize(
    "change",
    [
        "parent",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("tier", "settings", "moved", "denied")),
    ],
)
def test_after_a_refresh_nothing_of_an_old_policy_counts_though_a_catalog_is_still_old(
    registry, database_url, change
):
    registry.set_tiers(("free", "paid"))
    registry.toolkits.put(Toolkit("top", tier="paid"))
    registry.toolkits.put(Toolkit("kit"))
    registry.update("plat_1", {"toolkit": "kit"}, version=1)
    with Toolroll.open(database_url, follow=Follow(poll_s=0.2)) as roll:
        roll.warm_up()
        context = Context(org="acme", tier="free")
        assert {"plat_1", "acme_tool"} <= names(roll, context)
        reconciler = roll._home._refresher._reconciler
        reconciler.may_build = lambda org: not org  # the organisation's own catalog stays as it is
        if change == "tier":
            registry.toolkits.put(Toolkit("kit", tier="paid"))
        elif change == "settings":
            registry.toolkits.put(Toolkit("kit", settings_keys=("key",)))
        elif change == "parent":
            registry.toolkits.put(Toolkit("kit", parent="top"))
        elif change == "moved":
            registry.update("plat_1", {"toolkit": "top"}, version=2)
        else:
            registry.toolkits.put(Toolkit("new"))
            registry.toolkits.put(Toolkit("kit", parent="new"))
            registry.rules.add(Rule("no", "deny", "composite", {"all": []}, toolkit="new"))
        roll.refresh()
        assert "plat_1" not in names(roll, context) | names(roll, NOBODY)
        assert "acme_tool" in names(roll, context)


def test_at_the_limit_of_organisations_old_catalogs_are_still_renewed(registry, database_url):
    with Toolroll.open(database_url, follow=Follow(organisations=2, poll_s=0.2)) as roll:
        roll.warm_up()
        registry.set_tiers(("free", "paid"))
        registry.toolkits.put(Toolkit("kit", tier="paid"))
        registry.update("plat_1", {"toolkit": "kit"}, version=1)
        roll.refresh()
        soon(lambda: roll.health()["organisations"]["waiting"] == 0)
        for org in ("acme", "globex"):
            assert "plat_1" not in names(roll, Context(org=org, tier="free"))


class Choosy(HashingEmbedder):
    """Fails on texts with a word, and counts how often it is asked."""

    is_instant = False

    def __init__(self) -> None:
        super().__init__(32)
        self.hates, self.calls = "", 0

    def embed(self, texts):
        self.calls += 1
        if self.hates and any(self.hates in text for text in texts):
            raise EmbedderUnavailable("not that")
        return super().embed(texts)


def test_an_organisation_that_cannot_be_built_holds_up_no_other_and_is_not_tried_all_the_time(
    registry, database_url
):
    embedder = Choosy()
    with Toolroll.open(database_url, embedder=embedder, follow=Follow(poll_s=0.1)) as roll:
        roll.warm_up()
        embedder.hates = "zorblax"
        registry.create(Tool("aaa_tool", "serves zorblax"), org="aaa")
        registry.create(Tool("zeta_tool", "serves zeta"), org="zeta")
        roll.refresh()
        soon(lambda: "zeta_tool" in names(roll, Context(org="zeta")))
        with pytest.raises(EmbedderUnavailable):
            roll.warm_up(["aaa"])
        calls = embedder.calls
        for _ in range(50):
            assert "organisation" in roll.select("serves", Context(org="aaa")).degraded
            time.sleep(0.01)
        assert embedder.calls - calls < 5
        assert roll.select("serves", GLOBEX).degraded == ()
        embedder.hates = ""
        roll.warm_up(["aaa"])
        assert "aaa_tool" in names(roll, Context(org="aaa"))


def test_an_embedder_that_fails_during_a_refresh_costs_new_texts_their_vectors_and_no_more(
    registry, database_url
):
    embedder = Choosy()
    with Toolroll.open(database_url, embedder=embedder, follow=Follow(poll_s=0.1)) as roll:
        embedder.hates = "zorblax"
        registry.create(Tool("new_tool", "serves zorblax"))
        roll.refresh()
        picked = roll.select("zorblax", k=1, vector=embedder.embed_query("zorblax"))
        assert picked.names == ("new_tool",) and "embedder" in picked.degraded  # by its words
        assert roll.catalog.dim == 32
        embedder.hates = ""
        roll.refresh()
        assert roll.select("zorblax", k=1).degraded == ()


def test_a_vector_counts_for_nothing_where_the_catalog_has_none_for_now(registry, database_url):
    embedder = Choosy()
    embedder.hates = "e"
    with Toolroll.open(database_url, embedder=embedder) as roll:
        assert "embedder" in roll.select("serves", vector=[1.0] * 32).degraded


def test_a_read_that_does_not_come_back_is_said_before_it_is_given_up(registry, roll, monkeypatch):
    from toolroll.registry.follow import refresher

    monkeypatch.setattr(refresher, "_QUICK_S", 0.3)
    monkeypatch.setattr(refresher, "catch_up", lambda database, seen: time.sleep(3) or seen)
    registry.create(Tool("late", "serves late"))
    soon(lambda: "registry" in roll.select("serves").degraded)


def test_a_closed_roll_refuses_and_logs_nothing(registry, roll, caplog):
    roll.close()
    assert caplog.text == ""  # who closes it knows
    with pytest.raises(StoreUnavailable, match="closed"):
        roll.select("serves", k=50)
    with pytest.raises(StoreUnavailable, match="closed"):
        roll.refresh()


def test_an_organisation_written_a_moment_ago_can_be_prepared(registry, database_url):
    with Toolroll.open(database_url, follow=Follow(poll_s=3_600, listens=False)) as roll:
        registry.create(Tool("new_tool", "serves the new"), org="new")
        roll.warm_up(["new"])
        assert "new_tool" in names(roll, Context(org="new"))


def test_a_store_that_is_gone_is_not_asked_all_the_time_while_organisations_wait(
    registry, database_url, monkeypatch
):
    for at in range(30):
        registry.create(Tool(f"own_{at}", "serves one"), org=f"org-{at}")
    with Toolroll.open(database_url, follow=Follow(poll_s=0.2)) as roll:
        asked = []

        def away(**_: object) -> None:
            asked.append(time.monotonic())
            raise StoreUnavailable("the cable is out")

        monkeypatch.setattr(roll._home._refresher._database, "reading", away)
        soon(lambda: "registry" in roll.select("serves").degraded)
        asked.clear()
        time.sleep(1.0)
        monkeypatch.undo()
        assert len(asked) < 20
