"""One turn, several `Session` objects: each request gets its own, and all decide, count and answer alike."""

from __future__ import annotations

import pytest

from toolroll import Profile, Tool, Toolkit, Toolroll
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.formats.meta_tools import META_TOOLS
from toolroll.model.errors import Denied, InvalidInput

THINGS = {
    "mail": ("send", "read", "delete", "archive", "forward", "label"),
    "calendar": ("create", "list", "move", "cancel", "find", "share"),
    "music": ("play", "pause", "skip", "queue", "like", "shuffle"),
    "files": ("open", "copy", "rename", "zip", "upload", "print"),
}
TOOLS = [
    Tool(f"{verb}_{thing}", f"{verb} something in {thing}", toolkit=thing)
    for thing, verbs in THINGS.items()
    for verb in verbs
]
NAMES = [tool.name for tool in TOOLS]
MESSAGES = [f"{verbs[at]} {thing}" for at in range(6) for thing, verbs in THINGS.items()]


@pytest.fixture
def roll() -> Toolroll:
    return Toolroll.from_tools(TOOLS, embedder="none", profile=Profile(pass_through_tools=0))


def outcomes(roll: Toolroll, event_id: str) -> dict[str, str]:
    """Tool → outcome, of all that was reported of an event."""
    return {name: one.kind for name, one in roll._home._memory._states[event_id][1].said.items()}


def callable_in(checks: object) -> set[str]:
    """The tools that a check passes."""
    passed = set()
    for name in NAMES:
        try:
            passed.add(checks.check(name).name)  # type: ignore[attr-defined]
        except Denied:
            continue
    return passed


def test_a_later_request_checks_and_reports_what_an_earlier_one_has_shown(roll):
    selection = roll.session("c").select("send a mail", k=3)
    session = roll.session("c")
    assert callable_in(session) == {*selection.names}
    assert session.used({"send_mail": True}) == ()
    roll.session("c").end_turn()
    assert outcomes(roll, selection.event_id) == {"send_mail": "succeeded"}
    assert roll._home.learned("") is not None


def test_a_call_after_a_search_without_a_turn_is_learnt_from(roll):
    roll.session("mcp").answer("search_tools", {"queries": ["play some music"]})
    session = roll.session("mcp")
    assert session.answer("call_tool", {"name": "play_music", "arguments": {}}).call is not None
    event_id = session._live.state.turns[0].event_id
    assert roll.session("mcp").used({"play_music": True}) == ()
    assert outcomes(roll, event_id) == {"play_music": "succeeded"}
    assert roll._home.learned("") is not None


def test_calls_may_come_from_an_iterator(roll, monkeypatch):
    session = roll.session("c")
    selection = session.select("send a mail", k=3)
    monkeypatch.setattr(type(session._calls), "refresh", lambda calls: True)  # as over a store
    calls = iter([("send_mail", True), ("shuffle_music", True)])
    assert session.used(calls) == ("shuffle_music",)
    session.end_turn()
    assert outcomes(roll, selection.event_id)["send_mail"] == "succeeded"


def test_a_record_names_the_selection_only_where_the_delivery_sent_other_tools(roll):
    session = roll.session("c")
    selection = session.select("send a mail", k=3)
    session.deliver("openai")
    assert session._live.state.turns[0].selected == ()
    session.deliver("openai", "meta-tools")
    assert session._live.state.turns[0].selected == selection.names


def test_what_one_session_object_found_another_may_call_at_once(roll):
    found = roll.session("found").search("zip the files", k=1)[0].name
    assert roll.session("found").check(found).name == found


@pytest.mark.parametrize("history", [[], [{"role": role, "content": "x"} for role in ("user", "assistant")]])
def test_a_message_that_is_sent_again_is_the_same_turn_and_event_with_a_history_or_without(roll, history):
    made = [roll.session("again").select("refund", history=history) for _ in range(3)]
    assert roll.session("again").turn == 1 + len(history) // 2
    assert len({selection.event_id for selection in made}) == 1
    roll.session("again").end_turn()
    assert roll.session("again").select("zip files", history=[]).event_id != made[0].event_id


def test_no_call_load_or_search_withdraws_a_tool_in_the_middle_of_its_turn(roll):
    for k in (3, 4):  # lists that are full every few turns, and then lose a third
        for turn, message in enumerate(MESSAGES, 1):
            session = roll.session(f"full-{k}")
            shown = session.select(message, k=k, turn=turn).names
            sent = session.deliver("openai").request["tools"]
            for name in (shown[0], shown[-1]):
                assert roll.session(f"full-{k}").used({name: True}) == ()
                assert session.selection.names == shown
            roll.session(f"full-{k}").load(NAMES[turn % len(NAMES)])
            roll.session(f"full-{k}").search(MESSAGES[-turn], k=2)
            later = roll.session(f"full-{k}")
            assert later.selection.names[: len(shown)] == shown
            assert {*shown} <= callable_in(later)
            assert later.deliver("openai").request["tools"][: len(sent)] == sent
            later.end_turn()


@pytest.mark.parametrize("how", ["meta-tools", "defer"])
def test_a_tool_that_was_selected_and_not_sent_is_not_callable(roll, how):
    provider = "anthropic" if how == "defer" else "openai"
    selection = roll.session(how).select("send a mail", k=3)
    delivery = selection.deliver(provider, how)
    for checks in (selection, delivery, roll.session(how), roll.session(how).selection):
        assert callable_in(checks) == set()
    roll.session(how).search("send a mail", k=1)
    for checks in (selection, delivery, roll.session(how), roll.session(how).selection):
        assert callable_in(checks) == {"send_mail"}


def test_a_tool_that_the_provider_has_no_room_for_is_not_callable():
    many = [Tool(f"count_{at}", f"Counts the sheep of field {at}.") for at in range(200)]
    roll = Toolroll.from_tools(many, embedder="none", profile=Profile(pass_through_tools=0))
    selection = roll.session("many").select("counts sheep", k=190, max_tools=190)
    delivery = selection.deliver("openai", meta_tools=META_TOOLS)
    assert delivery.left_out and len(delivery.request["tools"]) == 128
    for checks in (selection, delivery, roll.session("many")):
        for name in delivery.left_out:
            with pytest.raises(Denied):
                checks.check(name)


@pytest.mark.parametrize("how", ["replace", "meta-tools", "defer"])
def test_a_tool_that_was_selected_and_not_sent_counts_neither_as_shown_nor_as_passed_over(
    roll, how, monkeypatch
):
    home, reported = roll._home, []
    record = home.record_turn
    monkeypatch.setattr(
        home, "record_turn", lambda shown, report: reported.append(shown) or record(shown, report)
    )
    selection = roll.session(how).select("send a mail", k=3)
    assert "send_mail" in selection and "play_music" not in selection
    roll.session(how).deliver("anthropic", how)
    roll.session(how).search("play some music", k=1)
    assert roll.session(how).used({"play_music": True}) == ()
    roll.session(how).end_turn()
    assert outcomes(roll, selection.event_id) == {"play_music": "wanted_succeeded"}
    sent = selection.names if how == "replace" else ()
    assert {tuple(tool.name for tool in shown.shown) for shown in reported} == {sent}


def test_a_fallback_promises_what_the_provider_of_the_delivery_takes():
    many = [Tool(f"count_{at}", f"Counts the sheep of field {at}.") for at in range(300)]
    roll = Toolroll.from_tools(many, embedder="none", profile=Profile(pass_through_tools=0))
    roll.session("all").select("counts sheep", k=3)
    roll.session("all").deliver("openai", meta_tools=META_TOOLS)
    session = roll.session("all")
    answer = session.answer("manage_tools", {"mode": "fallback"})
    delivery = roll.session("all").deliver("openai", meta_tools=META_TOOLS)
    sent = len(delivery.request["tools"]) - len(META_TOOLS)
    assert answer.text.startswith(f"{sent} of 300 tools are loaded")
    assert delivery.left_out == ()


@pytest.mark.parametrize(("provider", "how"), [("openai", "meta-tools"), ("anthropic", "defer")])
def test_where_loaded_tools_are_not_sent_the_model_is_told_to_use_call_tool(roll, provider, how):
    roll.session("told").select("send a mail", k=3)
    roll.session("told").deliver(provider, how, meta_tools=META_TOOLS)
    session = roll.session("told")
    assert session.load("zip_files").text.endswith("has no room for zip_files: use call_tool for it.")
    assert session.answer("call_tool", {"name": "zip_files"}).call is not None
    assert session.fallback().text.startswith("0 of 24 tools are loaded")
    assert "zip_files" not in session.deliver(provider, how, meta_tools=META_TOOLS).allowed


def test_unloading_what_was_not_loaded_says_so(roll):
    session = roll.session("unload")
    session.select("send a mail", k=2)
    answer = session.unload("zip_files")
    assert answer.text == "Not loaded: zip_files." and answer.is_error and answer.tools == ()


def test_a_toolkit_that_is_made_of_members_is_loaded_by_its_name():
    kits = [Toolkit("triage", members=("send_mail", "*_calendar"))]
    roll = Toolroll.from_tools(TOOLS, toolkits=kits, embedder="none")
    answer = roll.session("members").load("triage")
    assert not answer.is_error
    assert {tool.name for tool in answer.tools} == {
        "send_mail",
        *(f"{verb}_calendar" for verb in THINGS["calendar"]),
    }


def test_a_refusal_names_what_was_offered():
    session = Toolroll.demo().session("named")
    selection = session.select("What's on my calendar tomorrow?", k=3)
    session.deliver("openai")
    with pytest.raises(Denied, match=f"offered: {selection.names[0]}"):
        session.check("nope")


def test_a_tool_that_was_loaded_and_sent_stays_callable_in_its_turn_when_it_is_unloaded():
    roll = Toolroll.demo()
    session = roll.session("unloaded")
    session.select("What's on my calendar tomorrow?", k=3)
    session.load("search_emails")
    delivery = session.deliver("openai")
    session.unload("search_emails")
    for checks in (session, delivery, roll.session("unloaded")):
        assert checks.check("search_emails").name == "search_emails"
    assert session.used({"search_emails": True}) == ()
    session.end_turn()
    with pytest.raises(Denied):
        session.check("search_emails")


def test_after_the_end_of_the_turn_every_check_refuses():
    session = Toolroll.demo().session("ended")
    selection = session.select("What's on my calendar tomorrow?", k=3)
    delivery = selection.deliver("openai")
    session.fallback()
    session.end_turn()
    for checks in (session, selection, delivery):
        for name in (selection.names[-1], "get_air_quality"):
            with pytest.raises(Denied):
                checks.check(name)
    assert session.used({"get_air_quality": True}) == ("get_air_quality",)


@pytest.mark.parametrize("turn", [2**31, 2**31 - 1, 10**12])
def test_a_number_of_a_turn_that_is_out_of_range_changes_nothing(turn):
    session = Toolroll.demo().session("far")
    with pytest.raises(InvalidInput, match="turn"):
        session.select("hello", turn=turn)
    session.select("hello")
    assert session.turn == 1


def test_text_of_which_the_built_in_embedder_knows_nothing_is_no_failure():
    assert Toolroll.demo().select("x" * 150).degraded == ()


def test_health_says_what_failed_in_the_last_selection():
    class Broken(HashingEmbedder):
        is_broken = False

        def embed_query(self, text):
            if self.is_broken:
                raise ConnectionError("no route")
            return super().embed_query(text)

    embedder = Broken(32)
    roll = Toolroll.from_tools([Tool("a", "alpha"), Tool("b", "beta")], embedder=embedder)
    assert roll.health()["degraded"] == []
    embedder.is_broken = True
    assert roll.select("alpha", k=1).degraded == ("embedder",)
    assert roll.health()["degraded"] == ["embedder"] and "no route" in roll.health()["why"][0]
    embedder.is_broken = False
    roll.select("alpha", k=1)
    assert roll.health()["degraded"] == []
