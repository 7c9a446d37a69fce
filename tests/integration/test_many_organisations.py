"""The simulation of bench/scale/tenants.py, small: counts, not times. And what it proves one by one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa
from bench.scale import tenants

from toolroll import Context, Follow, InvalidDefinition, StoreUnavailable, Tool, Toolroll
from toolroll.model.rules import PageMapping, Rule
from toolroll.model.tools import Toolkit
from toolroll.registry.follow.replica import Replica, catch_up
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables
from toolroll.selection.pipeline_builder import PipelineBuilder

pytestmark = pytest.mark.slow
SOON_S = 60.0


@pytest.fixture
def registry(database_url: str) -> Iterator[Registry]:
    with Registry.open(database_url, actor="ada") as opened:
        opened.create(Tool("plat", "serves everybody"))
        for org in ("acme", "globex", "initech"):
            opened.create(Tool(f"{org}_tool", f"serves {org}"), org=org)
        yield opened


def soon(holds: Callable[[], bool]) -> None:
    begun = time.perf_counter()
    while not holds():
        assert time.perf_counter() - begun < SOON_S, "never came true"
        time.sleep(0.005)


def names(roll: Toolroll, org: str) -> set[str]:
    return set(roll.select("serves", Context(org=org), k=50).names)


@pytest.mark.db
def test_a_process_reads_no_row_of_organisations_that_nobody_asks_for(new_database_url):
    figures = {}
    for organisations in (6, 60):
        url = new_database_url("postgresql")
        tenants.fill(url, organisations, 4)
        figures[organisations] = tenants.opened(url, 4)
    for found in figures.values():
        assert found["opening, rows of others"] == found["asked, rows of others"] == found["damage told"] == 0
    assert figures[6]["opening, statements"] == figures[60]["opening, statements"]


@pytest.mark.db
@pytest.mark.timeout(120)
def test_a_noisy_neighbour_degrades_nobody_else(new_database_url):
    url, other = new_database_url("postgresql"), new_database_url("postgresql")
    tenants.fill(url, 2, 2)
    tenants.fill(other, 2, 2)
    found = tenants.neighbours(url, other, seconds=1.0)
    zeros = [name for name in tenants.MUST_BE_ZERO if name in found]
    assert {name: found[name] for name in zeros} == dict.fromkeys(zeros, 0) and len(zeros) == 4
    assert found["beside a noisy neighbour, changes a minute"] > 0


def test_only_organisations_that_select_are_read_and_built_for(registry, database_url):
    with Toolroll.open(database_url, follow=Follow(poll_s=0.1)) as roll:
        time.sleep(0.5)
        assert roll.health()["organisations"] == {"ready": 0, "waiting": 0, "unread": 3, "failing": []}
        soon(lambda: names(roll, "acme") == {"plat", "acme_tool"})
        assert roll.health()["organisations"] == {"ready": 1, "waiting": 0, "unread": 2, "failing": []}
        assert names(roll, "nobody") == {"plat"}
        assert roll.select("serves", Context(org="nobody")).degraded == ()


@pytest.mark.parametrize(
    "question",
    [
        lambda roll, acme: roll.may("acme_tool", acme),
        lambda roll, acme: "acme_tool" in roll.visible(acme).names,
        lambda roll, acme: "acme_tool" in roll.preview("serves", acme, k=9).names,
        lambda roll, acme: "acme_tool" in [tool.name for tool in roll.session("s", acme).search("serves")],
    ],
    ids=["may", "visible", "preview", "search"],
)
def test_every_question_about_an_organisation_has_its_tools_read(registry, database_url, question):
    with Toolroll.open(database_url, follow=Follow(poll_s=0.1)) as roll:
        soon(lambda: question(roll, Context(org="acme")))


def test_the_first_selection_of_an_event_loop_has_the_organisations_own_tools(registry, database_url):
    async def first(roll):
        return await asyncio.gather(
            *[roll.aselect("serves", Context(org=org), k=9) for org in ("acme", "globex")]
        )

    with Toolroll.open(database_url, follow=Follow(poll_s=3_600)) as roll:
        acme, globex = asyncio.run(first(roll))
        assert set(acme.names) == {"plat", "acme_tool"} and set(globex.names) == {"plat", "globex_tool"}
        assert acme.degraded == globex.degraded == ()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_is_checked_in_a_process_in_which_its_organisation_never_selected(
    registry, database_url, is_async
):
    context = Context(org="acme", user="ann")

    async def check(roll):
        session = await roll.asession("talk", context)
        return await session.acheck("acme_tool")

    with Toolroll.open(database_url) as one, Toolroll.open(database_url) as other:
        assert "acme_tool" in one.session("talk", context).select("serves", k=9).names
        tool = asyncio.run(check(other)) if is_async else other.session("talk", context).check("acme_tool")
        assert tool.name == "acme_tool"


def test_nobody_waits_for_tools_that_do_not_come(registry, database_url, monkeypatch):
    monkeypatch.setattr("toolroll.roll._OWN_TOOLS_S", 3_600.0)  # a wait would not end within the test
    with Toolroll.open(database_url, follow=Follow(poll_s=0.1)) as roll:
        monkeypatch.setattr(PipelineBuilder, "stacked", _fails)
        picked = asyncio.run(roll.aselect("serves", Context(org="acme"), k=9))
        assert picked.names == ("plat",) and "organisation" in picked.degraded
        roll._home._refresher._set_failure(StoreUnavailable("gone"))
        picked = asyncio.run(roll.aselect("serves", Context(org="globex"), k=9))
        assert picked.names == ("plat",) and set(picked.degraded) == {"organisation", "registry"}


def _fails(*_):
    raise InvalidDefinition("no catalog")


def test_an_organisation_that_is_dropped_is_read_again_with_what_changed_meanwhile(registry, database_url):
    with Toolroll.open(database_url, follow=Follow(organisations=1, poll_s=0.1)) as roll:
        soon(lambda: "acme_tool" in names(roll, "acme"))
        soon(lambda: "globex_tool" in names(roll, "globex"))
        replica = roll._home._refresher.replica
        assert replica.followed == {"globex"} and replica.tools.keys() == {"", "globex"}
        registry.create(Tool("acme_second", "serves acme"), org="acme")
        registry.delete("acme_tool", org="acme")
        soon(lambda: names(roll, "acme") == {"plat", "acme_second"})


def test_the_first_own_tool_of_an_organisation_is_found_though_nobody_follows_it(registry, database_url):
    with Toolroll.open(database_url, follow=Follow(poll_s=0.1)) as roll:
        assert names(roll, "hooli") == {"plat"}
        registry.create(Tool("hooli_tool", "serves hooli"), org="hooli")
        soon(lambda: names(roll, "hooli") == {"plat", "hooli_tool"})
        registry.delete("hooli_tool", org="hooli")
        soon(lambda: names(roll, "hooli") == {"plat"})
        soon(lambda: roll.select("serves", Context(org="hooli")).degraded == ())
        assert roll.health()["organisations"]["ready"] == 0


def test_rules_and_settings_of_an_organisation_count_before_it_was_ever_read(registry, database_url):
    registry.toolkits.put(Toolkit("mail", settings_keys=("key",)))
    registry.create(Tool("send", "serves mail", toolkit="mail"))
    registry.rules.add(Rule("no", "deny", "composite", {"all": []}, tool="plat", org="acme"))
    registry.settings.set("key", "value", org="acme")
    with Toolroll.open(database_url, follow=Follow(poll_s=3_600, listens=False)) as roll:
        assert {"plat"} == names(roll, "globex") - {"globex_tool"}
        assert "plat" not in names(roll, "acme") and "send" in names(roll, "acme")


def test_a_row_that_was_changed_by_hand_concerns_its_organisation_when_it_asks(registry, database_url):
    with registry.database.writing("nobody", "acme") as write:
        table = tables.tools
        values = {"toolkit": "other", "revision": write.revision}
        write.connection.execute(sa.update(table).where(table.c.org == "acme").values(values))
        write.log("damage", "tools")
    with Toolroll.open(database_url, follow=Follow(poll_s=0.1)) as roll:
        soon(lambda: names(roll, "globex") == {"plat", "globex_tool"})
        assert roll.select("serves", Context(org="globex")).degraded == () and not roll.health()["degraded"]
        soon(lambda: roll.select("serves", Context(org="acme")).degraded == ("policy",))
        assert names(roll, "acme") == set()
        assert roll.select("serves", Context(org="globex")).degraded == ()


@pytest.mark.parametrize("followed", [None, frozenset(), frozenset({"acme"}), frozenset({"acme", "globex"})])
def test_changes_give_the_replica_that_a_whole_read_gives(registry, followed):
    seen = catch_up(registry.database, Replica(followed=followed))
    steps = (
        lambda: registry.create(Tool("second", "serves too"), org="acme"),
        lambda: registry.delete("globex_tool", org="globex"),
        lambda: registry.rules.add(Rule("a", "deny", "composite", {"all": []}, tool="plat", org="initech")),
        lambda: registry.pages.add(PageMapping("home*", ("kit",), org="acme")),
        lambda: registry.settings.set("key", "value", org="globex"),
        lambda: registry.toolkits.put(Toolkit("late"), org="hooli"),
        lambda: registry.settings.unset("key", org="globex"),
        lambda: registry.rules.delete("a", org="initech"),
        lambda: registry.create(Tool("plat_second", "serves everybody too")),
        lambda: registry.pins.set("plat", org="umbrella"),
        lambda: registry.settings.set("key", "value"),
    )
    registry.toolkits.put(Toolkit("kit"), org="acme")
    for step in steps:
        step()
        seen = catch_up(registry.database, seen)
        whole = catch_up(registry.database, Replica(followed=followed))
        assert seen.tools == whole.tools and seen.toolkits == whole.toolkits and seen.pins == whole.pins
        assert seen.policy_source == whole.policy_source and seen.settings == whole.settings
        assert seen.revision == whole.revision and whole.orgs <= seen.orgs
        assert seen.orgs - whole.orgs <= {"globex"}  # nobody looks for what an unread one has lost


def test_an_organisation_that_is_asked_for_later_is_read_whole_and_once(registry):
    seen = catch_up(registry.database, Replica(followed=frozenset()))
    assert seen.tools.keys() == {""} and seen.orgs == {"acme", "globex", "initech"}
    asked = catch_up(registry.database, seen, ["acme"])
    assert asked.tools.keys() == {"", "acme"} and asked.tools[""] is seen.tools[""]
    assert asked.orgs == seen.orgs and asked.unread == {"globex", "initech"}
    again = catch_up(registry.database, asked, ["acme"])
    assert again.tools["acme"] is asked.tools["acme"]
    assert again.without(["acme"]).orgs == seen.orgs and not again.without(["acme"]).has_read("acme")


def test_one_that_changes_all_the_time_is_built_for_in_turn_with_the_others(registry, database_url):
    with Toolroll.open(database_url, follow=Follow(poll_s=0.05)) as roll:
        soon(lambda: "acme_tool" in names(roll, "acme") and "globex_tool" in names(roll, "globex"))
        reconciler = roll._home._refresher._reconciler
        built: list[str] = []
        build = reconciler.build
        reconciler.build = lambda org: (built.append(org), build(org))[1]
        ended = time.perf_counter() + 2
        version = 1
        registry.create(Tool("globex_new", "serves globex"), org="globex")
        while time.perf_counter() < ended:
            version = registry.update(
                "acme_tool", {"summary": f"Change {version}"}, org="acme", version=version
            ).version
        soon(lambda: "globex_new" in names(roll, "globex"))
        acme = Context(org="acme")
        soon(lambda: roll.select("serves", acme, k=9).check("acme_tool").summary == f"Change {version - 1}")
        assert "globex" in built[:2] and built.count("acme") < version / 2
