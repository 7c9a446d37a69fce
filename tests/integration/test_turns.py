"""A turn that several processes share: each may check, report and deliver, and all decide alike at once."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import sqlalchemy as sa

from toolroll import Context, Follow, Profile, Recording, Rule, Tool, Toolkit, Toolroll
from toolroll.formats.meta_tools import META_TOOLS
from toolroll.formats.providers import MOST_TOOLS, PROVIDERS
from toolroll.model.errors import Denied
from toolroll.model.tools import Definitions
from toolroll.registry.events.details import EntryReader
from toolroll.registry.events.rows import by_event, outcome_rows, settled_after
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

pytestmark = pytest.mark.slow

THINGS = {
    "mail": ("send", "read", "delete", "archive", "forward"),
    "calendar": ("create", "list", "move", "cancel", "find"),
    "music": ("play", "pause", "skip", "queue", "like"),
    "files": ("open", "copy", "rename", "zip", "upload"),
}
TOOLS = tuple(
    Tool(f"{verb}_{thing}", f"{verb} something in {thing}", toolkit=thing)
    for thing, verbs in THINGS.items()
    for verb in verbs
)
NAMES = [tool.name for tool in TOOLS]
PROFILE = Profile(pass_through_tools=0)
INTERLEAVINGS = int(os.environ.get("TOOLROLL_INTERLEAVINGS", "100"))


@pytest.fixture
def url(database_url: str) -> str:
    """A registry with twenty tools and one core tool."""
    database = Database.open(database_url, create=False, migrate=False)
    ask = Tool("ask_user", "Asks the user.", toolkit="base")
    kits = (Toolkit("base", base=True), *map(Toolkit, THINGS))
    Registry(database, actor="ann").import_(Definitions((*TOOLS, ask), kits))
    database.close()
    return database_url


@pytest.fixture
def replicas(url: str, tmp_path: Path) -> Iterator[tuple[Toolroll, ...]]:
    """Three processes' worth of `Toolroll`: none shares memory with another."""
    rolls = tuple(
        Toolroll.open(
            url,
            embedder="none",
            profile=PROFILE,
            follow=Follow(poll_s=0.05),
            recording=Recording(outbox=tmp_path / str(at)),
        )
        for at in range(3)
    )
    yield rolls
    for roll in rolls:
        roll.close()


def counted(url: str) -> dict[str, dict[str, str]]:
    """Event → tool → outcome, of everything that was reported."""
    database = Database.open(url, create=False, migrate=False)
    with database.reading() as connection:
        found = connection.execute(sa.select(tables.outcomes)).all()
        rows = outcome_rows(EntryReader(connection), found)
    database.close()
    return {
        event: {name: one.kind for name, one in settled_after(of_event).said.items()}
        for event, of_event in by_event(rows).items()
    }


def test_a_turn_that_three_processes_share_is_checked_and_learnt_from(url, replicas):
    selecting, checking, reporting = replicas
    for number in range(5):
        name = f"shared-{number}"
        selection = selecting.session(name).select("send a mail", k=3)
        called = selection.names[-1]
        assert checking.session(name).check(called).name == called
        with pytest.raises(Denied):
            checking.session(name).check("zip_files")
        session = reporting.session(name)
        assert session.used({called: True}) == ()
        session.end_turn()
        assert reporting.flush() and selecting.flush()
        assert counted(url)[selection.event_id] == {called: "succeeded"}


def test_what_one_process_found_another_may_call_at_once(replicas):
    here, there, _ = replicas
    for number in range(10):
        found = here.session(f"found-{number}").search("play some music", k=1)[0].name
        assert there.session(f"found-{number}").check(found).name == found


def test_a_session_that_was_opened_before_sees_what_was_offered_since(replicas):
    here, there, _ = replicas
    session = there.session("before")
    selection = here.session("before").select("send a mail", k=3)
    for name in selection.names:
        assert session.check(name).name == name
    assert session.used({selection.names[-1]: True}) == ()
    with pytest.raises(Denied):
        session.check("zip_files")


@pytest.mark.parametrize("how", ["replace", "allow", "meta-tools"])
def test_every_check_in_every_process_agrees_on_what_was_delivered(replicas, how):
    here, there, _ = replicas
    session = here.session(how)
    selection = session.select("send a mail", k=3)
    delivery = selection.deliver("openai", how)
    other = there.session(how)
    names = [*NAMES, "ask_user", *(tool.name for tool in META_TOOLS), "nothing_such"]

    def passes(checks: object, name: str) -> bool:
        with suppress(Denied):
            return checks.check(name) is not None  # type: ignore[attr-defined]
        return False

    def callable_in_all() -> set[str]:
        answers = [
            {name for name in names if passes(checks, name)}
            for checks in (selection, delivery, session, session.selection, other, other.selection)
        ]
        assert all(answer == answers[0] for answer in answers)
        return answers[0]

    shown = {"ask_user"} if how == "meta-tools" else set(selection.names)
    meta = {"search_tools", "call_tool"} if how == "meta-tools" else set()
    assert callable_in_all() == shown | meta
    found = other.search("zip the files", k=1)[0].name  # in the other process
    assert callable_in_all() == shown | meta | {found}
    again = other.deliver("openai", how)
    assert {name for name in names if passes(again, name)} == shown | meta | {found}


def test_after_a_deny_is_in_force_every_check_refuses(url, replicas):
    here, there, _ = replicas
    session = here.session("denied")
    selection = session.select("send a mail", k=3)
    delivery, other = selection.deliver("openai"), there.session("denied")
    called = selection.names[-1]
    assert here.may(called) and other.check(called)
    database = Database.open(url, create=False, migrate=False)
    rule = Rule("no", "deny", "composite", {"all": []}, tool=called)
    Registry(database, actor="ann").rules.add(rule)
    database.close()
    here.refresh()
    there.refresh()
    for checks in (selection, delivery, session, session.selection, other):
        with pytest.raises(Denied):
            checks.check(called)
    for roll in (here, there):
        assert not roll.may(called) and called not in roll.visible() and "ask_user" in roll.core()
    assert session.used({called: True}) == other.used({called: True}) == (called,)
    assert called not in session.selection and called in selection


def test_the_selection_is_the_same_however_often_it_is_read_and_shown_tools_stay(replicas):
    session = replicas[0].session("steady")
    selection = session.select("send a mail", k=3, max_tools=4)
    assert session.selection is selection
    session.used({selection.names[1]: True})
    assert session.selection is selection
    session.load("zip_files")  # there is no room for it in this turn
    assert session.selection.names == selection.names and session.check("zip_files")
    elsewhere = replicas[1].session("steady").selection
    assert elsewhere.names == selection.names and elsewhere.event_id == selection.event_id


def test_a_request_that_is_sent_again_is_the_same_turn_and_event_in_any_process(url, replicas):
    for history in ((), [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]):
        name = f"again-{len(history)}"
        first = replicas[0].session(name).select("send a mail", k=3, history=history)
        for roll in replicas:
            session = roll.session(name)
            again = session.select("send a mail", k=3, history=history)
            assert (again.names, again.event_id) == (first.names, first.event_id)
            assert session.turn == 1 + len(history) // 2
            session.used({first.names[-1]: True})
        assert all(roll.flush() for roll in replicas)
        assert counted(url)[first.event_id] == {first.names[-1]: "succeeded"}
        replicas[0].session(name).end_turn()
        assert replicas[1].session(name).select("zip files", k=3).event_id != first.event_id


def test_without_a_turn_the_next_call_is_the_outcome_of_the_search(url, replicas):
    here, there, _ = replicas
    answer = here.session("mcp").answer("search_tools", {"queries": ["play some music", "zip my files"]})
    names = [tool.name for tool in answer.tools]
    session = there.session("mcp")
    assert session.answer("call_tool", {"name": "zip_files", "arguments": {}}).call is not None
    assert session.used({"zip_files": True}) == ()
    session.search("cancel the calendar", k=1)
    session.used({"cancel_calendar": False, "play_music": True})
    assert here.flush() and there.flush()
    outcomes = sorted(map(str, counted(url).values()))
    assert outcomes == [
        "{'cancel_calendar': 'failed'}",
        "{'play_music': 'succeeded'}",
        "{'zip_files': 'succeeded'}",
    ]
    assert {"play_music", "zip_files"} <= set(names)
    assert session.turn == 2
    database = Database.open(url, create=False, migrate=False)
    with database.reading() as connection:
        messages = set(connection.execute(sa.select(tables.selection_events.c.message)).scalars())
    database.close()
    assert messages == {"play some music", "zip my files", "cancel the calendar"}


def test_outcomes_count_what_the_delivery_sent(url, replicas):
    here, there, _ = replicas
    session = here.session("sent")
    selection = session.select("send a mail", k=3)
    session.deliver("openai", "meta-tools")
    other = there.session("sent")
    other.answer("search_tools", {"queries": ["send a mail"]})
    other.answer("call_tool", {"name": "send_mail", "arguments": {}})
    assert other.used({"send_mail": True}) == ()
    other.end_turn()
    assert here.flush() and there.flush()
    assert "send_mail" in selection.names
    assert counted(url)[selection.event_id] == {"send_mail": "wanted_succeeded"}


def test_a_fallback_promises_what_the_provider_of_another_processs_delivery_takes(replicas, monkeypatch):
    here, there, _ = replicas
    few = dataclasses.replace(PROVIDERS["openai"], most_tools=12)
    monkeypatch.setitem(PROVIDERS, "openai", few)
    monkeypatch.setitem(MOST_TOOLS, "openai", 12)
    here.session("all").select("send a mail", k=3)
    here.session("all").deliver("openai", meta_tools=META_TOOLS)
    answer = there.session("all").answer("manage_tools", {"mode": "fallback"})
    assert answer.text.startswith("9 of 21 tools are loaded")
    delivery = here.session("all").deliver("openai", meta_tools=META_TOOLS)
    assert len(delivery.request["tools"]) == 12 and delivery.left_out == ()


def test_no_call_or_load_of_another_process_withdraws_a_tool_in_the_middle_of_its_turn(replicas):
    for turn in range(1, 10):  # lists that are full every few turns, and then lose a third
        randomly = random.Random(turn)
        selection = replicas[0].session("full").select(" ".join(randomly.sample(NAMES, 2)), k=3, turn=turn)
        replicas[1].session("full").used({selection.names[-1]: True})
        replicas[1].session("full").load(NAMES[turn])
        later = replicas[2].session("full")
        assert later.selection.names[: len(selection)] == selection.names
        assert all(later.check(name) for name in selection.names)
        later.end_turn()


def test_a_process_unloads_what_another_has_loaded_and_says_what_was_not(replicas):
    here, there, _ = replicas
    here.session("unload").load("zip_files")
    answer = there.session("unload").unload("zip_files, copy_files")
    assert answer.text == "Unloaded: zip_files. Not loaded: copy_files."
    assert here.session("unload").loaded == ()


def test_every_call_of_a_session_has_a_twin_for_event_loops(replicas):
    async def talk() -> None:
        here, there, _ = replicas
        session = await here.asession("looped", Context(user="ann"))
        selection = await session.aselect("send a mail", k=3)
        other = await there.asession("looped", Context(user="ann"))
        assert (await other.acheck(selection.names[-1])).name == selection.names[-1]
        found = (await other.asearch("zip the files", k=1))[0].name
        assert (await session.acheck(found)).name == found
        assert (await session.aload("play_music")).tools
        assert (await there.asession("looped")).loaded == ("play_music",)
        assert (await session.aanswer("manage_tools", {"mode": "unload", "tools": "play_music"})).tools
        assert (await session.aunload("play_music")).text.startswith("Not loaded")
        assert await other.aused({selection.names[-1]: True, "like_music": True}) == ("like_music",)
        assert "All 21 tools" in (await session.afallback()).text
        await (await there.asession("looped")).aend_turn()
        assert await session.adelete()

    asyncio.run(talk())


def test_a_turn_is_read_once_written_twice_and_reported_once(url, replicas, monkeypatch):
    here, there, _ = replicas
    first = here.session("one value")
    first.select("read a mail", k=3)
    first.end_turn()  # who ends turns is expected to end the next one, too
    rows, recorded = here._home.conversations._rows, []
    calls = {"read": 0, "write": 0}
    for name in calls:
        plain = getattr(rows, name)

        def counting(*arguments, name=name, plain=plain):
            calls[name] += 1
            return plain(*arguments)

        monkeypatch.setattr(rows, name, counting)
    record = here._home.record_turn
    monkeypatch.setattr(
        here._home, "record_turn", lambda shown, report: recorded.append(report) or record(shown, report)
    )
    monkeypatch.setattr(here._home.conversations, "write_waiting", lambda: None)
    session = here.session("one value")
    selection = session.select("send a mail", k=3)
    assert there.session("one value").check(selection.names[-1])  # it was written when it was offered
    session.used({selection.names[-1]: True})
    session.end_turn()
    assert calls == {"read": 1, "write": 2} and [one.is_final for one in recorded] == [True]
    elsewhere = there.session("one value")
    assert not elsewhere.is_open and elsewhere.conversation == session.conversation
    assert here.flush()
    assert counted(url)[selection.event_id] == {selection.names[-1]: "succeeded"}


def test_what_was_used_and_not_ended_is_known_to_other_processes_soon(replicas):
    here, there, _ = replicas
    session = here.session("not ended")
    called = session.select("send a mail", k=3).names[-1]
    session.used({called: True})
    deadline = time.monotonic() + 60
    while not there.session("not ended").has_called:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert there.session("not ended").conversation == session.conversation


# Random interleavings of two replicas, against dictionaries.


@dataclass
class Model:
    """What a conversation should hold."""

    turn: int = 0
    message: str = ""
    open: dict[str, list[str]] = field(default_factory=dict)  # event → tools; of the selection or searches
    is_selected: bool = False
    reported: set[str] = field(default_factory=set)
    loaded: dict[str, list[int]] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)

    def begin(self, message: str) -> None:
        last, self.turn, self.message = self.turn, self.turn + 1, message
        self.loaded = {name: at for name, at in self.loaded.items() if last - max(at) <= 5}

    @property
    def granted(self) -> set[str]:
        return {*self.loaded, *self.found, *(name for names in self.open.values() for name in names)}


Outcomes = dict[str, dict[str, list[str]]]  # event → tool → what was reported, in order


def play(model: Model, session, random: random.Random, outcomes: Outcomes) -> None:
    """One step, by the model and by the session."""
    name = random.choice([*NAMES, "ask_user"])
    if model.granted and random.random() < 0.6:
        name = random.choice(sorted(model.granted))
    match random.choice(("select", "search", "load", "unload", "used", "used", "end", "check", "check")):
        case "select":
            verb, thing = random.choice(("send", "play", "zip")), random.choice(("mail", "music"))
            message = f"{verb} {thing}"
            selection = session.select(message, k=2)
            if model.is_selected and message == model.message:
                assert selection.event_id in model.open
                assert set(model.open[selection.event_id]) <= set(selection.names)
            else:
                model.begin(message)
                model.open, model.is_selected = {selection.event_id: list(selection.names)}, True
        case "search":
            query = random.choice(("move the calendar", "copy the files", "archive mail"))
            found = [tool.name for tool in session.search(query, k=2)]
            if not model.is_selected:
                is_same = query == model.message and any(one not in model.reported for one in model.open)
                before = dict(model.open)
                if is_same:
                    before = {event: names for event, names in before.items() if event not in model.latest}
                else:
                    model.begin(query)
                    model.latest = set()
                event = session._live.state.turns[0].event_id
                model.latest = {event}
                model.open = dict([(event, found), *before.items()][:6])
            model.found = list(dict.fromkeys((*found, *model.found)))[:64]
        case "load":
            session.load(name)
            if name != "ask_user":
                used = model.loaded.get(name, [0, model.turn])[1]
                model.loaded[name] = [model.turn, used]
        case "unload":
            session.unload(name)
            if name != "ask_user":
                model.loaded.pop(name, None)
                model.found = [one for one in model.found if one != name]
        case "used":
            worked = random.choice((True, False, None))
            is_offered = name in model.granted
            assert session.used({name: worked}) == (() if is_offered else (name,))
            if is_offered:
                kind = {True: "succeeded", False: "failed", None: "called"}[worked]
                if name in model.loaded:
                    model.loaded[name][1] = model.turn
                event = next((event for event, names in model.open.items() if name in names), None)
                newest = next(iter(model.open), "")
                # What a search did not find is wanted once it worked.
                is_wanted = model.is_selected or worked or name in outcomes.get(newest, {})
                if event is None and newest and is_wanted:
                    event, kind = newest, {"called": "wanted"}.get(kind, f"wanted_{kind}")
                if event is not None:
                    model.reported.add(event)
                    outcomes.setdefault(event, {}).setdefault(name, []).append(kind)
        case "end":
            session.end_turn()
            model.open, model.is_selected = {}, False
        case "check":
            with suppress(Denied):
                assert session.check(name).name == name
                assert name in model.granted, name
                return
            assert name not in model.granted, name
    assert session.turn == model.turn
    assert session.loaded == tuple(model.loaded)


def interleaved(url: str, replicas: tuple[Toolroll, ...], count: int, steps: int) -> None:
    outcomes: Outcomes = {}
    for number in range(count):
        randomly, model = random.Random(number), Model()
        model.latest = set()  # type: ignore[attr-defined]
        for _ in range(steps):
            roll = randomly.choice(replicas[:2])
            play(model, roll.session(f"model-{number}"), randomly, outcomes)
    assert all(roll.flush(120) for roll in replicas)
    found = counted(url)
    assert {event: set(tools) for event, tools in found.items()} == {
        event: set(tools) for event, tools in outcomes.items()
    }
    for event, tools in outcomes.items():
        for name, kinds in tools.items():
            # A report that repeats an earlier one leaves no row. If the store gets that of the other replica
            # after both of them, the other one counts.
            expected = {kinds[-1]} if kinds[-1] not in kinds[:-1] else set(kinds)
            assert found[event][name] in expected, (kinds, found[event][name])


def test_two_replicas_agree_with_dictionaries(url, replicas):
    interleaved(url, replicas, 20, 20)


def test_two_replicas_agree_with_dictionaries_over_many_interleavings(url, replicas):
    interleaved(url, replicas, INTERLEAVINGS, 12)
