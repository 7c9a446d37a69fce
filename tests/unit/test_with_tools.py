"""Tools that come with a request: found again by content, selected, and given back in the request's objects."""

from __future__ import annotations

import copy
import gc
import json
import logging
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from tests.table import each_row
from toolroll import Context, Profile, Rule, Tool, Toolroll
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.lab.evaluation import workloads
from toolroll.model.embedder import Scale
from toolroll.model.errors import Denied, EmbedderUnavailable, InvalidDefinition, NotFound
from toolroll.selection import listed_visibility, tool_lists

SCHEMA = {"type": "object", "properties": {"id": {"type": "string", "description": "which one"}}}
WEB = {"type": "web_search"}


def chat(name: str, description: str = "", **more: Any) -> dict[str, Any]:
    function = {"name": name, "description": description, "parameters": copy.deepcopy(SCHEMA)}
    return {"type": "function", "function": function, **more}


def many(count: int, first: int = 0) -> list[dict[str, Any]]:
    made = workloads.tools(first + count)[first:]
    return [
        {"type": "function", "function": {key: tool[key] for key in ("name", "description", "parameters")}}
        for tool in made
    ]


def parsed(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As a gateway gets them: the same content in new objects."""
    return json.loads(json.dumps(tools))


def name_of(tool: dict[str, Any]) -> str:
    return tool["function"]["name"]


@pytest.fixture
def roll() -> Toolroll:
    return Toolroll.from_tools([])


REFUND = chat("create_refund", "Gives a customer the money back.")
NO_REFUNDS = Rule("no refunds", "deny", "org", {"org": ""}, tool="create_refund")
FORECAST = chat("get_forecast", "Weather forecast for a city.")
OTHERS = [chat(f"other_{i}", f"Does the thing number {i}.") for i in range(20)]
TOOLS = [WEB, *OTHERS[:10], REFUND, {"type": "mcp", "server_label": "s"}, *OTHERS[10:], FORECAST]


# What is given back.


def test_the_very_objects_of_the_request_come_back_in_its_order(roll):
    for _ in range(2):
        request = parsed(TOOLS)
        picked = roll.with_tools(request).select("refund, and the weather forecast", k=2)
        assert set(picked.names) == {"create_refund", "get_forecast"}
        kept = picked.tools
        assert [request.index(tool) for tool in kept] == [0, 11, 12, 23]
        assert all(tool is request[at] for tool, at in zip(kept, (0, 11, 12, 23), strict=True))


def test_hosted_tools_are_counted_by_no_limit(roll):
    hosted = [{"type": "web_search"}] * 5
    picked = roll.with_tools([*hosted, *OTHERS]).select("thing number 3", k=1, max_tools=1)
    assert len(picked) == 1 and len(picked.tools) == 6
    assert picked.total == len(OTHERS)


def test_tools_of_one_name_are_one_tool_and_come_back_together(roll):
    again = chat("create_refund", "Another text.")
    request = [*OTHERS, REFUND, again]
    picked = roll.with_tools(request).select("give the money back", k=1)
    assert picked.names == ("create_refund",) and picked.tools == (REFUND, again)
    assert roll.with_tools(request).select("thing number 3", k=1).tools == (OTHERS[3],)


def test_a_duplicate_of_a_denied_tool_is_denied():
    roll = Toolroll.from_tools([], rules=[NO_REFUNDS])
    assert roll.with_tools([REFUND, FORECAST, dict(REFUND)]).select("refund").tools == (FORECAST,)


@each_row(
    "odd",
    [
        3,
        None,
        {},
        {"name": ""},
        {"type": "function", "function": {}},
        {"type": "function", "function": {"name": "x" * 300}},
        {"type": "function", "function": {"name": "b", "parameters": []}},
        {"type": "function", "function": {"name": "b", "description": 3}},
        {"function_declarations": {}},
        {"type": "unheard_of"},
        object(),
    ],
)
def test_nothing_refuses_the_list_of_a_request(roll, odd):
    picked = roll.with_tools([REFUND, odd]).select("refund")
    assert picked.tools[0] is REFUND and picked.tools[1] is odd


def test_a_malformed_definition_is_still_under_the_rules_on_its_name():
    roll = Toolroll.from_tools([], rules=[Rule("closed", "deny", "org", {"org": ""}, tool="drop_table")])
    malformed = {"type": "function", "function": {"name": "drop_table", "parameters": []}}
    assert roll.with_tools([REFUND, malformed]).select("drop the table").tools == (REFUND,)


@pytest.mark.parametrize("tools", [None, 3, "create_refund", {"name": "create_refund"}])
def test_only_what_is_no_list_is_an_error(roll, tools):
    with pytest.raises(InvalidDefinition, match="must be a list of tools"):
        roll.with_tools(tools)
    with pytest.raises(InvalidDefinition, match="must be a list of tools"):
        Toolroll.from_tools(tools)


def test_an_empty_list_selects_nothing(roll):
    assert roll.with_tools([]).select("refund").tools == ()
    assert roll.with_tools([WEB]).select("refund").tools == (WEB,)


def test_a_group_of_declarations_comes_back_with_the_selected_ones(roll):
    declarations = [{"name": name_of(tool), **tool["function"]} for tool in (*OTHERS, REFUND)]
    request = [{"google_search": {}}, {"function_declarations": declarations}]
    picked = roll.with_tools(request).select("give the money back", k=1)
    assert picked.tools == ({"google_search": {}}, {"function_declarations": [declarations[-1]]})
    assert picked.tools[1]["function_declarations"][0] is declarations[-1]
    whole = [{"function_declarations": declarations[:2]}]
    assert roll.with_tools(whole).select("thing").tools[0] is whole[0]
    none = roll.with_tools(request).select("x", Context(only=("nothing",)))
    assert none.tools == ({"google_search": {}},)


def test_what_a_group_holds_beside_its_declarations_stays(roll):
    group = {"function_declarations": [REFUND["function"], FORECAST["function"]], "url_context": {}}
    limited = Context(only=("get_forecast",))
    picked = roll.with_tools([group]).select("weather", limited)
    assert picked.tools == ({**group, "function_declarations": [FORECAST["function"]]},)
    assert roll.with_tools([group]).select("x", Context(only=("y",))).tools == ({"url_context": {}},)


def test_a_result_of_mcps_tools_list_is_taken_as_it_is(roll):
    result = {"tools": [{"name": "refund", "description": "Money back.", "inputSchema": SCHEMA}], "_meta": {}}
    assert roll.with_tools(result).select("refund").tools == tuple(result["tools"])
    assert roll.with_tools([result]).select("refund").tools == (result,)


def test_schemas_are_of_the_selected_tools_with_the_hosted_ones_behind(roll):
    picked = roll.with_tools(parsed(TOOLS)).select("give the money back", k=1)
    assert picked.schemas("openai") == [REFUND, WEB, {"type": "mcp", "server_label": "s"}]


# The same as a catalog of one's own.


def test_a_list_is_selected_from_as_a_catalog_of_these_tools():
    tools = many(200)
    plain = Toolroll.from_tools(tools, profile=Profile(damping=False))
    listed = Toolroll.from_tools([]).with_tools(parsed(tools))
    for message in workloads.messages(60):
        ours, theirs = listed.select(message), plain.select(message)
        assert ours.names == theirs.names
        assert ours.candidates.scores.tolist() == theirs.candidates.scores.tolist()
        assert ours.confidence == theirs.confidence
        assert ours.spelling_corrections == theirs.spelling_corrections
        assert (ours.tokens, ours.total) == (theirs.tokens, theirs.total)
    assert listed.catalog.revision == plain.catalog.revision


def test_misspelt_words_are_corrected_by_the_words_of_the_list(roll):
    listed = roll.with_tools([chat("restart_zigbee", "Restarts the zigbee coordinator."), *OTHERS])
    assert listed.select("restart zigbe", k=1).spelling_corrections == (("zigbe", "zigbee"),)


def test_a_budget_of_tokens_counts_the_schemas(roll):
    listed = roll.with_tools(many(40))
    picked = listed.select("please approve the overdue invoice", k=10, budget_tokens=300)
    assert (
        0
        < picked.tokens.selected
        <= 300
        < listed.select("please approve the overdue invoice", k=10).tokens.selected
    )


def test_the_profile_of_the_roll_applies_to_lists():
    profile = Profile(retrieve="none", routes="ignore", no_hit=(), on_no_tool="empty", pass_through_tools=0)
    roll = Toolroll.from_tools([], profile=profile)
    assert roll.with_tools(OTHERS).select("thing number 3").names == ()


# Rules, sessions, outcomes.


def test_rules_of_the_roll_apply_by_name_and_its_own_tools_are_out_of_play():
    roll = Toolroll.from_tools([Tool("mine")], rules=[NO_REFUNDS])
    request = [REFUND, FORECAST]
    assert roll.with_tools(request).select("refund").names == ("get_forecast",)
    assert not roll.with_tools(request).why("create_refund").visible
    with pytest.raises(NotFound):
        roll.with_tools(request).why("mine")
    assert roll.select("mine").names == ("mine",)


def test_a_session_goes_on_from_list_to_list(roll):
    session = roll.with_tools(parsed(TOOLS)).session("chat")
    first = session.select("give the money back", k=1)
    session.used({"create_refund": True})
    session.end_turn()
    second = roll.with_tools(parsed(TOOLS)).session("chat").select("and the weather forecast", k=1)
    assert "create_refund" in first.names
    assert {"create_refund", "get_forecast"} <= set(second.names)


def test_outcomes_of_one_list_count_in_another_with_the_same_tool(roll):
    twins = [chat("mail_a", "Sends a mail."), chat("mail_b", "Sends a mail.")]
    for i in range(40):
        listed = roll.with_tools([*twins, *OTHERS[: 8 + i % 3]])
        picked = listed.select("send a mail", Context(user=f"u{i}"), k=2)
        report = roll if i % 2 else listed
        report.record(picked, {name: name == "mail_b" for name in picked.names if name.startswith("mail")})
    learned = roll.with_tools([*twins, FORECAST, *OTHERS]).select("send a mail", k=2)
    assert learned.names[0] == "mail_b"
    assert learned.candidates.reranked is not None


def test_a_report_by_event_id_finds_the_selection(roll):
    picked = roll.with_tools(TOOLS).select("give the money back", k=1)
    assert roll.record(picked.event_id, {"create_refund": True}).event_id == picked.event_id
    assert roll.record(roll.receipt(picked), {"create_refund": True})


# Lists that are known.


def builds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    built: list[int] = []
    plain = tool_lists.ToolLists._read

    def read(self: Any, items: Any) -> Any:
        built.append(len(items))
        return plain(self, items)

    monkeypatch.setattr(tool_lists.ToolLists, "_read", read)
    return built


def test_equal_lists_are_indexed_once(roll, monkeypatch):
    built = builds(monkeypatch)
    catalogs = {id(roll.with_tools(tools).catalog) for tools in (TOOLS, TOOLS, list(TOOLS), parsed(TOOLS))}
    assert built == [len(TOOLS)] and len(catalogs) == 1


def test_a_list_in_another_order_or_with_another_text_is_another_list(roll, monkeypatch):
    built = builds(monkeypatch)
    roll.with_tools(TOOLS)
    for change in (TOOLS[::-1], TOOLS[1:], [*TOOLS[:5], chat("other_4", "Else."), *TOOLS[6:]]):
        request = parsed(change)
        picked = roll.with_tools(request).select("give the money back", k=1)
        assert REFUND in picked.tools and all(any(tool is own for own in request) for tool in picked.tools)
    assert len(built) == 4


def test_a_change_in_place_of_the_list_is_noticed(roll):
    request = parsed(TOOLS)
    roll.with_tools(request)
    request.append(chat("play_music", "Plays a song."))
    assert "play_music" in roll.with_tools(request).select("play a song", k=1).names
    request[-1] = chat("stop_music", "Stops the song.")
    assert "stop_music" in roll.with_tools(request).select("stop the song", k=1).names


def test_a_change_in_place_of_a_tool_is_noticed_at_once_in_a_short_list(roll):
    request = parsed(TOOLS)
    roll.with_tools(request)
    request[3]["function"] |= {"name": "play_music", "description": "Plays a song."}
    assert roll.with_tools(request).select("play a song", k=1).names == ("play_music",)


def test_a_change_in_place_of_a_tool_is_noticed_soon_in_a_long_list(roll):
    request = many(500)
    for _ in range(3):
        roll.with_tools(request)
    request[300]["function"]["description"] = "Plays a song on the gramophone."
    size = len(json.dumps(request))
    for _ in range(2 * size // tool_lists._COMPARED + 2):
        listed = roll.with_tools(request)
    assert listed.select("play a song on the gramophone", k=1).tools == (request[300],)


def test_a_change_to_the_objects_of_one_request_reaches_no_other_request(roll):
    first = parsed(TOOLS)
    kept = roll.with_tools(first)
    for tool in first:
        if "function" in tool:
            tool["function"]["description"] = "CHANGED"
            tool["function"]["parameters"]["properties"].clear()
    second = parsed(TOOLS)
    picked = roll.with_tools(second).select("give the money back", k=1)
    assert picked.tools[1] == REFUND and picked.schemas("openai")[0] == REFUND
    assert kept.select("give the money back", k=1).schemas("openai")[0] == REFUND


def test_a_list_that_changed_by_one_tool_reads_one_tool(roll, monkeypatch):
    read: list[str] = []
    plain = tool_lists.read_one
    monkeypatch.setattr(
        tool_lists, "read_one", lambda item, **how: read.append(name_of(item)) or plain(item, **how)
    )
    tools = many(50)
    roll.with_tools(tools)
    assert len(read) == 50
    read.clear()
    roll.with_tools([*parsed(tools[:20]), chat("play_music"), *parsed(tools[21:])])
    assert read == ["play_music"]


def test_each_text_is_embedded_once():
    embedded: list[str] = []

    class Counting(HashingEmbedder):
        scale = Scale()

        def embed(self, texts: Any) -> Any:
            embedded.extend(texts)
            return super().embed(texts)

    roll = Toolroll.from_tools([], embedder=Counting(64))
    tools = many(30)
    roll.with_tools(tools)
    roll.with_tools([*parsed(tools[:20]), chat("play_music", "Plays a song.")])
    assert len(embedded) == len(set(embedded))
    assert sum(": " in text for text in embedded) == 31  # the others are names of parameters


def test_a_failing_embedder_leaves_words_and_the_list_is_tried_again():
    class Failing(HashingEmbedder):
        fails = False

        def embed(self, texts: Any) -> Any:
            if self.fails:
                raise EmbedderUnavailable("away")
            return super().embed(texts)

    embedder = Failing(64)
    roll = Toolroll.from_tools([], embedder=embedder)
    embedder.fails = True
    picked = roll.with_tools(TOOLS).select("give the money back", k=1)
    assert picked.names == ("create_refund",) and "embedder" in picked.degraded
    embedder.fails = False
    assert roll.with_tools(TOOLS).select("give the money back", k=1).degraded == ()


def test_a_failure_does_not_keep_the_request_alive_in_which_it_happened(monkeypatch):
    monkeypatch.setattr(
        logging.getLogger("toolroll"), "disabled", True
    )  # pytest keeps records and their errors

    class Failing(HashingEmbedder):
        def embed(self, texts: Any) -> Any:
            raise EmbedderUnavailable("away")

    roll = Toolroll.from_tools([], embedder=Failing(64))
    over = roll.with_tools(TOOLS)
    assert "embedder" in over.select("give the money back", k=1).degraded
    gone = weakref.ref(over)
    del over
    gc.collect()
    assert gone() is None


def test_a_failure_that_lasts_is_logged_once_for_all_requests(caplog):
    class Failing(HashingEmbedder):
        fails = False

        def embed_query(self, text: str) -> Any:
            if self.fails:
                raise EmbedderUnavailable("away")
            return super().embed_query(text)

    embedder = Failing(64)
    roll = Toolroll.from_tools([], embedder=embedder)
    roll.with_tools(TOOLS)
    embedder.fails = True
    for tools in (TOOLS, many(20)):  # one that has its vectors, and one that cannot get them
        for _ in range(3):
            assert roll.with_tools(parsed(tools)).select("refund", k=1).degraded == ("embedder",)
    assert len([line for line in caplog.messages if "selection degraded" in line]) == 1
    assert len([line for line in caplog.messages if "without vectors" in line]) == 1


def test_only_the_last_lists_are_kept(roll, monkeypatch):
    lists = tool_lists.ToolLists(roll._home._builder, most=3)
    base = roll._engine.snapshot
    requests = [[chat(f"tool_{i}_{j}", "Text.") for j in range(3)] for i in range(6)]
    for request in requests[:3]:
        lists.snapshot(request, base)
    lists.snapshot(requests[0], base)  # used again: the second is the oldest now
    for request in requests[3:5]:
        lists.snapshot(request, base)
    assert len(lists) == 3 and len(lists._requests) <= 6
    built = builds(monkeypatch)
    lists.snapshot(requests[0], base)
    lists.snapshot(requests[1], base)
    assert built == [3]


def test_lists_are_kept_within_their_memory(roll):
    lists = tool_lists.ToolLists(roll._home._builder, most_bytes=200_000)
    base = roll._engine.snapshot
    for i in range(20):
        lists.snapshot([chat(f"tool_{i}_{j}", "Text. " * 50) for j in range(4)], base)
    assert 0 < len(lists) < 10
    lists.snapshot([chat(f"big_{j}", "Text. " * 500) for j in range(20)], base)
    assert all(known.memory_bytes <= 200_000 for known in lists._all())


def test_threads_get_their_own_objects_back(roll):
    wrong: list[object] = []

    def run() -> None:
        for _ in range(60):
            request = parsed(TOOLS)
            picked = roll.with_tools(request).select("give the money back", k=1)
            own = {id(tool) for tool in request}
            if not all(id(tool) in own for tool in picked.tools) or len(picked.tools) != 3:
                wrong.append(picked.tools)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_objects_that_are_no_dictionaries_are_known_by_identity(roll, monkeypatch):
    built = builds(monkeypatch)

    def refund(target: str) -> str:
        """Give a customer the money back."""
        return target

    for request in ([refund, WEB], [refund, dict(WEB)], [Tool("refund")], [Tool("refund")]):
        assert roll.with_tools(request).select("refund").tools == tuple(request)
    assert len(built) == 3


def test_a_list_in_a_list_again_and_again_is_read_as_it_is(roll):
    deep: Any = {"type": "string"}
    for _ in range(900):
        deep = {"type": "object", "properties": {"x": deep}}
    request = [{"type": "function", "function": {"name": "deep", "parameters": deep}}, REFUND]
    for _ in range(2):
        assert len(roll.with_tools(request).select("refund").tools) == 2


def test_a_value_without_a_form_in_json_is_no_error(roll):
    odd = chat("odd", "Odd.")
    odd["function"]["parameters"]["properties"]["x"] = {"default": float("nan")}
    picked = roll.with_tools([odd, REFUND]).select("refund")
    assert picked.tokens.total > 0 and len(picked.catalog_revision) == 16


def test_vectors_of_a_list_are_those_of_a_catalog(roll):
    tools = many(30)
    rows = np.arange(30, dtype=np.int32)
    query = np.ones(256, np.float32) / 16
    ours = roll.with_tools(tools).catalog.indexes.vectors
    theirs = Toolroll.from_tools(tools).catalog.indexes.vectors
    assert ours is not None and theirs is not None
    assert ours.scores(query, rows).tolist() == theirs.scores(query, rows).tolist()


def test_a_rule_that_comes_later_holds_for_a_list_that_is_held():
    roll = Toolroll.from_tools([Tool("get_forecast", "weather")], embedder="none")
    listed = roll.with_tools(
        [{"name": "get_forecast", "description": "weather"}, {"name": "ls", "description": "x"}]
    )
    selection = listed.select("weather")
    delivery, session = selection.deliver("openai"), listed.session("held")
    session.select("weather")
    for checks in (selection, delivery, session):
        assert checks.check("get_forecast").name == "get_forecast"
    rule = Rule("d", "deny", "composite", {"all": []}, tool="get_forecast")
    other = Toolroll.from_tools([Tool("get_forecast", "weather")], rules=[rule], embedder="none")
    roll._engine.swap(other._engine.snapshot)
    for checks in (selection, delivery, session):
        with pytest.raises(Denied):
            checks.check("get_forecast")
    assert not listed.may("get_forecast") and listed.may("ls")
    assert "get_forecast" not in listed.select("weather")


def test_a_result_without_a_list_of_tools_is_refused():
    with pytest.raises(InvalidDefinition, match="tools"):
        Toolroll.from_tools([]).with_tools({"tools": None})


def governed(**options: Any) -> Toolroll:
    tools = [
        {"name": "close_deal", "description": "Closes a deal.", "toolkit": "deals"},
        {"name": "find_deal", "description": "Finds a deal.", "toolkit": "deals", "status": "retired"},
        {"name": "write_note", "description": "Writes a note.", "toolkit": "notes"},
    ]
    return Toolroll.from_tools(tools, **options)


def sent(*names: str) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": name}} for name in names]


def test_a_rule_about_a_toolkit_reaches_the_tools_that_the_roll_has_in_it():
    roll = governed(rules=[Rule("no deals", "deny", "org", {"org": "acme"}, toolkit="deals")])
    tools, acme = sent("close_deal", "find_deal", "write_note", "other"), Context(org="acme")
    over = roll.with_tools(tools)
    assert over.visible(acme).names == ("other", "write_note")
    assert over.visible(Context(org="globex")).names == (
        "close_deal",
        "other",
        "write_note",
    )  # one is retired
    verdict = over.why("close_deal", acme)
    assert not verdict.visible and verdict.reason == roll.why("close_deal", acme).reason
    assert "retired" in over.why("find_deal", Context(org="globex")).reason


def test_an_allow_list_of_a_toolkit_shows_the_tools_that_the_roll_has_in_it_and_no_claim_does():
    roll = governed(rules=[Rule("notes", "allow", "composite", {"all": []}, toolkit="notes")])
    claims = {
        "name": "other",
        "description": "Says so.",
        "parameters": {},
        "toolkit": "notes",
        "public": True,
    }
    over = roll.with_tools([*sent("write_note", "close_deal"), claims])
    assert over.visible().names == ("write_note",)


def test_another_writing_of_a_hidden_name_is_hidden_and_of_a_shown_one_is_not():
    roll = governed(rules=[Rule("no deals", "deny", "composite", {"all": []}, toolkit="deals")])
    over = roll.with_tools(sent("Close-Deal", "mcp__crm__close_deal", "WRITE_NOTE"))
    assert over.visible().names == ("WRITE_NOTE",)
    assert "'close_deal'" in over.why("Close-Deal").reason


def test_a_tool_of_the_very_name_is_decided_by_its_own_row():
    tools = [{"name": "note"}, {"name": "Note"}]
    roll = Toolroll.from_tools(tools, rules=[Rule("no", "deny", "composite", {"all": []}, tool="note")])
    assert roll.with_tools(sent("note", "Note", "NOTE")).visible().names == ("Note",)


def test_a_hosted_tool_is_denied_by_its_type_and_stays_otherwise():
    rules = [Rule("no", "deny", "org", {"org": "acme"}, tool="web_search")]
    listed = [*sent("a"), {"type": "web_search_20250305", "name": "web"}, {"type": "code_interpreter"}]
    over = Toolroll.from_tools([], rules=rules).with_tools(listed)
    assert over.select("a", Context(org="acme")).tools == (listed[0], listed[2])
    assert over.select("a", Context(org="globex")).tools == tuple(listed)


def test_what_if_changes_the_rules_of_a_list_too():
    over = governed().with_tools(sent("close_deal", "write_note"))
    tried = over.what_if([Rule("no deals", "deny", "composite", {"all": []}, toolkit="deals")])
    assert tried.visible().names == ("write_note",)
    assert over.visible().names == ("close_deal", "write_note")


def test_the_names_of_a_list_are_looked_up_once(monkeypatch):
    roll = governed(rules=[Rule("no deals", "deny", "composite", {"all": []}, toolkit="deals")])
    found: list[int] = []
    plain = listed_visibility.ListedRows._find

    def find(self: Any, *arguments: Any) -> Any:
        found.append(1)
        return plain(self, *arguments)

    monkeypatch.setattr(listed_visibility.ListedRows, "_find", find)
    for org in ("", "acme", "globex"):
        for _ in range(3):
            roll.with_tools(sent("close_deal", "write_note")).select("a", Context(org=org))
    assert len(found) == 1
