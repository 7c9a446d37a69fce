"""What a user holds in hand: names, schemas, reasons, errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.table import each_row
from toolroll import Context, Profile, Route, Tool, Toolkit, Toolroll
from toolroll.model.errors import Denied, InvalidInput, NotFound

TOOLS = (
    Tool("get_forecast", "Weather forecast for a city: rain, wind, temperature", toolkit="weather"),
    Tool("create_event", "Put an event into the calendar", toolkit="calendar"),
    Tool("list_events", "List the events of a calendar", toolkit="calendar"),
    Tool("send_email", "Send an e-mail message", toolkit="email", pinned=True),
    Tool("now", "Current date and time", toolkit="basics"),
    Tool("old_mail", "Send an e-mail the old way", toolkit="email", status="retired"),
)
TOOLKITS = (Toolkit("basics", base=True), Toolkit("email", settings_keys=("mail_key",)))
ROUTES = (Route(("weather",), ("rain", "비")), Route(("calendar",), (), (r"meeting(s)? (with|at)",)))
MAIL = Context(settings={"mail_key": "s3cret"})


@pytest.fixture(scope="module")
def roll() -> Toolroll:
    return Toolroll.from_tools(TOOLS, toolkits=TOOLKITS, routes=ROUTES)


def test_the_tool_that_fits_is_found_and_comes_before_those_that_do_not(roll):
    picked = roll.select("put lunch with Ada into my calendar", MAIL, k=2)
    found = [name for name in picked.names if name not in ("now", "send_email")]
    assert found[0] == "create_event"


def test_k_bounds_what_retrieval_adds_and_not_what_is_always_there(roll):
    picked = roll.select("will it rain?", MAIL, k=1)
    assert set(picked.names) == {"send_email", "now", "get_forecast"}


def test_k_of_zero_leaves_core_tools(roll):
    assert set(roll.select("will it rain?", MAIL, k=0).names) == {"send_email", "now"}


def test_a_k_above_the_catalog_gives_what_there_is(roll):
    assert "old_mail" not in roll.select("send the calendar event of the rain forecast", MAIL, k=1_000)


def test_a_small_catalog_is_handed_on_whole_when_k_is_left_open(roll):
    picked = roll.select("xyzzy", MAIL)
    assert set(picked.names) == {tool.name for tool in TOOLS if tool.status == "active"}
    assert "handed on whole" in picked.explain("now")


@each_row("name", ["k", "max_tools", "budget_tokens"])
@each_row("value", [-1, 1.5, "7", True, [1], float("nan")])
def test_a_limit_that_is_no_count_is_refused(roll, name, value):
    with pytest.raises(InvalidInput, match=f"{name}: is .*must be a whole number of at least 0"):
        roll.select("rain", **{name: value})


def test_a_message_that_is_no_text_is_refused(roll):
    with pytest.raises(InvalidInput, match="message: is bytes, must be str"):
        roll.select(b"rain")


@each_row(
    ("vector", "what"),
    [([0.1, 0.2], "shape"), ([float("nan")] * 256, "NaN"), ("rain", "vector"), ([[0.0] * 256], "shape")],
)
def test_a_vector_that_does_not_fit_is_refused(roll, vector, what):
    with pytest.raises(InvalidInput, match=what):
        roll.select("rain", k=1, vector=vector)


def test_a_vector_of_the_caller_takes_the_place_of_the_embedder(roll):
    from toolroll.embedders.static import StaticEmbedder

    vector = StaticEmbedder().embed_query("Weather forecast for a city: rain, wind, temperature")
    assert roll.select("zzz", k=1, vector=vector.tolist()).names[-1] == "get_forecast"


def test_odd_text_is_survived(roll):
    for message in ("", "\0", "\ud800 rain", "🌧️" * 50, "rain " * 200_000, "비가 올까요?", "ß" * 10_000):
        assert roll.select(message, MAIL, k=2).degraded == ()


def test_a_request_at_either_end_of_a_megabyte_is_read(roll):
    padding = "lorem ipsum " * 90_000
    for message in (f"will it rain tomorrow? {padding}", f"{padding} will it rain tomorrow?"):
        assert "get_forecast" in roll.select(message, MAIL, k=1)


def test_a_toolkit_without_its_settings_is_off_and_with_everything_on(roll):
    assert "send_email" not in roll.select("send an e-mail", k=3)
    assert "send_email" not in roll.select("send an e-mail", Context(settings={"mail_key": ""}), k=3)
    assert "send_email" in roll.select("send an e-mail", Context(everything=True), k=3)


def test_everything_is_all_that_rules_and_status_leave_whatever_the_message_says():
    demo = Toolroll.demo()
    everything = Context(everything=True, provider="mcp")
    for message in ("hi", "will it rain tomorrow?", ""):
        picked = demo.select(message, everything, k=1)
        assert len(picked) == picked.total == 214
    assert picked.turn.vector is None  # nothing is embedded for it
    assert picked.confidence is None and picked.has_match
    assert "the caller asks for everything" in picked.explain("get_forecast")
    assert picked.log_lines() == ("tool selection: method=whole, core=5, whole=209, total=214/214",)
    session = demo.session("all", everything)
    assert [len(session.select(message)) for message in ("hi", "rain", "hi")] == [214] * 3


def test_of_everything_limits_of_the_call_and_the_provider_hold():
    demo = Toolroll.demo(profile=Profile(max_tools=20))
    assert len(demo.select("hi", Context(everything=True))) == 214  # the profile's limit is for ranked lists
    assert len(demo.select("hi", Context(everything=True), max_tools=9)) == 9
    assert len(demo.select("hi", Context(everything=True, provider="openai"))) == 128
    assert demo.select("hi", Context(everything=True), budget_tokens=999).tokens.selected <= 999
    assert "get_forecast" not in demo.select("hi", Context(everything=True, exclude=("get_forecast",)))
    required = Context(everything=True, required=("get_forecast",))
    assert demo.select("hi", required).names == ("get_forecast",)


def test_within_leaves_nothing_else_not_even_what_is_pinned_or_required(roll):
    within = ("get_forecast", "unheard_of")
    context = Context(everything=True, only=within)
    assert roll.select("send a mail", context, k=9).names in ((), ("get_forecast",))
    context = Context(everything=True, only=within, required=("send_email", "get_forecast"))
    assert roll.select("x", context).names == ("get_forecast",)
    outside = roll.select("send a mail", Context(everything=True, only=within), k=9)
    assert "not among the tools that the caller allows" in outside.explain("send_email")


def test_within_unknown_names_leaves_nothing(roll):
    assert roll.select("send a mail", Context(everything=True, only=("unheard_of",)), k=9).names == ()


def test_excluded_tools_stay_out_even_when_pinned(roll):
    context = Context(settings=("mail_key",), exclude=("send_email", "unheard_of"))
    assert "send_email" not in roll.select("send an e-mail", context, k=3)


def test_required_tools_are_the_selection_and_unknown_names_are_reported(roll):
    context = Context(settings=("mail_key",), required=("send_email", "nonsense", "now", "old_mail"))
    picked = roll.select("whatever", context)
    assert picked.names == ("send_email", "now")
    assert picked.missing_required == ("nonsense", "old_mail")
    assert "resolved=2/4" in picked.summary()


def test_keywords_and_patterns_show_up_as_reasons(roll):
    assert "keyword 'rain'" in roll.select("rain?", MAIL, k=2).explain("get_forecast")
    assert "keyword '비'" in roll.select("내일 비가 올까?", MAIL, k=2).explain("get_forecast")
    assert "pattern" in roll.select("Meetings with Bob", MAIL, k=2).explain("create_event")


def test_narrowing_routes_leave_only_the_toolkits_that_were_hit():
    roll = Toolroll.from_tools(
        TOOLS, toolkits=TOOLKITS, routes=ROUTES, profile=Profile(routes="narrow", no_hit=("calendar",))
    )
    assert set(roll.select("rain", MAIL, k=5).names) == {"get_forecast", "now", "send_email"}
    assert set(roll.select("nothing hits", MAIL, k=5).names) <= {
        "create_event",
        "list_events",
        "now",
        "send_email",
    }


def test_max_tools_keeps_core_tools_first(roll):
    picked = roll.select("rain in the calendar", MAIL, k=3, max_tools=2)
    assert set(picked.names) == {"send_email", "now"}
    assert "beyond max_tools" in picked.explain()


def test_the_token_budget_is_kept_and_cheaper_tools_behind_a_dear_one_have_their_chance(roll):
    free = roll.select("rain in the calendar", MAIL, k=3)
    tight = roll.select("rain in the calendar", MAIL, k=3, budget_tokens=free.tokens.selected - 1)
    assert tight.tokens.selected < free.tokens.selected
    assert len(tight) >= len(free) - 1


def test_a_provider_limit_holds():
    tools = [Tool(f"tool_{i:03}", "the same words") for i in range(200)]
    picked = Toolroll.from_tools(tools).select("same words", Context(provider="openai"), k=200)
    assert len(picked) == 128


def test_what_was_sent_keeps_its_place_and_newcomers_go_behind(roll):
    first = roll.select("rain", MAIL, k=1)
    then = roll.select("events of the calendar", MAIL, k=2, sent=("send_email", "list_events", *first.names))
    assert then.names[:3] == ("send_email", "list_events", "now")


def test_tokens_tell_what_was_saved(roll):
    tokens = roll.select("rain", MAIL, k=1).tokens
    assert 0 < tokens.selected < tokens.total
    assert tokens.saved == tokens.total - tokens.selected


def test_check_gives_the_tool_that_was_offered_and_refuses_all_others(roll):
    picked = roll.select("rain", MAIL, k=1)
    assert picked.check("get_forecast").name == "get_forecast"
    assert "get_forecast" in picked
    for name in ("create_event", "no_such_tool"):
        with pytest.raises(Denied, match=f"{name}.*was not offered"):
            picked.check(name)


def test_the_callers_own_objects_come_back():
    openai = {"type": "function", "function": {"name": "a", "description": "alpha", "parameters": {}}}

    def b(x: int) -> int:
        """Beta."""
        return x

    picked = Toolroll.from_tools([openai, b]).select("alpha beta")
    assert picked.tools[picked.names.index("a")] is openai
    assert picked.tools[picked.names.index("b")] is b


@each_row("provider", ["openai", "anthropic", "gemini", "mcp"])
def test_schemas_are_ready_to_send(roll, provider):
    picked = roll.select("rain", MAIL, k=2)
    schemas = picked.schemas(provider)
    declared = schemas[0]["function_declarations"] if provider == "gemini" else schemas
    assert len(declared) == len(picked)
    assert json.loads(json.dumps(schemas)) == schemas


def test_names_that_a_provider_refuses_have_a_way_back():
    picked = Toolroll.from_tools([Tool("math.add"), Tool("math/sub")]).select("math")
    back = picked.sent_names("openai")
    assert {schema["function"]["name"] for schema in picked.schemas("openai")} == set(back)
    assert set(back.values()) == {"math.add", "math/sub"}


def test_an_unknown_provider_is_named(roll):
    with pytest.raises((InvalidInput, NotFound), match="cohere"):
        roll.select("rain", k=1).schemas("cohere")


def test_the_dictionary_has_all_that_the_command_line_prints(roll):
    plain = json.loads(json.dumps(roll.select("rain", MAIL, k=2).to_dict()))
    assert {"tools", "selected", "total", "tokens", "timings_us", "activated", "degraded", "event_id"} <= set(
        plain
    )
    assert set(plain["tools"][0]) == {"name", "toolkit", "score", "reasons"}
    assert set(plain["tokens"]) == {"selected", "total", "saved"}
    assert all(tool["reasons"] for tool in plain["tools"])
    assert plain["timings_us"]["total"] > 0
    assert plain["catalog_revision"]


def test_no_secret_of_the_settings_is_printed(roll):
    picked = roll.select("rain", MAIL, k=2)
    assert "s3cret" not in repr(picked) + picked.explain() + picked.summary() + json.dumps(picked.to_dict())


def test_explaining_an_unknown_tool_says_so(roll):
    with pytest.raises(NotFound, match="no_such_tool"):
        roll.select("rain", k=1).explain("no_such_tool")


def test_explanations_say_why_a_tool_is_out(roll):
    picked = roll.select("rain in the calendar", k=1)
    assert "not active" in picked.explain()
    with pytest.raises(NotFound, match="hidden"):
        picked.explain("old_mail")
    assert "no settings" in picked.explain("send_email")
    assert "beyond k" in picked.explain()


def test_the_same_turn_gives_the_same_selection(roll):
    first = roll.select("rain in the calendar", MAIL, k=2)
    again = roll._home.engine.snapshot.shared.decide(first.turn)
    assert again.names == first.names
    assert again.candidates.scores.tolist() == first.candidates.scores.tolist()


def test_an_empty_catalog_selects_nothing():
    picked = Toolroll.from_tools([]).select("anything", k=3)
    assert picked.names == ()
    assert picked.summary().startswith("0/0 tools")
    assert picked.explain()


@pytest.mark.parametrize("k", [10**30, 2**63])
def test_a_k_beyond_every_integer_is_all_that_fits(roll, k):
    picked = roll.select("rain", MAIL, k=k)
    assert picked.degraded == ()
    assert "old_mail" not in picked


@each_row(
    ("field", "value"),
    [
        ("exclude", "send_email"),
        ("only", "send_email"),
        ("only", ("now", 7)),
        ("required", "send_email"),
        ("required", 5),
        ("required", ([],)),
        ("exclude", ("now", ["x"])),
        ("roles", "admin"),
        ("settings", "mail_key"),
        ("settings", 7),
        ("tier", None),
        ("everything", "yes"),
    ],
)
def test_a_context_that_would_be_misread_is_refused(field, value):
    with pytest.raises(InvalidInput, match=f"context: {field}"):
        Context(**{field: value})


@each_row("value", [None, False, "", "  ", [], {}])
def test_a_setting_without_a_value_switches_nothing_on(roll, value):
    assert "send_email" not in roll.select("send an e-mail", Context(settings={"mail_key": value}), k=3)


def test_a_list_of_names_does_as_well_as_a_tuple(roll):
    assert "send_email" not in roll.select("mail", Context(everything=True, exclude=["send_email"]), k=3)


@each_row("context", [{}, {"settings": {}}, "anyone", 5])
def test_what_is_no_context_is_refused(roll, context):
    with pytest.raises(InvalidInput, match="must be toolroll.Context"):
        roll.select("rain", context)


@each_row("sent", [None, 5, "now", (1,)])
def test_names_sent_that_are_no_names_are_refused(roll, sent):
    with pytest.raises(InvalidInput, match="sent"):
        roll.select("rain", sent=sent)


def test_core_tools_take_no_places_from_what_is_retrieved():
    base = [Tool(f"base_{i:02}", "rain rain rain", toolkit="always") for i in range(25)]
    others = [Tool(f"other_{i}", "rain and more") for i in range(10)]
    roll = Toolroll.from_tools([*base, *others], toolkits=[Toolkit("always", base=True)])
    picked = roll.select("rain", k=7)
    assert len([name for name in picked.names if name.startswith("other")]) == 7
    assert all("base toolkit" in picked.explain(tool.name) for tool in base)


def test_changing_what_was_sent_changes_nothing_in_the_catalog():
    given = {"name": "a", "description": "alpha", "input_schema": {"type": "object", "properties": {"x": {}}}}
    roll = Toolroll.from_tools([given])
    for _ in range(2):
        (sent,) = roll.select("alpha").schemas("anthropic")
        assert "cache_control" not in sent
        sent["cache_control"] = {"type": "ephemeral"}
        sent["input_schema"]["properties"].clear()
    assert given["input_schema"]["properties"] == {"x": {}}


def test_one_list_has_one_form():
    chat = {"type": "function", "function": {"name": "a", "description": "alpha", "parameters": {}}}
    flat = {"type": "function", "name": "b", "description": "beta", "parameters": {}}
    picked = Toolroll.from_tools([chat, flat]).select("alpha beta")
    assert all("function" in schema for schema in picked.schemas("openai"))
    assert all("name" in schema for schema in picked.schemas("openai_responses"))


def test_check_takes_the_name_that_the_model_was_sent():
    picked = Toolroll.from_tools([Tool("math.add")]).select("math")
    (sent,) = picked.sent_names("openai")
    assert sent != "math.add"
    assert picked.check(sent).name == picked.check("math.add").name == "math.add"


def test_a_catalog_that_passes_through_is_handed_on_whole_however_many_its_limit_allows():
    tools = [Tool(f"tool_{i:03}", "same words") for i in range(200)]
    roll = Toolroll.from_tools(tools, profile=Profile(pass_through_tools=500, pass_through_tokens=10**6))
    picked = roll.select("same words")
    assert len(picked) == 200
    assert "small catalog, handed on whole" in picked.explain("tool_000")


def test_the_strongest_evidence_comes_first():
    tools = [Tool(f"filler_{i}", "nothing of the kind") for i in range(20)]
    tools.append(Tool("quark", "zyxomma plugh frobnicate", toolkit="odd"))
    for weights, first in (({"lexical": 10.0}, "lexical"), ({"lexical": 0.001}, "dense")):
        roll = Toolroll.from_tools(tools, profile=Profile(**weights))
        picked = roll.select("please zyxomma frobnicate the plugh", k=1)
        assert picked.names == ("quark",)
        assert picked.activated["odd"].startswith(first)


def test_only_core_tools_are_said_to_be_base_or_pinned(roll):
    picked = roll.select("will it rain?", MAIL, k=2)
    for name in picked.names:
        said = picked.explain(name)
        assert ("base toolkit" in said) == (name == "now")
        assert ("pinned" in said) == (name == "send_email")


def test_a_tool_that_was_not_required_says_so(roll):
    picked = roll.select("x", Context(everything=True, required=("now",)))
    assert "not among the required" in picked.explain("get_forecast")
    assert "required by the caller" in picked.explain("now")


@each_row("is_session", [False, True])
@each_row("make", [set, list, lambda names: dict.fromkeys(names, "x")])
def test_a_check_sees_the_settings_that_a_caller_has_changed_in_place(roll, make, is_session):
    settings: Any = make(["mail_key"])
    context = Context(settings=settings, session="s")
    asks = roll.session("s", context) if is_session else roll
    picked = asks.select("send an e-mail") if is_session else roll.select("send an e-mail", context)
    assert picked.check("send_email").name == "send_email"
    settings.clear()
    with pytest.raises(Denied, match="not allowed any more"):
        picked.check("send_email")
    settings.update({"mail_key": "x"}) if make not in (set, list) else settings.__init__(["mail_key"])
    assert picked.check("send_email").name == "send_email"


def test_checks_of_two_callers_one_after_the_other_decide_as_before(roll):
    mail, nobody = Context(settings=("mail_key",)), Context(required=("send_email", "get_forecast"))
    one, other = roll.select("send an e-mail", mail), roll.select("rain", nobody)
    for _ in range(3):
        assert one.check("send_email").name == "send_email"
        assert "send_email" not in other.names
        with pytest.raises(Denied):
            other.check("send_email")
