"""How a selection reaches the model, in each way that each provider has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.table import each_row
from toolroll import Context, Profile, Tool, Toolkit, Toolroll
from toolroll.formats.meta_tools import CALL_TOOL, MANAGE_TOOLS, META_TOOLS, SEARCH_TOOLS
from toolroll.formats.providers import HOWS, PROVIDERS
from toolroll.formats.schemas import convert, convert_all, provider_name
from toolroll.model.errors import Denied, InvalidInput, NotFound
from toolroll.model.rules import Rule
from toolroll.selection.delivery import answer_search

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}


def tools(*names: str, **more: Any) -> tuple[Tool, ...]:
    return tuple(Tool(name, f"Does {name.replace('_', ' ')}.", TEXT, **more) for name in names)


NARROWING = Profile(pass_through_tools=0)  # even a small catalog is selected from
NAMES = ("send_mail", "get.forecast", "play_song", "book_table", "read_file")


def some_roll(**more: Any) -> Toolroll:
    """Five tools to choose from, one that is always there."""
    core = tools("ask_user", toolkit="core")
    return Toolroll.from_tools(
        [*tools(*NAMES), *core], toolkits=[Toolkit("core", base=True)], profile=NARROWING, **more
    )


@pytest.fixture(scope="module")
def roll() -> Toolroll:
    return some_roll()


def declared(request: dict[str, Any]) -> list[dict[str, Any]]:
    listed = request.get("tools", [])
    return listed[0]["function_declarations"] if listed and "function_declarations" in listed[0] else listed


def sent_names(request: dict[str, Any]) -> list[str]:
    return [tool.get("function", tool).get("name", tool.get("type")) for tool in declared(request)]


MAIL = "send mail to Bob"
WEATHER = "forecast for Oslo"
CAN = [(provider, how) for provider in PROVIDERS for how in PROVIDERS[provider].hows]


@each_row("provider", PROVIDERS)
def test_replace_sends_the_selected_tools_in_their_order(roll, provider):
    picked = roll.select(MAIL, k=1)
    delivery = picked.deliver(provider)
    assert picked.names == ("ask_user", "send_mail")
    assert delivery.request == {"tools": picked.schemas(provider)}
    assert delivery.allowed == {"ask_user", "send_mail"} and delivery.left_out == ()


@pytest.mark.parametrize("provider", ["openai", "openai_responses", "gemini"])
def test_allow_sends_the_same_bytes_on_each_turn_and_restricts_what_may_be_called(roll, provider):
    one = roll.select(MAIL, k=1).deliver(provider, "allow")
    other = roll.select(WEATHER, k=1).deliver(provider, "allow")
    assert json.dumps(one.request["tools"]) == json.dumps(other.request["tools"])
    assert sorted(sent_names(one.request)) == sorted(provider_name(n, provider) for n in (*NAMES, "ask_user"))
    assert one.allowed == {"ask_user", "send_mail"} and other.allowed == {"ask_user", "get.forecast"}


def test_each_provider_has_its_own_words_for_what_is_allowed(roll):
    picked = roll.select(WEATHER, k=1)
    sent = provider_name("get.forecast", "openai")
    assert picked.deliver("openai", "allow").request["tool_choice"] == {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "auto",
            "tools": [
                {"type": "function", "function": {"name": "ask_user"}},
                {"type": "function", "function": {"name": sent}},
            ],
        },
    }
    assert picked.deliver("openai_responses", "allow", must_call=True).request["tool_choice"] == {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "function", "name": "ask_user"}, {"type": "function", "name": sent}],
    }
    for must_call, mode in ((False, "VALIDATED"), (True, "ANY")):
        assert picked.deliver("gemini", "allow", must_call=must_call).request["tool_config"] == {
            "function_calling_config": {"mode": mode, "allowed_function_names": ["ask_user", "get.forecast"]}
        }


def test_defer_keeps_the_core_and_the_search_in_anthropics_prompt_and_all_others_out_of_it(roll):
    one, other = (roll.select(text, k=1).deliver("anthropic", "defer") for text in (MAIL, WEATHER))
    assert json.dumps(one.request) == json.dumps(other.request)
    listed = one.request["tools"]
    assert [tool["name"] for tool in listed if not tool.get("defer_loading")] == ["search_tools", "ask_user"]
    assert len(listed) == 7 and one.allowed == {"search_tools", "ask_user"}
    assert "tool_choice" not in one.request


def test_defer_lets_openai_search_with_us(roll):
    request = roll.select(MAIL, k=1).deliver("openai_responses", "defer").request
    search, core = request["tools"]
    assert search == {
        "type": "tool_search",
        "execution": "client",
        "description": SEARCH_TOOLS.description,
        "parameters": SEARCH_TOOLS.parameters,
    }
    assert core["name"] == "ask_user" and "defer_loading" not in core


@each_row("provider", PROVIDERS)
def test_meta_tools_are_a_constant_surface(roll, provider):
    requests = [
        roll.select(text, k=3).deliver(provider, "meta-tools").request for text in (MAIL, WEATHER, "x")
    ]
    assert len({json.dumps(request) for request in requests}) == 1
    assert sent_names(requests[0]) == ["search_tools", "call_tool", "ask_user"]


@each_row(("provider", "how"), CAN)
def test_meta_tools_stand_in_front_in_every_way(roll, provider, how):
    delivery = roll.select(MAIL, k=1).deliver(provider, how, meta_tools=META_TOOLS)
    assert [name.replace("tool_search", "search_tools") for name in sent_names(delivery.request)[:3]] == [
        "manage_tools",
        "search_tools",
        "call_tool",
    ]
    assert {tool.name for tool in META_TOOLS} <= delivery.allowed
    assert delivery.check("manage_tools") in META_TOOLS


@each_row(
    ("provider", "how"),
    [
        (provider, how)
        for provider in PROVIDERS
        for how in (*HOWS, "guess")
        if how not in PROVIDERS[provider].hows
    ],
)
def test_a_way_that_a_provider_does_not_have_is_refused_with_what_there_is(roll, provider, how):
    with pytest.raises(InvalidInput) as caught:
        roll.select(MAIL).deliver(provider, how)
    assert f"how is '{how}', must be replace" in str(caught.value)
    assert (f"; '{how}' is for" in str(caught.value)) == (how in HOWS)


def test_an_unknown_provider_is_refused(roll):
    with pytest.raises(InvalidInput, match="provider is 'cohere', must be one of openai"):
        roll.select(MAIL).deliver("cohere")


@each_row(("provider", "how"), CAN)
def test_no_choice_is_left_set_where_there_is_no_tool(provider, how):
    picked = Toolroll.from_tools([]).select(MAIL)
    delivery = picked.deliver(provider, how, must_call=provider != "mcp", meta_tools=())
    assert delivery.request == {} and not delivery.allowed


@pytest.mark.parametrize("provider", ["openai", "openai_responses", "gemini"])
def test_where_nothing_is_selected_the_list_stays_and_nothing_may_be_called(provider):
    roll = Toolroll.from_tools(tools(*NAMES), profile=NARROWING)
    nothing = roll.select(MAIL, max_tools=0).deliver(provider, "allow", must_call=True)
    some = roll.select(MAIL, k=1).deliver(provider, "allow")
    assert nothing.request["tools"] == some.request["tools"] and nothing.allowed == frozenset()
    assert nothing.request.get("tool_choice", nothing.request.get("tool_config")) in (
        "none",
        {"function_calling_config": {"mode": "NONE"}},
    )


def test_a_model_can_be_made_to_call_a_tool(roll):
    picked = roll.select(MAIL, k=1)
    assert picked.deliver("openai", must_call=True).request["tool_choice"] == "required"
    assert picked.deliver("openai_responses", "defer", must_call=True).request["tool_choice"] == "required"
    assert picked.deliver("anthropic", must_call=True).request["tool_choice"] == {"type": "any"}
    assert picked.deliver("gemini", must_call=True).request["tool_config"] == {
        "function_calling_config": {"mode": "ANY"}
    }
    with pytest.raises(InvalidInput, match="must_call is True, must be False for mcp"):
        picked.deliver("mcp", must_call=True)


def test_a_whole_list_beyond_what_the_provider_takes_is_refused():
    roll = Toolroll.from_tools(tools(*(f"tool_{i}" for i in range(129))))
    picked = roll.select("tool", k=3)
    with pytest.raises(InvalidInput, match="would send 129 tools, openai takes 128: use how='replace' or"):
        picked.deliver("openai", "allow")
    picked.deliver("gemini", "allow")
    with pytest.raises(
        InvalidInput, match="'meta-tools' would send 131 tools, openai takes 128: name fewer core"
    ):
        picked.deliver("openai", "meta-tools", core=[f"tool_{i}" for i in range(129)])


def test_a_selection_beyond_what_the_provider_takes_loses_what_fits_least():
    roll = Toolroll.from_tools([*tools(*(f"tool_{i}" for i in range(140))), *tools("zz_core", pinned=True)])
    picked = roll.select("tool 7", k=140)
    assert len(picked) == 141
    delivery = picked.deliver("openai", meta_tools=[MANAGE_TOOLS])
    assert len(delivery.request["tools"]) == 128
    assert len(delivery.left_out) == 14 and not {"zz_core", "tool_7"} & set(delivery.left_out)
    kept = [name for name in picked.names if name in delivery.allowed]
    assert sent_names(delivery.request) == ["manage_tools", *kept]
    with pytest.raises(Denied):
        delivery.check(delivery.left_out[0])


def test_an_explanation_says_what_the_delivery_sent(roll):
    picked = roll.select(MAIL, k=3)
    assert picked.shown == picked.names and "delivered" not in picked.explain()
    picked.deliver("openai", "meta-tools")
    assert picked.shown == ("ask_user",)
    assert picked.to_dict()["shown"] == ["ask_user"]
    line = picked.explain().splitlines()[-1]
    assert line.startswith("delivered to openai by meta-tools: 1 callable at once; selected and not sent: ")
    assert all(name in line for name in picked.names if name != "ask_user")
    picked.deliver("openai")
    assert picked.shown == picked.names


def test_what_was_selected_and_not_sent_is_recorded_as_wanted():
    learner = some_roll()
    picked = learner.select(MAIL, k=3)
    picked.deliver("openai", "meta-tools")
    assert "send_mail" in picked
    learner.record(picked, {"send_mail": True, "ask_user": True})
    known = learner._home._memory._states[picked.event_id][1].said
    assert (known["send_mail"].kind, known["ask_user"].kind) == ("wanted_succeeded", "succeeded")


def test_a_context_that_names_the_provider_is_cut_to_what_it_takes():
    roll = Toolroll.from_tools(tools(*(f"tool_{i}" for i in range(140))))
    picked = roll.select("tool", Context(provider="openai_responses"), k=140)
    assert len(picked) == 128 and picked.deliver("openai_responses").left_out == ()


@each_row(("provider", "how"), CAN)
def test_what_policy_denies_is_in_no_delivery(provider, how):
    roll = some_roll(rules=(Rule("no mail", "deny", "org", {"org": "acme"}, tool="send_mail"),))
    picked = roll.select(MAIL, Context(org="acme"), k=5)
    delivery = picked.deliver(provider, how, core=["send_mail", "nowhere"], meta_tools=META_TOOLS)
    assert "send_mail" not in json.dumps(delivery.request)
    assert "send_mail" not in delivery.allowed
    with pytest.raises(Denied):
        delivery.check("send_mail")
    with pytest.raises(NotFound):
        delivery.own_name("send_mail")


@each_row(("provider", "how"), CAN)
def test_what_was_not_offered_is_refused_in_every_way(roll, provider, how):
    picked = roll.select(WEATHER, k=1)
    delivery = picked.deliver(provider, how)
    for name in ("send_mail", "nowhere", "", "x" * 10_000):
        with pytest.raises(Denied, match="was not offered"):
            delivery.check(name)
        with pytest.raises(Denied, match="was not offered"):
            picked.check(name)
    for own in delivery.allowed:
        assert delivery.check(provider_name(own, provider)).name == own
    for name in picked.shown:
        assert picked.check(name).name == picked.check(provider_name(name, provider)).name == name
    for name in set(picked.names) - set(picked.shown):  # selected and not sent
        with pytest.raises(Denied, match="was not offered"):
            picked.check(name)


@each_row(("provider", "how"), CAN)
def test_a_sent_name_leads_back_whether_it_was_listed_or_found(roll, provider, how):
    delivery = roll.select(WEATHER, k=1).deliver(provider, how)
    known = [*delivery.allowed]
    if how != "replace":
        known += ["get.forecast", "send_mail"] if how != "allow" else [*NAMES]
    for own in known:
        assert delivery.own_name(provider_name(own, provider)) == own
    for name in ("nowhere", "no_where__0123456789abcdef", ""):
        with pytest.raises(NotFound, match="is not among the tools"):
            delivery.own_name(name)


def test_a_sent_name_means_the_tool_that_was_sent_under_it_and_not_one_that_is_called_so():
    sent = provider_name("math.add", "openai")
    picked = Toolroll.from_tools(tools("math.add", sent)).select("add")
    assert picked.check(sent).name == picked.check("math.add").name == "math.add"
    assert picked.check(provider_name(sent, "openai")).name == sent
    delivery = picked.deliver("openai")
    assert delivery.check(sent).name == "math.add"
    assert delivery.check(provider_name(sent, "openai")).name == sent


@pytest.mark.parametrize("how", ["defer", "meta-tools"])
def test_a_tool_gets_no_calls_of_one_whose_sent_name_it_has_even_when_that_is_gone(how):
    sent = provider_name("math.add", "openai")
    roll = Toolroll.from_tools(tools("math.add", sent))
    both, alone = roll.select("add"), roll.select("add", Context(exclude=("math.add",)))
    assert both.deliver("openai_responses", how, core=()).own_name(sent) == "math.add"
    with pytest.raises(Denied, match="was not offered"):
        alone.check(sent)
    assert alone.check(provider_name(sent, "openai")).name == sent
    with pytest.raises(NotFound, match="is not among the tools"):
        alone.deliver("openai_responses", how, core=()).own_name(sent)


@each_row(("provider", "how"), CAN)
def test_a_tool_cannot_pass_for_a_meta_tool(provider, how):
    evil = tools("call_tool", "search_tools", "send_mail")
    delivery = (
        Toolroll.from_tools(evil).select(MAIL).deliver(provider, how, meta_tools=(SEARCH_TOOLS, CALL_TOOL))
    )
    listed = declared(delivery.request)
    mine = convert(CALL_TOOL, provider)
    assert [tool for tool in listed if tool == mine] == [mine]
    assert sum(name == "call_tool" for name in sent_names(delivery.request)) == 1
    if how != "meta-tools" and (provider, how) != ("openai_responses", "defer"):
        assert set(delivery.left_out) == {"call_tool", "search_tools"}


def test_the_core_can_be_named(roll):
    delivery = roll.select(MAIL, k=1).deliver(
        "anthropic", "defer", core=["play_song", "book_table", "nowhere"]
    )
    assert delivery.allowed == {"search_tools", "book_table", "play_song"}
    assert sent_names(delivery.request)[:3] == ["search_tools", "book_table", "play_song"]


def test_required_tools_are_the_core_of_their_turn(roll):
    picked = roll.select("", Context(required=("play_song", "send_mail")))
    for provider, how in (("anthropic", "defer"), ("openai_responses", "defer"), ("mcp", "meta-tools")):
        delivery = picked.deliver(provider, how)
        assert {"play_song", "send_mail"} < delivery.allowed and "ask_user" not in delivery.allowed


def test_the_core_stays_when_a_turn_has_no_room_for_it(roll):
    lists = {
        json.dumps(roll.select(MAIL, **limit).deliver("anthropic", "defer").request)
        for limit in ({}, {"max_tools": 1}, {"budget_tokens": 1}, {"k": 0})
    }
    assert len(lists) == 1


def test_a_tool_that_its_author_deferred_is_sent_when_it_is_selected():
    given = [
        {"name": name, "input_schema": TEXT, "defer_loading": True} for name in ("send_mail", "play_song")
    ]
    picked = Toolroll.from_tools(given).select(MAIL)
    assert all("defer_loading" not in tool for tool in picked.deliver("anthropic").request["tools"])
    assert given[0]["defer_loading"] is True


def test_too_many_deferred_tools_are_refused(monkeypatch):
    roll = Toolroll.from_tools(tools(*(f"tool_{i}" for i in range(10_001))))
    with pytest.raises(
        InvalidInput, match="would defer 10001 tools, anthropic takes 10000: use how='meta-tools'"
    ):
        roll.select("tool", k=1).deliver("anthropic", "defer")


def test_changing_what_was_delivered_changes_nothing_in_the_catalog(roll):
    picked = roll.select(MAIL, k=1)
    before = json.dumps(picked.deliver("anthropic", "defer").request)
    for tool in picked.deliver("anthropic", "defer").request["tools"]:
        tool["input_schema"]["properties"].clear()
        tool["cache_control"] = {"type": "ephemeral"}
    assert json.dumps(picked.deliver("anthropic", "defer").request) == before


@each_row("must_call", [False, True])
@each_row(("provider", "how"), [(name, how) for name, one in PROVIDERS.items() for how in one.hows])
def test_a_request_as_json_is_the_request_as_it_was_delivered(provider, how, must_call):
    if must_call and provider == "mcp":
        return
    demo = Toolroll.from_tools(Toolroll.demo().catalog.tools[:60])
    for picked in (
        demo.select(MAIL, k=5),
        demo.select("", max_tools=0, k=0),
        Toolroll.from_tools([]).select(MAIL),
    ):
        delivery = picked.deliver(provider, how, must_call=must_call)
        text = json.dumps(delivery.request, ensure_ascii=False, separators=(",", ":")).encode()
        assert delivery.request_json == text
        assert delivery.request is delivery.request
        for value in delivery.request.values():
            value.clear() if isinstance(value, (dict, list)) else None
        assert delivery.request_json == text
        assert json.loads(text) == picked.deliver(provider, how, must_call=must_call).request


def test_an_original_that_is_no_json_is_a_clear_error():
    given = {"name": "a", "input_schema": TEXT, "cache_control": {"type": object()}}
    with pytest.raises(InvalidInput, match="tools: cannot be written as JSON"):
        Toolroll.from_tools([given]).select("a").deliver("anthropic", "defer", core=[])


def test_the_whole_list_is_that_of_the_caller_and_of_the_form():
    roll = some_roll(rules=(Rule("no mail", "deny", "org", {"org": "acme"}, tool="send_mail"),))
    seen = {
        (org, strict): json.dumps(
            roll.select(MAIL, Context(org=org), k=1)
            .deliver("openai", "allow", strict=strict)
            .request["tools"]
        )
        for _ in range(2)
        for org in ("acme", "other")
        for strict in (True, False)
    }
    assert len(set(seen.values())) == 4
    assert all(("send_mail" in text) == (org == "other") for (org, _), text in seen.items())
    assert all(('"strict": true' in text) == strict for (_, strict), text in seen.items())


def test_forms_reach_every_way(roll):
    picked = roll.select(MAIL, k=1)
    assert all(
        tool["strict"] for tool in picked.deliver("openai_responses", "allow", strict=True).request["tools"]
    )
    gemini = declared(picked.deliver("gemini", "meta-tools", json_schema=True).request)
    assert all("parameters_json_schema" in tool for tool in gemini)


def test_the_answer_to_anthropics_search_refers_to_the_found_tools(roll):
    found = roll.select(WEATHER, k=1).definitions
    call = {"type": "tool_use", "id": "toolu_1", "name": "search_tools", "input": {"queries": ["weather"]}}
    assert answer_search("anthropic", call, [*found, *found]) == {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": [
            {"type": "tool_reference", "tool_name": "ask_user"},
            {"type": "tool_reference", "tool_name": provider_name("get.forecast", "anthropic")},
        ],
    }
    nothing = answer_search("anthropic", call, [])
    assert nothing["content"].startswith("No tool fits.")


def test_what_anthropic_is_referred_to_is_in_its_list(roll):
    picked = roll.select(WEATHER, k=3)
    listed = sent_names(picked.deliver("anthropic", "defer").request)
    answer = answer_search("anthropic", {"id": "t"}, picked.definitions)
    assert {block["tool_name"] for block in answer["content"]} <= set(listed)


def test_the_answer_to_openais_search_holds_the_found_tools(roll):
    class Call:
        type, id, call_id, arguments = "tool_search_call", "ts_1", "call_1", {"queries": ["weather"]}

    (tool,) = (tool for tool in roll.select(WEATHER, k=1).definitions if tool.name == "get.forecast")
    answer = answer_search("openai_responses", Call(), [tool])
    assert answer == {
        "type": "tool_search_output",
        "call_id": "call_1",
        "execution": "client",
        "status": "completed",
        "tools": [{**convert(tool, "openai_responses"), "defer_loading": True}],
    }
    assert answer_search("openai_responses", Call(), [])["tools"] == []
    (strict,) = answer_search("openai_responses", Call(), [tool], strict=True)["tools"]
    assert strict["strict"] is True and strict["parameters"]["additionalProperties"] is False


def test_an_answer_needs_the_block_that_asked():
    for call in ({}, {"id": ""}, {"id": 7}, None, "text"):
        with pytest.raises(
            InvalidInput, match="call: has no id, must be the block with which the model searched"
        ):
            answer_search("anthropic", call, [])
    with pytest.raises(InvalidInput, match="must be openai_responses or anthropic to search for tools"):
        answer_search("gemini", {"id": "x"}, [])


@each_row("wrong", [None, [], {}, 5, b"send_mail", ("send_mail",)])
@each_row(("provider", "how"), CAN)
def test_a_call_whose_name_is_no_text_is_refused_as_not_offered(roll, provider, how, wrong):
    picked = roll.select(MAIL, k=1)
    delivery = picked.deliver(provider, how)
    with pytest.raises(NotFound, match="is not among the tools"):
        delivery.own_name(wrong)
    for checks in (delivery, picked):
        with pytest.raises(Denied, match="is no name; offered: ask_user"):
            checks.check(wrong)
    assert wrong not in picked


@each_row("wrong", [5, True, "send_mail", b"send_mail", {"send_mail": 1}, [5], [None], [[]]])
def test_names_are_a_list_of_texts(roll, wrong):
    picked = roll.select(MAIL, k=1)
    with pytest.raises(InvalidInput, match=r"core .* must (be a list of|hold) tool names"):
        picked.deliver("openai", core=wrong)
    with pytest.raises(InvalidInput, match=r"deferred .* must (be a list of|hold) tool names"):
        picked.schemas("anthropic", deferred=wrong)


def test_nothing_is_no_list_of_deferred_tools(roll):
    for provider in PROVIDERS:
        with pytest.raises(InvalidInput, match="deferred is None"):
            roll.select(MAIL, k=1).schemas(provider, deferred=None)
    assert convert_all(tools("a", "b"), "anthropic", deferred=iter(["b"]))[0][1]["defer_loading"]


@each_row("wrong", [5, True, "send_mail", ["send_mail"], [None], {"send_mail": SEARCH_TOOLS}])
def test_tools_are_a_list_of_tools(roll, wrong):
    picked = roll.select(MAIL, k=1)
    with pytest.raises(InvalidInput, match=r"meta_tools .* must (be a list of|hold) Tool objects"):
        picked.deliver("openai", meta_tools=wrong)
    with pytest.raises(InvalidInput, match=r"found .* must (be a list of|hold) Tool objects"):
        answer_search("anthropic", {"id": "toolu_1"}, wrong)
