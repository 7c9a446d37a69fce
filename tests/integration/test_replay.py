"""Logged events, decided again."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from tests.integration.commands import Typed
from tests.integration.governance import Governed
from tests.integration.logged import columns_of
from toolroll import Context, Follow, Recording, Tool, Toolkit, Toolroll
from toolroll.embedders.named import embedder
from toolroll.formats.sources.folder import read_folder
from toolroll.learning.experiments import Experiment
from toolroll.model.errors import NotFound
from toolroll.model.identity import pack_key, tool_key
from toolroll.model.rules import PageMapping, Rule
from toolroll.registry.analytics.experiments import start
from toolroll.registry.events.details import packed_event, tools_of
from toolroll.registry.events.logged_tools import ToolNumbers
from toolroll.registry.events.priors import ACTION, SUBJECT, shared_tool
from toolroll.registry.events.replay import ReplayResult, replay
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.selection.pipeline_builder import PipelineBuilder
from toolroll.selection.profiles import profile
from toolroll.selection.selection import Selection
from toolroll.selection.steps import own_steps

pytestmark = pytest.mark.slow

DEMO = Path(__file__).parents[2] / "python" / "toolroll" / "demo" / "toolkits"
KITS = ("calendar", "contacts", "crm", "deals", "email", "files", "notes", "weather", "web")
SAID = (
    "Will it rain in Oslo tomorrow?",
    "Add Hanna to my contacts and send her the offer",
    "yes, the second one",
    "내일 회의를 잡아줘",
    "Which deals are we about to lose?",
    "Delete the note about the roof, then list what is left",
    "serch the web for tents",
)


class World:
    """A registry that is used, changed and learnt from."""

    def __init__(self, url: str, messages: Any = "kept", steps: Any = ()) -> None:
        self.url, self.database = url, Database.open(url, create=False, migrate=False)
        self.registry, self.governed = Registry(self.database, actor="ann"), Governed(self.database)
        demo = read_folder(DEMO)
        self.registry.import_(
            replace(
                demo,
                tools=tuple(tool for tool in demo.tools if tool.toolkit in KITS),
                toolkits=tuple(kit for kit in demo.toolkits if kit.name in KITS),
                routes=tuple(route for route in demo.routes if {*route.toolkits} <= {*KITS}),
            )
        )
        self.registry.create(Tool("acme_search", "Searches the shelves of Acme"), org="acme")
        self.roll: Toolroll = Toolroll.open(
            url,
            follow=Follow(poll_s=60, listens=False),
            recording=Recording(messages=messages),
            steps=steps,
        )
        self.refresh()

    def close(self) -> None:
        self.roll.close()
        self.database.close()

    def refresh(self) -> None:
        self.roll.refresh()
        self.roll.warm_up()

    def select(self, message: str, org: str = "", k: int | None = 5, **options: Any) -> Selection:
        """Selects for somebody, once all that was recorded has been learnt."""
        assert self.roll.flush()
        self.roll._home._recording.follower.follow([org])
        return self.roll.select(message, Context(org=org), k=k, **options)

    def log(self, picked: Selection, **called: bool) -> str:
        """What the model did is that it called what came first, unless something else is said."""
        self.roll.record(picked, called or dict.fromkeys(picked.names[:1], True))
        assert self.roll.flush()
        return picked.event_id

    def replay(self, event_id: str, **options: Any) -> ReplayResult:
        return replay(self.database, event_id, builder_of, **options)

    def tamper(self, event_id: str, **values: Any) -> None:
        table = tables.selection_events
        with self.database.recording() as connection:
            connection.execute(sa.update(table).where(table.c.event_id == event_id).values(values))


def builder_of(name: str) -> PipelineBuilder:
    return PipelineBuilder(embedder("static"), profile(name))


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    made = World(database_url)
    yield made
    made.close()


@pytest.fixture
def here(new_database_url: Any) -> Iterator[World]:
    """One database is enough where nothing of it is asked."""
    made = World(new_database_url("sqlite"))
    yield made
    made.close()


def test_what_a_call_always_included_is_there_when_its_event_is_decided_again(here: World) -> None:
    wanted = here.select("read my mail", k=20).names[-1]
    picked = here.select("should I take an umbrella?", k=2, always_include=[wanted])
    assert wanted in picked
    again = here.replay(here.log(picked))
    assert again.is_same, again


def test_a_search_is_decided_again_as_a_search(here: World) -> None:
    core = here.registry.tool("send_email")
    here.registry.update("send_email", {"pinned": True}, version=core.version)
    here.refresh()
    session = here.roll.session("mcp")
    found = session.search("what will the weather be", k=3)
    event_id = session._live.state.turns[0].event_id
    assert session.used({found[0].name: True}) == ()
    assert here.roll.flush()
    again = here.replay(event_id)
    assert again.is_same, str(again)
    assert core.name not in again.selection.names  # a selection has the pinned tool, whatever the message


def test_events_are_decided_again_to_the_last_bit_whatever_has_happened_since(world: World) -> None:
    draw = random.Random(3)
    registry, governed = world.registry, world.governed

    def edit() -> None:
        tool = registry.tool("search_news")
        registry.update("search_news", {"description": f"Searches {draw.random()}"}, version=tool.version)

    edits = (
        edit,
        lambda: governed.rules.add(Rule("no mail", "deny", "composite", {"role": "guest"}, toolkit="email")),
        lambda: governed.pages.add(PageMapping("deals*", ("deals", "crm"), 3)),
        lambda: registry.create(Tool("acme_count", "Counts the shelves of Acme"), org="acme"),
        lambda: governed.toolkits.put(Toolkit("weather", "All about the sky"), keywords=["rain", "sky"]),
        lambda: registry.delete("acme_search", org="acme"),
        lambda: governed.rules.disable("no mail"),
        edit,
    )
    logged = []
    for change in edits:
        for _ in range(4):
            org = draw.choice(("acme", "blue"))
            world.roll._home._recording.follower.follow([org])
            picked = world.roll.select(
                draw.choice(SAID),
                Context(
                    org=org,
                    user=draw.choice(("u", "v")),
                    roles=draw.choice(((), ("guest",))),
                    tier=draw.choice(("free", "pro")),
                    page=draw.choice(("home", "deals/7")),
                    session=draw.choice(("", "s1")),
                    settings=draw.choice(((), ("crm_key", "SMTP_HOST"))),
                    everything=draw.random() < 0.3,
                    exclude=draw.choice(((), ("search_news",))),
                    only=draw.choice(((), (), ("acme_search", "search_news", "list_events"))),
                ),
                k=draw.choice((None, 3, 7)),
                max_tools=draw.choice((None, 5)),
                budget_tokens=draw.choice((None, 900)),
                sent=draw.choice(((), ("list_events",))),
                history=draw.choice(((), ("What is on my calendar?",))),
            )
            logged.append(world.log(picked))
        change()
        world.refresh()
    for event_id in logged:
        again = world.replay(event_id)
        assert again.is_same, str(again)
    events = [world.replay(event_id).event for event_id in logged]
    assert len({event.catalog_revision for event in events}) > 4
    assert max(event.learned_revision for event in events) > 5


def test_what_was_taken_back_later_counted_then(world: World) -> None:
    for message in SAID:
        world.log(world.select(message, "acme"))
    event_id = world.log(world.select(SAID[1], "acme"))
    before = world.replay(event_id)
    assert before.is_same
    world.roll.forget_outcomes("acme", reporter="", actor="ann")
    after = world.replay(event_id)
    assert after.is_same, str(after)
    assert after.selection is not None and after.selection.turn.learned is not None


def test_one_outcome_more_or_less_or_another_hour_comes_out_otherwise(here: World) -> None:
    for _ in range(3):
        here.log(here.select(SAID[1], "acme"))
    event_id = here.log(here.select(SAID[1], "acme"))
    event = here.replay(event_id).event
    for column, value in (
        ("learned_revision", 2),
        ("learned_revision", 4),
        ("at", event.at + timedelta(hours=1)),
        ("seed", event.seed ^ 1),
    ):
        here.tamper(event_id, **{column: value})
        assert any("score" in line for line in here.replay(event_id).differences), column
        here.tamper(event_id, **{column: getattr(event, column)})
    assert here.replay(event_id).is_same


def test_what_an_experiment_dealt_is_decided_under_its_variant(here: World) -> None:
    shares = {"default": 0.34, "static": 0.33, "learned": 0.33}
    start(here.database, Experiment("one", shares, "session", "salt"), actor="ann")
    here.refresh()
    found = set()
    for number in range(12):
        here.roll.flush()
        picked = here.roll.select(SAID[number % 2], Context(session=f"s{number}"), k=5)
        again = here.replay(here.log(picked))
        assert again.is_same, str(again)
        found.add(again.event.variant)
    assert found == {*shares}


class Backwards:
    """Turns the order round."""

    name = "backwards"

    def rerank(self, tools: Any, scores: Any, turn: Any) -> Any:
        return -scores


def test_steps_of_the_caller_are_named_by_a_replay_that_lacks_them(new_database_url: Any) -> None:
    world = World(new_database_url("sqlite"), steps=[Backwards()])
    try:
        event_id = world.log(world.select("Will it rain?"))
        without = world.replay(event_id)
        assert not without.is_same and without.missing == ("its steps are not installed here: backwards",)

        def with_steps(name: str) -> PipelineBuilder:
            return replace(builder_of(name), steps=own_steps([Backwards()]))

        assert replay(world.database, event_id, with_steps).is_same
        world.roll.close()
        world.roll = Toolroll.open(world.url, recording=Recording(messages="kept"))
        plain = world.log(world.select("Will it rain?"))
        assert replay(world.database, plain, with_steps).is_same  # no step ran, and none does now
    finally:
        world.close()


def test_another_profile_shows_what_it_would_have_selected(here: World) -> None:
    for _ in range(3):
        here.log(here.select(SAID[1]), **{"create_contact": True})
    event_id = here.log(here.select(SAID[1]))
    again = here.replay(event_id, profile="static")
    assert again.selection is not None and again.differences
    plain = Toolroll.open(here.url, profile="static", follow=Follow(poll_s=60, listens=False))
    assert again.selection.names == plain.select(SAID[1], k=5).names
    plain.close()


def test_a_message_that_was_not_embedded_is_decided_again_without_a_vector(here: World) -> None:
    here.roll.close()
    here.roll = Toolroll.open(
        here.url,
        profile="layers",
        follow=Follow(poll_s=60, listens=False),
        recording=Recording(messages="kept"),
    )
    here.refresh()
    spared, embedded = here.select("Weather in Oslo?"), here.select(SAID[5])
    assert spared.turn.vector is None and embedded.turn.vector is not None
    for picked in (spared, embedded):
        again = here.replay(here.log(picked))
        assert again.is_same, str(again)
    again = here.replay(spared.event_id, profile="static")  # which embeds each message
    plain = Toolroll.open(here.url, profile="static", follow=Follow(poll_s=60, listens=False))
    assert again.selection is not None and again.selection.turn.vector is not None
    assert again.selection.names == plain.select("Weather in Oslo?", k=5).names
    plain.close()


def test_a_profile_of_another_catalog_shows_what_it_would_have_selected(here: World) -> None:
    event_id = here.log(here.select(SAID[1]))
    again = here.replay(event_id, profile="learned")
    assert not again.missing and again.selection is not None and again.differences
    assert again.selection.catalog_revision != again.event.catalog_revision
    with Toolroll.open(
        here.url,
        profile="learned",
        follow=Follow(poll_s=60, listens=False),
        recording=Recording(messages="none"),
    ) as other:
        assert again.selection.catalog_revision == other.catalog.revision


def test_what_organisations_share_is_where_every_one_begins(new_database_url: Any) -> None:
    url = new_database_url("sqlite")
    world = World(url)
    counts = {"successes": 90.0, "failures": 10.0, "calls": 80.0, "expected": 20.0}
    keys = tool_key(world.registry.tool("create_contact").tool)

    def share(**more: float) -> None:
        with world.database.writing("ann") as write:
            tools = {"create_contact": shared_tool(keys, {**counts, **more})}
            write.log(ACTION, SUBJECT, {"tools": tools})

    share()
    world.roll.close()
    world.roll = Toolroll.open(url, follow=Follow(poll_s=60, listens=False))
    world.refresh()
    logged = [world.log(world.select(message, "acme")) for message in SAID[:3]]
    for event_id in logged:
        again = world.replay(event_id)
        assert again.is_same, str(again)
    for _ in range(3):
        world.log(world.select(SAID[1], "acme"), **{"create_contact": True})
    logged.append(world.log(world.select(SAID[1], "acme")))
    share(successes=1.0, failures=99.0)  # older releases stay known, and acme keeps the one it began with
    for event_id in logged:
        again = world.replay(event_id)
        assert again.is_same, str(again)
    world.refresh()
    logged.append(world.log(world.select(SAID[1], "acme")))
    assert world.replay(logged[-1]).is_same
    world.close()


def test_a_tool_that_was_deleted_before_its_catalog_was_built_anew_is_gone_in_a_replay(here: World) -> None:
    engine = here.roll._home.engine
    here.registry.delete("search_news")
    snapshot = engine.snapshot
    gone = snapshot.shared.without(["search_news"])
    engine.swap(replace(snapshot, shared=gone, revision=snapshot.revision + 1))  # as upkeep does it
    again = here.replay(here.log(here.select("Search the web for news")))
    assert again.is_same, str(again)
    assert again.selection is not None and "search_news" not in again.selection.names
    assert "search_news" in again.selection.catalog.names


def test_an_event_of_an_organisation_whose_catalog_was_not_there_yet_is_decided_by_the_shared_one(
    here: World,
) -> None:
    engine = here.roll._home.engine
    engine.swap(replace(engine.snapshot, own={}, awaited=frozenset({"acme"})))
    picked = here.select("Search the shelves", "acme")
    assert picked.degraded == ("organisation",)
    again = here.replay(here.log(picked))
    assert again.is_same, str(again)


def test_an_event_whose_embedder_was_away_is_decided_by_words(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(text: str) -> np.ndarray:
        raise OSError("away")

    engine = here.roll._home.engine
    with monkeypatch.context() as patch:
        patch.setattr(engine, "_table", None)  # as with an embedder that is not built in
        patch.setattr(engine._embedder, "embed_query", fails)
        picked = here.select("Will it rain?")
    assert picked.degraded == ("embedder",)
    again = here.replay(here.log(picked))
    assert again.is_same, str(again)


@pytest.mark.parametrize("form", ["hashed", "dropped"])
def test_a_message_that_was_not_kept_is_said_to_be_missing(new_database_url: Any, form: Any) -> None:
    world = World(new_database_url("sqlite"), form)
    again = world.replay(world.log(world.select("Will it rain?")))
    world.close()
    assert again.selection is None and not again.is_same
    assert again.missing == (f"its message was not kept: it was {form}",)


def test_another_embedder_is_said_to_be_another(here: World) -> None:
    event_id = here.log(here.select("Will it rain?"))
    for other, name in (("hashing", "hashing"), ("none", "none")):
        again = replay(
            here.database,
            event_id,
            lambda profile_name, other=other: PipelineBuilder(embedder(other), profile("default")),
        )
        assert again.selection is None
        assert f"the embedder here is {name}" in again.missing[0]


def test_a_catalog_that_the_registry_never_had_is_said_to_be_missing(here: World) -> None:
    event_id = here.log(here.select("Will it rain?"))
    here.tamper(event_id, catalog_revision="0123456789abcdef")
    again = here.replay(event_id)
    assert again.selection is None
    assert "catalog 0123456789abcdef cannot be rebuilt from registry revision" in again.missing[0]


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("registry_revision", 10**6, "revision 1000000 does not exist"),
        ("learned_revision", 10**6, "1000000 outcomes had counted, and the store has 1"),
        ("profile", "mine", "profile 'mine': unknown"),
        ("variant", "b", "its profile is not known here: profile 'b': unknown"),
        ("learned_revision", -1, "which outcomes had counted was no longer known"),
    ],
)
def test_what_is_not_to_be_had_is_named(here: World, column: str, value: Any, says: str) -> None:
    event_id = here.log(here.select("Will it rain?"))
    here.tamper(event_id, **{column: value})
    again = here.replay(event_id)
    assert again.selection is None
    assert says in again.missing[0]


def test_a_vector_that_the_caller_gave_is_taken_from_the_event_and_said_to_be_rounded(here: World) -> None:
    vector = embedder("static").embed_query("search the web")  # type: ignore[union-attr]
    event_id = here.log(here.select("Will it rain?", vector=vector))
    again = here.replay(event_id)
    assert again.selection is not None and not again.is_same
    assert again.selection.names == tuple(again.event.selected)
    assert len(again.missing) == 1 and "in half precision" in again.missing[0]


def test_what_differs_is_said_tool_by_tool(here: World) -> None:
    event_id = here.log(here.select("Will it rain?"))
    event = here.replay(event_id).event
    candidates = [
        [name, score + (at == 1), *rest] for at, (name, score, *rest) in enumerate(event.candidates)
    ]
    keys = b"".join(pack_key(tool_key(here.registry.tool(name).tool)) for name, *_ in candidates)
    changed = {**vars(event), "candidates": columns_of(candidates)._replace(keys=keys)}
    with here.database.recording() as connection:
        packed = packed_event(changed, ToolNumbers().of(connection, tools_of(changed)))
    here.tamper(event_id, selected=event.selected[1:], details=packed["details"], confidence=0.5)
    again = here.replay(event_id)
    assert not again.is_same and not again.missing
    text = str(again)
    assert "decided again, not as it was" in text
    assert f"selected: {', '.join(event.selected[1:])} → {', '.join(event.selected)}" in text
    assert f"score of {candidates[1][0]}: {candidates[1][1]!r} → {event.candidates[1][1]!r}" in text
    assert "confidence: 0.5 → " in text


def test_an_event_that_is_not_there_or_is_anothers_is_not_found(here: World) -> None:
    event_id = here.log(here.select("Will it rain?", "blue"))
    assert here.replay(event_id, org="blue").is_same
    for unknown, org in (("0" * 24, None), (event_id, "acme")):
        with pytest.raises(NotFound, match="is not in the store"):
            here.replay(unknown, org=org)


def test_the_command_prints_what_came_of_it(
    world: World, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    event_id = world.log(world.select("Will it rain?", "acme"))
    typed = Typed(database_url, capsys)
    same = typed("lab", "replay", event_id)
    assert same.err == ""
    assert same.out.startswith(f"event {event_id}: decided again as it was, to the last bit (")
    found = typed.json("lab", "replay", event_id)
    assert found["same"] and found["logged"] == found["decided"]
    assert "rain" not in json.dumps(found)
    world.tamper(event_id, message_form="dropped", message="")
    assert "cannot be decided again" in typed("lab", "replay", event_id, status=1).out
    assert "is not in the store" in typed("lab", "replay", "nothing", status=1).err
