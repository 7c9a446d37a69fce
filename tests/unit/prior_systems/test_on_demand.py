"""MIRA (profile `on_demand`): the model reads hints and loads tools. The conversation is the system's example."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.prior_systems.planned import PlannedEmbedder
from toolroll import Context, Tool, Toolroll
from toolroll.catalog.tokens import estimate_tokens
from toolroll.formats.meta_tools import MANAGE_TOOLS, META_TOOLS
from toolroll.model.errors import Denied
from toolroll.model.identity import schema_text
from toolroll.selection.profiles import PROFILES

FOLDER = Path(__file__).parents[2] / "data" / "prior_systems" / "on_demand"
ESSENTIAL = ("reminder_tool", "webaccess_tool")
SEATTLE = "What's the weather in Seattle?"


def roll_of(**changes) -> Toolroll:
    return Toolroll.from_folder(FOLDER, profile=PROFILES["on_demand"].with_(**changes))


@pytest.fixture
def session():
    return roll_of().session("mira")


def manage(session, **arguments) -> str:
    return session.answer(MANAGE_TOOLS.name, arguments).text


def test_only_essential_tools_are_there_whatever_the_message():
    roll = roll_of()
    for message in (SEATTLE, "weather_tool", "", "remember to call Ann"):
        assert roll.select(message).names == ESSENTIAL
    assert roll.select(SEATTLE).log_lines() == ("tool selection: method=none, core=2, total=2/12",)


def test_keywords_and_meaning_have_no_say():
    embedder = PlannedEmbedder({"weather tool": 0.9})
    roll = Toolroll.from_folder(FOLDER, profile="on_demand", embedder=embedder)
    assert roll.select(SEATTLE).names == ESSENTIAL
    assert embedder.asked == []


def test_every_tool_that_is_not_loaded_is_hinted_at_with_its_whole_description(session):
    session.select(SEATTLE)
    hints = session.hints()
    assert "- weather_tool: Get" in hints
    for tool in session.selection.catalog.tools:
        assert (f"- {tool.name}: {tool.description}" in hints) is (tool.name not in ESSENTIAL)


def test_a_long_description_is_hinted_at_whole_too():
    long = "Gets the forecast of a place, hour by hour, with wind and rain. " * 16  # 1,024 characters
    session = Toolroll.from_tools([Tool("weather_tool", long)], profile="on_demand").session("mira")
    assert f"- weather_tool: {long.strip()}" in session.hints()


def test_one_tool_is_loaded_and_can_be_called(session):
    session.select(SEATTLE)
    with pytest.raises(Denied):
        session.check("weather_tool")
    assert manage(session, mode="load", tools="weather_tool").startswith("Loaded: weather_tool.")
    assert session.selection.names == (*ESSENTIAL, "weather_tool")
    assert session.check("weather_tool").name == "weather_tool"
    assert "weather_tool" not in session.hints()


def test_several_tools_are_loaded_at_once_by_names_with_commas(session):
    session.select("Mail my week to Ann")
    assert manage(session, mode="load", tools="calendar_tool,email_tool").startswith(
        "Loaded: calendar_tool, email_tool."
    )
    assert session.selection.names == (*ESSENTIAL, "calendar_tool", "email_tool")


def test_the_seeds_own_arguments_load_tools(session):
    session.select("Mail my week to Ann")
    assert manage(session, mode="load", query="email_tool").startswith("Loaded: email_tool.")
    assert manage(session, mode="load", query="calendar_tool,maps_tool").startswith(
        "Loaded: calendar_tool, maps_tool."
    )
    assert manage(session, mode="unload", query="email_tool") == ("Unloaded: email_tool.")
    assert manage(session, mode="unload", query="weather_tool") == "Not loaded: weather_tool."


def test_a_fallback_between_two_turns_is_of_the_next_one(session):
    assert manage(session, mode="fallback").startswith("The next turn begins with all tools: 12")
    assert len(session.select(SEATTLE)) == 12
    assert session.select("Thanks").names == ESSENTIAL


def test_a_fallback_loads_all_12_tools_for_one_turn_only(session):
    session.select("Coordinate my schedule, email people, check weather, and book travel")
    assert manage(session, mode="fallback").startswith("All 12 tools are loaded, for this turn only")
    assert len(session.selection) == 12
    assert session.select("Thanks").names == ESSENTIAL


def test_unloading_takes_a_tool_out(session):
    session.select(SEATTLE)
    manage(session, mode="load", tools="weather_tool")
    manage(session, mode="unload", tools="weather_tool")
    assert session.selection.names == ESSENTIAL


def test_a_tool_idle_for_more_than_five_turns_is_unloaded_and_hinted_at_again(session):
    session.select(SEATTLE)  # turn 1
    manage(session, mode="load", tools="weather_tool")
    session.used(["weather_tool"])
    for turn in range(2, 8):
        assert "weather_tool" in session.select("And now?", turn=turn)
    assert session.end_turn() == ("weather_tool",)  # idle turns: 7 - 1 = 6, more than 5
    assert session.select("And now?", turn=8).names == ESSENTIAL
    assert "weather_tool" in session.hints()


def test_a_call_begins_the_idle_turns_anew(session):
    session.select(SEATTLE)
    manage(session, mode="load", tools="weather_tool")
    for turn in range(2, 13):
        session.select("And now?", turn=turn)
        if turn == 6:
            session.used(["weather_tool"])
    assert "weather_tool" in session.selection
    assert session.select("And now?", turn=13).names == ESSENTIAL


def test_the_idle_threshold_is_a_parameter():
    session = roll_of(idle_turns=1).session("mira")
    session.select(SEATTLE)
    session.load("weather_tool")
    assert "weather_tool" in session.select("And?", turn=3)
    assert session.select("And?", turn=4).names == ESSENTIAL


def test_essential_tools_are_never_unloaded(session):
    session.select(SEATTLE)
    assert "Cannot be unloaded" in manage(session, mode="unload", tools="webaccess_tool")
    assert session.select("And now?", turn=50).names == ESSENTIAL


def test_the_turn_is_counted_from_the_messages_so_a_restart_changes_nothing(session):
    said = [{"role": role, "content": "…"} for _ in range(3) for role in ("user", "assistant")]
    session.select(SEATTLE, history=said)
    assert session.turn == (len(said) + 1 + 1) // 2 == 4


CALLS = [
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": {}}]},
    {"role": "tool", "tool_call_id": "1", "content": "5 °C"},
]
REMARKS = [  # beside the calls, in three providers' forms
    {"role": "assistant", "content": "Let me look.", "tool_calls": [{"id": "1"}]},
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "Let me look."}, {"type": "tool_use", "id": "1"}],
    },
    {"role": "model", "parts": [{"text": "Let me look."}, {"functionCall": {"name": "weather_tool"}}]},
]


@pytest.mark.parametrize("steps", [[], CALLS, *([remark] for remark in REMARKS)])
def test_a_history_that_holds_the_message_already_counts_it_once(session, steps):
    said = [{"role": role, "content": "…"} for _ in range(3) for role in ("user", "assistant")]
    first = session.select(SEATTLE, history=said)
    again = session.select(SEATTLE, history=[*said, {"role": "user", "content": SEATTLE}, *steps])
    assert session.turn == 4 and again.event_id == first.event_id
    session.select(SEATTLE, history=[*said, SEATTLE, {"role": "assistant", "content": "Rain."}])
    assert session.turn == 5  # asked again after an answer


def test_the_meta_tool_can_be_switched_off():
    on, off = roll_of().session("mira"), roll_of(loading=False).session("mira")
    for session in (on, off):
        session.select(SEATTLE)
    sent = [
        tool["function"]["name"] for tool in off.deliver("openai", meta_tools=META_TOOLS).request["tools"]
    ]
    assert sent == ["search_tools", "call_tool", *ESSENTIAL]
    with pytest.raises(Denied):
        off.check(MANAGE_TOOLS.name)
    for mode in ("load", "fallback"):
        answer = off.answer(MANAGE_TOOLS.name, {"mode": mode, "tools": "weather_tool"})
        assert answer.is_error and "switched off" in answer.text
    assert off.selection.names == ESSENTIAL and off.hints() == ""
    off.load("weather_tool")  # by the application
    assert "weather_tool" in off.selection
    assert "manage_tools" in str(on.deliver("openai", meta_tools=META_TOOLS).request)


def test_loading_and_unloading_are_logged_with_their_turn(session, caplog):
    caplog.set_level("INFO", "toolroll.sessions")
    session.select(SEATTLE)
    manage(session, mode="load", tools="weather_tool, email_tool, webaccess_tool, no_such_tool")
    manage(session, mode="unload", tools="email_tool, maps_tool")
    session.select("And now?", turn=7)
    session.select("And now?", turn=8)
    manage(session, mode="fallback")
    records = [(each.turn, each.action, sorted(each.tools)) for each in caplog.records]
    assert records == [
        (1, "load", ["email_tool", "weather_tool"]),
        (1, "unload", ["email_tool"]),
        (8, "idle", ["weather_tool"]),
        (8, "fallback", sorted(tool.name for tool in session.selection.catalog.tools)),
    ]
    assert caplog.records[0].getMessage() == "load: conversation mira, turn 1: weather_tool email_tool"
    assert {each.session for each in caplog.records} == {"mira"}


def test_most_of_the_tokens_are_saved():
    tokens = roll_of().select(SEATTLE).tokens
    assert tokens.saved / tokens.total > 0.8  # the system: 80 to 90 %
    essential = tokens.selected + estimate_tokens(schema_text(MANAGE_TOOLS))
    assert essential < 500


def test_most_of_the_tokens_are_saved_when_hints_and_the_meta_tool_are_counted(session):
    tokens = session.select(SEATTLE).tokens
    beside = estimate_tokens(session.hints()) + estimate_tokens(schema_text(MANAGE_TOOLS))
    assert 0.8 < (tokens.saved - beside) / tokens.total < 0.9  # 0.83


def test_of_100_tools_each_is_hinted_at_and_most_of_the_tokens_are_saved():
    catalog = roll_of().catalog
    more = [replace(tool, name=f"{tool.name}_{at}") for at in range(9) for tool in catalog.tools]
    session = Toolroll.from_tools([*more, Tool("say", pinned=True)], profile="on_demand").session("mira")
    tokens, hints = session.select(SEATTLE).tokens, session.hints()
    assert len(more) == 108 and all(f"- {tool.name}:" in hints for tool in more)
    assert (tokens.saved - estimate_tokens(hints)) / tokens.total > 0.9


def test_a_long_list_of_tools_is_hinted_at_within_its_budget_and_found_by_a_search():
    tools = [Tool(f"tool_{at:03}", f"Does thing {at} for the user of the system.") for at in range(300)]
    session = Toolroll.from_tools([*tools, Tool("say", pinned=True)], profile="on_demand").session("mira")
    session.select("hello")
    assert "more: search for them" in session.hints(600) and estimate_tokens(session.hints(600)) <= 600
    assert session.search("thing 299", k=5)[0].name == "tool_299"


def test_policy_counts_for_what_is_loaded(session):
    session.context = Context(session="mira", exclude=("email_tool",))
    session.select("Mail Ann")
    answer = session.answer(MANAGE_TOOLS.name, {"mode": "load", "tools": "email_tool"})
    assert answer.is_error and answer.unknown == ("email_tool",)
    assert session.selection.names == ESSENTIAL


def test_a_call_of_the_meta_tool_itself_does_not_count(session):
    session.select(SEATTLE)
    manage(session, mode="load", tools="weather_tool")
    before = session.conversation
    assert session.used([MANAGE_TOOLS.name]) == ()
    assert session.conversation == before
