"""Recording over a registry: selections, receipts and ids, in every process, of use to every process."""

from __future__ import annotations

import os
import random
import signal
import stat
import subprocess
import sys
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from tests.integration.outcomes import dump, eventually, raw_counts, rows_of
from toolroll import Context, Follow, Profile, Recording, Rule, Tool, Toolroll
from toolroll._core import inclusion
from toolroll.model.errors import Denied, InvalidInput, NotFound, StoreUnavailable
from toolroll.registry.events import receipts
from toolroll.registry.outbox.outbox import usual_outbox
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.selection.selection import Selection

pytestmark = pytest.mark.slow

TOOLS = [
    Tool("get_forecast", "Weather forecast for a city"),
    Tool("send_mail", "Sends a message to a person"),
    Tool("post_message", "Sends a message to a channel"),
    Tool("create_event", "Puts an appointment on the calendar"),
    *(Tool(f"tool_{at}", f"Does the thing number {at} with widgets") for at in range(16)),
]
MESSAGE = "tell the team about lunch"


def opened(url: str) -> closing[Database]:
    return closing(Database.open(url, create=False, migrate=False))


@pytest.fixture
def url(database_url: str) -> str:
    with Registry.open(database_url, actor="ada") as registry:
        for one in TOOLS:
            registry.create(one)
    return database_url


@pytest.fixture
def roll(url: str, tmp_path: Path) -> Iterator[Toolroll]:
    with Toolroll.open(
        url, follow=Follow(poll_s=0.1), recording=Recording(outbox=tmp_path / "outbox")
    ) as opened:
        yield opened


def test_health_says_that_the_outbox_is_gone_and_selections_go_on(roll: Toolroll, tmp_path: Path) -> None:
    roll.record(roll.select(MESSAGE), {"send_mail": True})
    assert roll.flush(20) and "outbox" not in roll.health()["degraded"]
    (tmp_path / "outbox").rename(tmp_path / "elsewhere")
    health = roll.health()
    assert health["ready"] and "outbox" in health["degraded"] and "is gone" in str(health["why"])
    (tmp_path / "elsewhere").rename(tmp_path / "outbox")
    assert "outbox" not in roll.health()["degraded"]


def test_warming_up_reads_the_outcomes_of_every_organisation_with_tools_of_its_own(url, tmp_path):
    with Registry.open(url, actor="ada") as registry:
        registry.create(Tool("own", "Sends a message to a customer"), org="acme")
    with Toolroll.open(url, recording=Recording(outbox=tmp_path / "outbox")) as roll:
        roll.warm_up()
        roll.record(roll.select(MESSAGE, Context(org="acme")), called={"send_mail": True})
        assert roll.flush(20)
    with Toolroll.open(url, recording=Recording(outbox=tmp_path / "other outbox")) as roll:
        roll.warm_up()
        assert roll._home.learned("acme") is not None


def say(
    roll: Toolroll,
    picked: Selection | str,
    selection: Selection,
    name: str,
    works: bool = True,
    **options,
):
    """Reports on one tool, shown or not."""
    said = {"called": {name: works}} if name in selection else {"wanted": {name: works}}
    return roll.record(picked, **said, **options)


def teach(roll: Toolroll, name: str, org: str = "", users: int = 8) -> None:
    for number in range(users):
        picked = roll.select(MESSAGE, Context(org=org, user=f"u{number}"), k=6)
        say(roll, picked, picked, name)
    assert roll.flush(20)


def test_what_one_process_records_another_selects_by(roll: Toolroll, url: str, tmp_path: Path) -> None:
    with Toolroll.open(
        url, follow=Follow(poll_s=0.1), recording=Recording(outbox=tmp_path / "outbox")
    ) as other:
        other.select(MESSAGE)
        teach(roll, "post_message")
        eventually(
            lambda: (known := other._home.learned("")) and known.revision == roll._home.learned("").revision
        )  # type: ignore[union-attr]
        assert other._home.learned("").to_bytes() == roll._home.learned("").to_bytes()  # type: ignore[union-attr]
        for one in (roll, other):
            assert one.select("inform the team of lunch", k=4).names[0] == "post_message"


def test_an_organisation_learns_from_its_own_outcomes_alone(roll: Toolroll) -> None:
    teach(roll, "post_message", "acme")
    teach(roll, "get_forecast", "umbrella")
    before = roll._home.learned("acme").to_bytes()  # type: ignore[union-attr]
    teach(roll, "create_event", "umbrella")
    assert roll._home.learned("acme").to_bytes() == before  # type: ignore[union-attr]
    assert roll._home.learned("") is None
    assert roll.select("inform the team of lunch", Context(org="acme"), k=4).names[0] == "post_message"


def test_a_selection_its_receipt_and_its_id_are_one_event(roll: Toolroll, url: str, tmp_path: Path) -> None:
    picked = roll.select(MESSAGE, Context(org="acme", user="ann"), k=3)
    name = picked.names[0]
    receipt = roll.receipt(picked)
    assert roll.record(receipt, {name: True}).counted == 1
    assert roll.record(picked, {name: True}).counted == 0
    assert roll.record(picked.event_id, [name]).counted == 0
    assert roll.flush(20)
    with Toolroll.open(url, recording=Recording(outbox=tmp_path / "other")) as other:
        assert other.record(receipt, {name: True}).event_id == picked.event_id
        assert other.record(picked.event_id, {name: True}).event_id == picked.event_id
        assert other.flush(20)
        assert roll.health()["recording"]["keeper"]["repeated"] == 4  # one keeper for both
    with opened(url) as database:
        assert raw_counts(database)["acme", name] == (1, 1, 1)
        (row,) = rows_of(database, tables.outcomes)
        assert (row.reporter, row.org) == ("ann", "acme")


def test_what_is_said_last_counts_whichever_process_says_it(roll: Toolroll, url: str, tmp_path: Path) -> None:
    picked = roll.select(MESSAGE, Context(org="acme", user="ann"), k=3)
    name = picked.names[0]
    receipt = roll.receipt(picked)
    with Toolroll.open(url, recording=Recording(outbox=tmp_path / "other")) as other:
        for one, worked in ((roll, False), (other, True), (roll, False)):
            one.record(receipt, {name: worked})
            assert one.flush(20)
    with opened(url) as database:
        assert raw_counts(database)["acme", name] == (1, 1, 0)


def test_by_receipt_no_tool_can_be_named_that_the_context_may_not_see(roll: Toolroll, url: str) -> None:
    picked = roll.select(MESSAGE, Context(org="acme", user="ann"), k=3)
    hidden = next(name for name in roll.catalog.names if name not in picked)
    with Registry.open(url, actor="ada") as registry:
        registry.rules.add(Rule("not-for-ann", "deny", "user", {"user": "ann"}, tool=hidden))
    roll.refresh()
    for said in (picked.event_id, roll.receipt(picked)):
        with pytest.raises(InvalidInput, match="was not shown"):
            roll.record(said, wanted={hidden: True})


@pytest.mark.parametrize("messages", ["dropped", "none"])
def test_of_a_message_that_is_not_kept_no_vector_is_either(
    roll: Toolroll, url: str, tmp_path: Path, messages: str
) -> None:
    with Toolroll.open(url, recording=Recording(messages=messages, outbox=tmp_path / "other")) as other:  # type: ignore[arg-type]
        for number in range(2):
            picked = other.select(MESSAGE, Context(org="acme", user=f"user-{number}"), k=3)
            other.record(picked if number else other.receipt(picked), [picked.names[0]])
        assert other.flush(20)
    with opened(url) as database:
        assert [row.vector for row in rows_of(database, tables.outcomes)] == [None, None]
        assert all(row.vector is None for row in rows_of(database, tables.selection_events))


def test_what_is_foreign_unknown_or_forged_is_refused_and_changes_nothing(
    roll: Toolroll, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picked = roll.select(MESSAGE, Context(org="acme"), k=3)
    name, receipt = picked.names[0], roll.receipt(picked)
    elsewhere = Toolroll.from_tools(TOOLS).select(MESSAGE, k=3)
    assert roll.flush(20)
    refused: list[tuple[type[Exception], str, dict[str, object]]] = [
        (NotFound, "0" * 24, {}),
        (NotFound, picked.event_id, {"org": "umbrella"}),
        (Denied, receipt, {"org": "umbrella"}),
        (Denied, receipt[:-3] + ("AAA" if receipt[-3:] != "AAA" else "BBB"), {}),
        (InvalidInput, "1.2", {}),
    ]
    for kind, what, options in refused:
        with pytest.raises(kind):
            roll.record(what, {name: True}, **options)  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="another Toolroll"):
        roll.record(elsewhere, {elsewhere.names[0]: True})
    with pytest.raises(NotFound, match="another Toolroll"):
        roll.receipt(elsewhere)
    for what in (picked, receipt, picked.event_id):
        with pytest.raises(InvalidInput, match="was not shown"):
            roll.record(what, {"tank": True})
    for wrong in (7, None, b"x"):
        with pytest.raises(InvalidInput, match="must be a Selection, its receipt or its event id"):
            roll.record(wrong, {name: True})  # type: ignore[arg-type]
    clock = roll._home.engine._clock
    monkeypatch.setattr(roll._home.engine, "_clock", lambda: clock() + receipts.LIFETIME_S + 5)
    with pytest.raises(Denied, match="its time is over"):
        roll.record(receipt, {name: True})
    assert roll.flush(20)
    with opened(url) as database:
        assert rows_of(database, tables.outcomes) == []


def test_a_hundred_thousand_bad_receipts_change_nothing(
    new_database_url: Callable[[str], str], tmp_path: Path
) -> None:
    url, draws = new_database_url("sqlite"), random.Random(11)  # no database is asked, whichever it is
    with Registry.open(url, actor="ada") as registry:
        for one in TOOLS:
            registry.create(one)
    with Toolroll.open(url, recording=Recording(outbox=tmp_path / "outbox")) as roll:
        acme, theirs = (roll.select(MESSAGE, Context(org=org), k=3) for org in ("acme", "umbrella"))
        name, good, foreign = acme.names[0], roll.receipt(acme), roll.receipt(theirs)
        roll.record(good, {name: True}, org="acme")
        assert roll.flush(20)
        database = roll._home._database
        before = dump(database, "acme"), dump(database, "umbrella"), rows_of(database, tables.outcomes)
        head, text = good.rsplit(".", 1)
        signed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        signer, now = roll._home._recording.signer(), time.time()
        counted = {"forged": 0, "replayed": 0, "foreign": 0, "expired": 0}
        for at in range(100_000):
            kind = at % 4
            if kind == 0:
                forged = bytearray(signed)
                forged[draws.randrange(len(forged))] ^= draws.randrange(1, 256)
                with pytest.raises(Denied):
                    signer.read(f"{head}.{urlsafe_b64encode(forged).rstrip(b'=').decode()}", now, "acme")
                counted["forged"] += 1
            elif kind == 1:
                counted["replayed"] += not roll.record(good, {name: True}, org="acme").counted
            elif kind == 2:
                with pytest.raises(Denied):
                    signer.read(foreign, now, "acme")
                counted["foreign"] += 1
            else:
                with pytest.raises(Denied):
                    signer.read(good, now + receipts.LIFETIME_S + 1 + at, "acme")
                counted["expired"] += 1
        assert set(counted.values()) == {25_000}
        assert roll.flush(20)
        assert (
            dump(database, "acme"),
            dump(database, "umbrella"),
            rows_of(database, tables.outcomes),
        ) == before


def test_events_have_the_propensities_of_what_was_drawn(roll: Toolroll, url: str) -> None:
    teach(roll, "post_message")
    roll.select("inform the team of lunch", Context(user="ann"), k=4)
    assert roll.flush(20)
    with opened(url) as database:
        *_, row = rows_of(database, tables.selection_events, tables.selection_events.c.at)
    assert row.learned_revision == 8 and row.propensity_error == 0 and row.profile == "default"
    names, scores, means, spreads, shows, propensities = zip(*row.candidates, strict=True)
    assert list(scores) == sorted(scores, reverse=True)
    assert (
        len(set(row.selected) & set(names[:4])) >= 3
    )  # one that retrieval puts first stays, whatever is drawn
    of = dict(zip(names, propensities, strict=True))
    assert sum(propensities) == pytest.approx(4, abs=1e-3)
    assert min(of[name] for name in row.selected) > 0 and max(propensities) == pytest.approx(1)
    unguarded = np.zeros(len(names), np.uint8), np.zeros(len(names), np.uint64)
    free = inclusion(np.array(means), np.array(spreads), np.array(shows), *unguarded, 4)
    same = np.abs(np.array(propensities) - free) < 1e-6
    assert same.all() or (np.array(propensities) > free + 1e-6).sum() <= 2  # but for those that are guarded


def test_a_cut_that_came_after_the_draw_has_no_propensities(roll: Toolroll, url: str) -> None:
    teach(roll, "post_message")
    roll.select("inform the team of lunch", k=4, max_tools=2)
    assert roll.flush(20)
    with opened(url) as database:
        *_, row = rows_of(database, tables.selection_events, tables.selection_events.c.at)
    assert row.propensity_error is None and {one[5] for one in row.candidates} == {None}


def test_exploration_has_a_stated_error(url: str, tmp_path: Path) -> None:
    profile = Profile(explore=0.2)
    with Toolroll.open(url, profile=profile, recording=Recording(outbox=tmp_path / "outbox")) as roll:
        teach(roll, "post_message")
        roll.select("inform the team of lunch", k=4)
        assert roll.flush(20)
    with opened(url) as database:
        *_, row = rows_of(database, tables.selection_events, tables.selection_events.c.at)
    assert row.profile == "custom" and 0 < row.propensity_error < 0.02
    assert sum(one[5] for one in row.candidates) == pytest.approx(4, abs=0.1)


def test_a_found_tool_counts_by_the_rights_of_its_user_whoever_reports(roll: Toolroll, url: str) -> None:
    with Registry.open(url, actor="ada") as registry:
        registry.rules.add(Rule("not eve", "deny", "user", {"user": "eve"}, tool="send_mail"))
    roll.refresh()
    for user, reporter, counts in (("eve", "ann", False), ("ann", "eve", True)):
        picked = roll.select("what is the weather in Oslo", Context(user=user), k=1)
        assert "send_mail" not in picked
        for by in (roll.receipt(picked), picked.event_id):
            if counts:
                assert roll.record(by, wanted={"send_mail": True}, final=False, reporter=reporter)
            else:
                with pytest.raises(InvalidInput, match="was not shown"):
                    roll.record(by, wanted={"send_mail": True}, final=False, reporter=reporter)


@pytest.mark.parametrize("org", ["\ud800", "o\0"])
def test_an_organisation_that_no_database_can_store_stops_no_other_from_learning(
    roll: Toolroll, org: str
) -> None:
    roll.select(MESSAGE, Context(org=org), k=4)
    teach(roll, "post_message", "acme")
    eventually(lambda: roll._home.learned("acme") is not None)  # type: ignore[union-attr]
    assert roll.health()["degraded"] == []


def test_an_event_shows_what_was_delivered_right_after_its_selection(roll: Toolroll, url: str) -> None:
    picked = roll.select(MESSAGE, k=4)
    picked.deliver("openai", "meta-tools")
    assert picked.shown == () and len(picked) == 4
    roll.record(picked, {"post_message": True})
    assert roll.flush(20)
    with opened(url) as database:
        *_, row = rows_of(database, tables.selection_events, tables.selection_events.c.at)
        (outcome,) = rows_of(database, tables.outcomes)
    assert row.shown == [] and row.selected == list(picked.names)
    assert [(one.tool.name, one.after, one.was_shown) for one in outcome.entries] == [
        ("post_message", "wanted_succeeded", False)
    ]


def test_what_was_taken_back_is_unlearnt(roll: Toolroll) -> None:
    teach(roll, "post_message", users=4)
    before = roll._home.learned("").to_bytes()  # type: ignore[union-attr]
    picked = roll.select(MESSAGE, Context(user="eve"), k=6)
    say(roll, picked, picked, "get_forecast")
    assert roll.flush(20) and roll._home.learned("").to_bytes() != before  # type: ignore[union-attr]
    assert roll.forget_outcomes(actor="ada", reporter="eve", reason="lies") == 1
    roll.flush(20)
    assert roll._home.learned("").to_bytes() == before  # type: ignore[union-attr]
    with pytest.raises(InvalidInput, match="say which outcomes"):
        roll.forget_outcomes(actor="ada")


def test_preparing_an_organisation_reads_what_it_has_learnt(roll: Toolroll, url: str) -> None:
    teach(roll, "post_message", "acme")
    with Toolroll.open(
        url, follow=Follow(poll_s=3_600, listens=False), recording=Recording(messages="none")
    ) as other:
        other.warm_up(["acme"])
        assert other._home.learned("acme").to_bytes() == roll._home.learned("acme").to_bytes()  # type: ignore[union-attr]


@pytest.mark.parametrize("messages", ["kept", "hashed", "dropped", "none"])
def test_what_is_kept_of_messages_is_as_asked(url: str, tmp_path: Path, messages: str) -> None:
    with Toolroll.open(url, recording=Recording(messages=messages, outbox=tmp_path / "outbox")) as roll:  # type: ignore[arg-type]
        roll.record(picked := roll.select("my password is swordfish"), {picked.names[0]: True})
        assert roll.flush(20)
    with opened(url) as database:
        rows = rows_of(database, tables.selection_events)
        assert raw_counts(database)["", picked.names[0]] == (1, 1, 1)
    if messages == "none":
        assert rows == []
    else:
        assert rows[0].message_form == messages
        assert ("swordfish" in rows[0].message) == (messages == "kept")


def test_an_outbox_stands_beside_its_registry_or_in_the_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert usual_outbox(f"sqlite:///{tmp_path / 'tools.db'}") == tmp_path / "tools.db.outbox"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    if sys.platform != "win32":
        one = usual_outbox("postgresql://ann:secret@host/tools")
        assert one.parent == tmp_path / "toolroll" and one == usual_outbox(
            "postgresql://ann:other@host/tools"
        )
        assert one != usual_outbox("postgresql://ann@host/others")


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write everywhere")
def test_where_nothing_may_be_written_selections_go_on(url: str, tmp_path: Path) -> None:  # pragma: no cover
    folder = tmp_path / "mine"
    folder.mkdir()
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with Toolroll.open(url, recording=Recording(outbox=folder / "outbox")) as roll:
        picked = roll.select(MESSAGE)
        with pytest.raises(StoreUnavailable, match="cannot be written"):
            roll.record(picked, {picked.names[0]: True})


KILLED = """
import os, sys
from toolroll import Context, Recording, Toolroll

roll = Toolroll.open(sys.argv[1], recording=Recording(outbox=sys.argv[2]))
for number in range(100_000):
    picked = roll.select("tell the team about lunch", Context(org="acme", user=f"u{number}"), k=3)
    roll.record(picked, {picked.names[0]: True})
    os.write(1, f"{picked.event_id}\\n".encode())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no kill -9 here")
def test_what_a_killed_process_acknowledged_counts_once_another_opens_the_registry(
    url: str, tmp_path: Path
) -> None:
    outbox = tmp_path / "outbox"
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, url, str(outbox)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        acknowledged = [process.stdout.readline().strip() for _ in range(150)]
        process.send_signal(signal.SIGKILL)
        acknowledged += process.stdout.read().split("\n")[:-1]
    with (
        Toolroll.open(url, recording=Recording(outbox=outbox)),
        opened(url) as database,
    ):  # it takes over by itself

        def counted() -> set[str]:
            with database.reading() as connection:
                return set(connection.execute(sa.select(tables.outcomes.c.event_id)).scalars())

        eventually(lambda: set(acknowledged) <= counted(), 30)
        assert len(counted()) == len(rows_of(database, tables.outcomes)) <= len(acknowledged) + 1
        called = sum(called for _, called, _ in raw_counts(database, "acme").values())
        assert called == len(counted())


def test_the_database_refuses_a_key_of_receipts_that_is_none(database):
    receipts.signer_of(database)
    with (
        pytest.raises(InvalidInput, match="its column does not allow"),
        database.recording() as connection,
    ):
        connection.execute(sa.update(tables.receipt_keys).values(secret=b"short"))
