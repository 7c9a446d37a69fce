"""A process that selects follows what another writes: by notification, by polling, and through failures."""

from __future__ import annotations

import asyncio
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.table import each_row
from toolroll import Context, Follow, Tool, Toolroll
from toolroll.model.errors import Denied, InvalidInput, NotFound, StoreUnavailable
from toolroll.model.rules import PageMapping, Rule
from toolroll.model.tools import Toolkit
from toolroll.registry.follow import refresher
from toolroll.registry.follow.replica import Replica, catch_up
from toolroll.registry.registry import Registry

pytestmark = pytest.mark.slow

SOON_S = 60.0  # on a machine that has other things to do


@pytest.fixture
def registry(database_url: str) -> Iterator[Registry]:
    with Registry.open(database_url, actor="ada") as opened:
        for at in range(12):
            opened.create(Tool(f"tool_{at}", f"does the thing of number {at}", public=at == 0))
        yield opened


@pytest.fixture
def roll(registry: Registry, database_url: str) -> Iterator[Toolroll]:
    with Toolroll.open(database_url, follow=Follow(poll_s=0.2)) as opened:
        yield opened


def soon(holds: Callable[[], bool]) -> float:
    """Seconds until it holds; fails where it does not."""
    start = time.perf_counter()
    while not holds():
        assert time.perf_counter() - start < SOON_S, "never came true"
        time.sleep(0.005)
    return time.perf_counter() - start


def test_a_tool_that_is_written_is_selected_without_a_restart(registry, roll):
    registry.create(Tool("book_flight", "Book a flight to a city"))
    soon(lambda: "book_flight" in roll.catalog.names)
    assert "book_flight" in roll.select("I need a flight to Oslo", k=2).names


def test_refresh_waits_for_what_is_written(registry, roll):
    registry.create(Tool("book_flight", "Book a flight to a city"))
    roll.refresh()
    assert roll.select("I need a flight to Oslo", k=2).names[0] == "book_flight"


def test_a_deleted_tool_is_gone_and_a_restored_one_is_back(registry, roll):
    registry.delete("tool_3")
    roll.refresh()
    assert "tool_3" not in roll.catalog.names
    registry.restore("tool_3")
    roll.refresh()
    assert "tool_3" in roll.catalog.names


@pytest.mark.parametrize("listens", [True, False])
def test_a_change_is_seen_within_a_second_with_and_without_notifications(registry, database_url, listens):
    with Toolroll.open(database_url, follow=Follow(poll_s=0.5, listens=listens)) as roll:
        took = []
        for at in range(7):
            registry.create(Tool(f"new_{at}", f"what is new, number {at}"))
            took.append(soon(lambda at=at: f"new_{at}" in roll.select("what is new", k=20).names))
        assert statistics.median(took) < 1.0


def test_a_rule_takes_effect_without_a_new_index(registry, roll):
    catalog = roll.catalog
    assert "tool_5" in roll.select("number 5", k=3).names
    registry.rules.add(Rule("no five", "deny", "composite", {"all": []}, tool="tool_5"))
    roll.refresh()
    assert roll.catalog is catalog
    assert "tool_5" not in roll.select("number 5", k=3).names
    assert "no five" in roll.why("tool_5").reason
    registry.rules.delete("no five")
    roll.refresh()
    assert "tool_5" in roll.select("number 5", k=3).names


def test_a_page_mapping_narrows_the_selection(registry, roll):
    registry.toolkits.put(Toolkit("crm"))
    registry.create(Tool("list_contacts", "List contacts", toolkit="crm"))
    registry.pages.add(PageMapping("contacts*", ("crm",)))
    roll.refresh()
    assert roll.select("number 5", Context(page="contacts/17"), k=3).names == ("list_contacts",)
    assert "tool_5" in roll.select("number 5", Context(page="home"), k=3).names


def test_members_are_there_with_the_toolkit_and_go_with_it(registry, roll):
    registry.toolkits.put(Toolkit("group", base=True, members=("tool_1", "new_*")))
    registry.create(Tool("new_one", "Something else"))
    roll.refresh()
    assert {"tool_1", "new_one"} <= set(roll.select("zzz", k=0).names)
    registry.toolkits.put(Toolkit("group", members=("tool_1",)), keywords=["zzz"])
    roll.refresh()
    assert roll.select("zzz", k=1).names == ("tool_1",)


def test_a_setting_switches_its_toolkit_on_for_its_organisation_alone(registry, roll):
    registry.toolkits.put(Toolkit("mail", settings_keys=("mail_key",)))
    registry.create(Tool("send_mail", "Send a mail", toolkit="mail"))
    roll.refresh()
    acme, globex = Context(org="acme"), Context(org="globex")
    assert "send_mail" not in roll.select("send a mail", acme, k=3).names
    assert "settings" in roll.why("send_mail", acme).reason
    registry.settings.set("mail_key", "s3cret", org="acme")
    roll.refresh()
    assert "send_mail" in roll.select("send a mail", acme, k=3).names
    assert "send_mail" not in roll.select("send a mail", globex, k=3).names


def test_an_organisations_own_tools_are_its_own(registry, roll):
    registry.create(Tool("acme_payroll", "Run the payroll of this month"), org="acme")
    roll.refresh()
    roll.warm_up(["acme"])
    acme, globex = Context(org="acme"), Context(org="globex")
    assert roll.select("run the payroll", acme, k=3).names[0] == "acme_payroll"
    assert "tool_5" in roll.select("number 5", acme, k=3).names
    for context in (globex, Context()):
        picked = roll.select("run the payroll", context, k=200)
        assert "acme_payroll" not in picked.names
        assert "acme_payroll" not in picked.explain()
    with pytest.raises(NotFound):
        roll.why("acme_payroll", globex)


def test_an_organisation_that_asks_early_gets_the_shared_tools_and_is_told(registry, database_url):
    registry.create(Tool("acme_payroll", "Run the payroll of this month"), org="acme")
    with Toolroll.open(database_url) as roll:
        first = roll.select("run the payroll", Context(org="acme"), k=3)
        if "acme_payroll" not in first.names:
            assert first.degraded == ("organisation",)
        soon(lambda: not roll.select("run the payroll", Context(org="acme"), k=3).degraded)
        assert roll.select("run the payroll", Context(org="acme"), k=3).names[0] == "acme_payroll"


def test_a_platforms_deletion_reaches_organisations_before_they_are_indexed_again(registry, roll):
    registry.create(Tool("acme_payroll", "Run the payroll of this month"), org="acme")
    roll.refresh()
    roll.warm_up()
    assert "tool_5" in roll.select("number 5", Context(org="acme"), k=3).names
    registry.delete("tool_5")
    roll.refresh()
    assert "tool_5" not in roll.select("number 5", Context(org="acme"), k=30).names


def test_only_so_many_organisations_are_kept_and_the_others_come_when_asked(registry, database_url):
    for org in ("a", "b", "c"):
        registry.create(Tool(f"{org}_tool", f"the tool of {org}"), org=org)
    with Toolroll.open(database_url, follow=Follow(organisations=2)) as roll:
        roll.warm_up()
        assert roll.health()["organisations"]["ready"] == 2
        for org in ("a", "b", "c", "a"):
            soon(lambda org=org: f"{org}_tool" in roll.select("the tool", Context(org=org), k=30).names)
        assert roll.health()["organisations"]["ready"] == 2


def test_a_store_that_is_gone_leaves_the_last_catalog_serving_and_says_how_old_it_is(
    registry, roll, monkeypatch
):
    database = roll._home._refresher._database

    def away(**_: object) -> None:
        raise StoreUnavailable("the cable is out")

    monkeypatch.setattr(database, "reading", away)
    soon(lambda: "registry" in roll.select("number 5", k=3).degraded)
    picked = roll.select("number 5", k=3)
    assert "tool_5" in picked.names
    health = roll.health()
    assert health["ready"] and "registry" in health["degraded"]
    assert "was up to date" in health["why"][0]
    with pytest.raises(StoreUnavailable):
        roll.refresh()
    monkeypatch.undo()
    soon(lambda: not roll.select("number 5", k=3).degraded)


def test_a_store_that_hangs_holds_up_no_selection(registry, roll, monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(roll._home._refresher._database, "reading", lambda **_: released.wait(30))
    try:
        time.sleep(0.5)
        took = []
        for _ in range(50):
            start = time.perf_counter()
            roll.select("number 5", k=3)
            took.append(time.perf_counter() - start)
        assert statistics.median(took) < 0.1
    finally:
        released.set()


def test_rules_that_cannot_be_read_leave_those_before_them_in_force(registry, roll, database_url):
    registry.rules.add(Rule("no five", "deny", "composite", {"all": []}, tool="tool_5"))
    roll.refresh()
    damage(database_url)
    roll.refresh()
    picked = roll.select("number 5", k=5)
    assert picked.degraded == ("policy",)
    assert "tool_5" not in picked.names
    assert "tool_6" in roll.select("number 6", k=5).names


@pytest.mark.parametrize("choice", ["closed", "last_known", "open"])
def test_rules_that_were_changed_by_hand_leave_what_is_public_unless_told_otherwise(
    registry, database_url, choice
):
    from toolroll import Profile

    registry.rules.add(Rule("no five", "deny", "composite", {"all": []}, tool="tool_5"))
    damage(database_url)
    with Toolroll.open(database_url, profile=Profile(on_policy_error=choice)) as roll:
        picked = roll.select("number 5", k=30)
        assert "policy" in picked.degraded
        expected = set(range(12)) if choice == "open" else {0}
        assert set(picked.names) == {f"tool_{at}" for at in expected}


def damage(url: str) -> None:
    """Puts all rules out of force, past the registry."""
    import sqlalchemy as sa

    from toolroll.registry.store import tables
    from toolroll.registry.store.database import Database

    database = Database.open(url, create=False, migrate=False)
    with database.writing("nobody") as write:
        write.connection.execute(
            sa.update(tables.visibility_rules).values(active=False, revision=write.revision)
        )
        write.log("damage", "rules")
    database.close()


def test_closing_waits_for_no_poll(registry, database_url):
    for listens in (True, False):
        roll = Toolroll.open(database_url, follow=Follow(poll_s=3_600, listens=listens))
        start = time.perf_counter()
        roll.close()
        assert time.perf_counter() - start < SOON_S


def test_after_a_close_nothing_is_selected_or_allowed_by_rules_that_nobody_follows(database_url, registry):
    roll = Toolroll.open(database_url, follow=Follow(poll_s=0.2))
    other = roll.with_tools([Tool("tool_5", "does number 5")])
    session = roll.session("talk", Context(user="ann"))
    picked = session.select("number 5", k=3)
    plain = roll.select("number 5", k=3)
    roll.close()
    registry.rules.add(Rule("no five", "deny", "composite", {"all": []}, tool="tool_5"))
    for call in (
        lambda: roll.select("number 5"),
        lambda: asyncio.run(roll.aselect("number 5")),
        lambda: other.select("number 5"),
        lambda: session.select("number 5"),
        lambda: session.search("number 5"),
        lambda: session.selection,
        lambda: session.check("tool_5"),
        lambda: picked.check("tool_5"),
        lambda: plain.check("tool_5"),
        lambda: roll.may("tool_5"),
        lambda: roll.visible(),
        lambda: roll.why("tool_5"),
    ):
        with pytest.raises(StoreUnavailable, match="closed"):
            call()
    assert not roll.ready and "closed" in roll.health()["why"][0]


def test_above_its_greatest_age_a_policy_shows_only_what_is_public(registry, database_url, monkeypatch):
    registry.create(Tool("open", "does number 5 for everybody", public=True))
    registry.create(Tool("shut", "does number 5 for nobody", public=True))
    registry.rules.add(Rule("no", "deny", "composite", {"all": []}, tool="shut"))
    with Toolroll.open(database_url, follow=Follow(poll_s=0.05, max_policy_age_s=0.5)) as roll:
        session = roll.session("talk", Context(user="ann"))
        picked = session.select("number 5", k=9)
        assert {"open", "tool_5"} <= set(picked.names) and picked.degraded == ()
        monkeypatch.setattr(refresher, "stamp_of", unreadable)
        soon(lambda: "policy" in roll.select("number 5").degraded)
        for found in (
            roll.select("number 5", k=9).names,
            roll.select("number 5", Context(everything=True)).names,
            roll.select("number 5", Context(required=("open", "tool_5"))).names,
            roll.with_tools([Tool("mine", "does number 5")]).select("number 5").names,
            session.select("number 5", k=9).names,
            session.selection.names,
            roll.visible().names,
        ):
            assert set(found) <= {"open", "tool_0"}
        with pytest.raises(Denied):
            picked.check("tool_5")
        assert not roll.why("tool_5").visible and "max_policy_age_s" in roll.why("tool_5").reason
        assert "max_policy_age_s" in str(roll.health()["why"])
        monkeypatch.undo()
        soon(lambda: roll.select("number 5").degraded == ())
        assert "tool_5" in roll.select("number 5", k=9).names and picked.check("tool_5")


def unreadable(database: object) -> None:
    raise StoreUnavailable("it is away")


@each_row("age", [0, -1, 0.5, True, "1", float("nan")])
def test_a_greatest_age_below_two_polls_is_refused(database_url, age):
    with pytest.raises(InvalidInput, match="max_policy_age_s"):
        Toolroll.open(database_url, follow=Follow(max_policy_age_s=age))


def test_a_registry_that_is_not_there_is_named_with_what_to_do(tmp_path):
    with pytest.raises(NotFound, match="toolroll import"):
        Toolroll.open(f"sqlite:///{tmp_path / 'none.db'}")
    assert not (tmp_path / "none.db").exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_of_a_fork_follows_the_registry_by_itself(registry, roll):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            deadline = time.monotonic() + SOON_S
            while "from_the_parent" not in roll.catalog.names and time.monotonic() < deadline:
                time.sleep(0.01)
            os.write(writing, b"1" if "from_the_parent" in roll.catalog.names else b"0")
        finally:
            os._exit(0)
    registry.create(Tool("from_the_parent", "written by the parent"))
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        assert answer.read() == b"1"
    os.waitpid(child, 0)


def test_settings_are_read_by_one_query_whatever_the_number_of_toolkits(registry, roll, monkeypatch):
    import sqlalchemy as sa

    for at in range(20):
        registry.toolkits.put(Toolkit(f"kit_{at}", settings_keys=(f"key_{at}",)))
    roll.refresh()
    seen: list[str] = []
    engine = roll._home._refresher._database._engine
    listener = lambda *args: seen.append(args[2])  # noqa: E731
    sa.event.listen(engine, "before_cursor_execute", listener)
    try:
        roll.refresh()
    finally:
        sa.event.remove(engine, "before_cursor_execute", listener)
    assert len([text for text in seen if "settings" in text]) == 1


@pytest.mark.parametrize(("settings_s", "is_soon"), [(0.2, True), (3600.0, False)])
def test_settings_that_changed_without_a_revision_are_read_after_settings_s_or_by_refresh(
    registry, database_url, settings_s, is_soon
):
    registry.toolkits.put(Toolkit("mail", settings_keys=("mail_key",)))
    registry.create(Tool("send_mail", "Send a mail", toolkit="mail"))
    registry.settings.set("mail_key", "s3cret")
    with Toolroll.open(database_url, follow=Follow(poll_s=0.1, settings_s=settings_s)) as roll:

        def is_on() -> bool:
            return "send_mail" in roll.select("send a mail", k=3).names

        assert is_on()
        with registry.database._engine.begin() as connection:  # no revision, no notification
            connection.exec_driver_sql("UPDATE settings SET is_set = false")
        if is_soon:
            soon(lambda: not is_on())
        else:
            time.sleep(0.5)
            assert is_on()
            roll.refresh()
            assert not is_on()


def test_a_selection_asks_the_database_nothing_even_for_a_caller_never_seen_before(registry, roll):
    import sqlalchemy as sa

    registry.rules.add(Rule("no five", "deny", "user", {"user": "mallory"}, tool="tool_5"))
    registry.create(Tool("acme_payroll", "Run the payroll of this month"), org="acme")
    roll.refresh()
    asked_by: set[int] = set()
    engine = roll._home._refresher._database._engine
    listener = lambda *args: asked_by.add(threading.get_ident())  # noqa: E731
    sa.event.listen(engine, "before_cursor_execute", listener)
    try:
        for at in range(200):
            context = Context(org=("acme", "", f"org-{at}")[at % 3], user=f"user-{at}", page=f"page-{at}")
            roll.select(f"number {at % 12}", context, k=3)
            roll.why("tool_5", context)
    finally:
        sa.event.remove(engine, "before_cursor_execute", listener)
    assert threading.get_ident() not in asked_by


def test_a_hundred_that_ask_for_a_refresh_at_once_get_one_build(registry, roll, monkeypatch):
    from toolroll.catalog.catalog import Catalog

    builds = []
    build = Catalog.build.__func__

    def counted(cls, *args, **options):
        builds.append(threading.get_ident())
        time.sleep(0.05)
        return build(cls, *args, **options)

    monkeypatch.setattr(Catalog, "build", classmethod(counted))
    registry.create(Tool("book_flight", "Book a flight to a city"))
    threads = [threading.Thread(target=roll.refresh) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(builds) == 1
    assert "book_flight" in roll.catalog.names


def test_a_storm_of_changes_ends_in_the_last_of_them_and_selections_go_on(registry, roll):
    registry.create(Tool("weather", "Says generation -1"))
    stop, errors = threading.Event(), []

    def select() -> None:
        while not stop.wait(
            0.001
        ):  # without a pause, a writer waits 5 ms a thread for each of its statements
            try:
                roll.select("number 5", k=3, strict=True)
            except Exception as error:
                errors.append(error)
                return

    threads = [threading.Thread(target=select) for _ in range(3)]
    for thread in threads:
        thread.start()
    version = 1
    for at in range(60):
        version = registry.update(
            "weather", {"description": f"Says generation {at}"}, version=version
        ).version
    soon(lambda: roll.catalog.tools[roll.catalog.names["weather"]].description == "Says generation 59")
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []


def test_what_one_organisation_says_in_its_tools_corrects_nobody_elses_words(registry, roll):
    registry.create(Tool("quarterly_zorblax", "Report the zorblax of the quarter"), org="acme")
    roll.refresh()
    roll.warm_up()
    message = "show the zorblix of the quarter please"
    assert roll.select(message, Context(org="acme"), k=2).spelling_corrections
    for context in (Context(org="globex"), Context()):
        assert not roll.select(message, context, k=2).spelling_corrections


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
@pytest.mark.parametrize("later", [0, 1, 2])
def test_a_registry_that_was_restored_from_a_backup_is_read_anew(new_database_url, dialect, later):
    lost, restored = new_database_url(dialect), new_database_url(dialect)
    with Registry.open(lost, actor="ada") as registry:
        for name in ("kept", "lost"):
            registry.create(Tool(name, f"the tool that is {name}"))
        registry.create(Tool("acme_payroll", "Run the payroll"), org="acme")
        seen = catch_up(registry.database, Replica())
    with Registry.open(restored, actor="ada") as registry:  # with as many changes, less or more
        for name in ("kept", "other", "another", "one_more")[: 2 + later]:
            registry.create(Tool(name, f"the tool that is {name}"))
        now = catch_up(registry.database, seen)
        expected = catch_up(registry.database, Replica())
    assert {tool.name for tool in now.tools[""].values()} == {
        tool.name for tool in expected.tools[""].values()
    }
    assert now.orgs == frozenset()
    assert now.revision == 2 + later
