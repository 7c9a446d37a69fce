"""Annabelle (profile `merged`): the nearest tools, then the groups that patterns name; checked by its log lines."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.table import each_row
from tests.unit.prior_systems.planned import PlannedEmbedder
from toolroll import Context, Tool, Toolkit, Toolroll
from toolroll.catalog.tool_text import words
from toolroll.model.errors import InvalidInput
from toolroll.selection.profiles import PROFILES
from toolroll.sessions.session import Session

FOLDER = Path(__file__).parents[2] / "data" / "prior_systems" / "merged"
CORE = ("get_status", "search_memories", "send_telegram", "spawn_subagent", "store_fact")
SEARCH = ("searcher_image_search", "searcher_news_search", "searcher_web_fetch", "searcher_web_search")
TELEGRAM = ("telegram_list_chats", "telegram_send_message", "telegram_send_photo")
BROWSER = (
    "browser_click", "browser_close", "browser_get_text", "browser_go_back", "browser_navigate",
    "browser_screenshot", "browser_select_option", "browser_type_text", "browser_wait_for",
)  # fmt: skip
REQUIRED = ("gmail_get_new_emails", "memory_list_contacts", "memory_list_projects")
INSTRUCTIONS = (
    "Call gmail_get_new_emails to get unprocessed emails, then memory_list_contacts and memory_list_projects; "
    "remember what matters and schedule a meeting where one is asked for."
)


def planned(names: Iterable[str], top: float, step: float = 0.01) -> dict[str, float]:
    """The first of the tools at this cosine, each other one a step below."""
    return {f"{words(name)}: ": top - at * step for at, name in enumerate(names)}


def roll_of(embedder="static", **changes) -> Toolroll:
    return Toolroll.from_folder(FOLDER, profile=PROFILES["merged"].with_(**changes), embedder=embedder)


def nearest(names: Iterable[str], top: float = 0.682, **changes) -> Toolroll:
    return roll_of(PlannedEmbedder(planned(names, top)), **changes)


@pytest.fixture(scope="module")
def roll() -> Toolroll:
    """Nothing is near to any message."""
    return roll_of(PlannedEmbedder({}), minimum=0)


@pytest.fixture(scope="module")
def wide() -> Toolroll:
    """The same without the cap."""
    return roll_of(PlannedEmbedder({}), minimum=0, max_tools=None)


def test_the_catalog_has_72_tools_in_the_seeds_groups(roll):
    sizes = {name: len(rows) for name, rows in roll.catalog.routes.rows.items()}
    assert len(roll.catalog) == 72
    assert {group: sizes[group] for group in ("core", "search", "email", "calendar", "browsing")} == {
        "core": 5, "search": 4, "email": 20, "calendar": 8, "browsing": 9 + 4,
    }  # fmt: skip
    assert (sizes["memory"], sizes["telegram"], sizes["passwords"]) == (15, 3, 1)
    assert "memory" not in roll.catalog.below or not len(roll.catalog.below["memory"])


def test_the_seeds_log_line_15_by_embedding_8_by_routes_23_of_72():
    """The system counts core tools and retrieved tools together as found by embedding: 5 and 10."""
    found = ("searcher_image_search", "searcher_web_search", *BROWSER[:4], *REQUIRED, "create_job")
    picked = nearest(found).select("Find that picture in my files")
    assert picked.log_lines() == (
        "tool selection: method=retrieval+routes, core=5, retrieved=10, routes=8, total=23/72, "
        "top_score=0.682",
        "tool routes: hit=2: photos(pattern 'photo|picture|image'), files(pattern 'file|folder|document')",
    )
    assert picked.names[:5] == CORE
    assert picked.names[5:15] == found  # by score
    assert picked.names[15:] == (  # by name
        "filer_create_file", "filer_list_files", "filer_read_file",
        "searcher_news_search", "searcher_web_fetch",
        "telegram_list_chats", "telegram_send_message", "telegram_send_photo",
    )  # fmt: skip


def test_the_seeds_cap_line_25_of_35_kept_and_the_ten_dropped_are_named():
    catalog = roll_of(PlannedEmbedder({})).catalog
    groups = [tool.name for tool in catalog.tools if tool.toolkit == "gmail"]  # email and calendar, by name
    found = (*groups[:13], "create_job", "list_jobs")
    picked = nearest(found).select("Compose an email about the meeting in my calendar")
    selected, cap, hits = picked.log_lines()
    assert selected.endswith("core=5, retrieved=15, routes=15, total=35/72, top_score=0.682")
    assert cap == f"tool cap: kept=25/35, dropped=10: {', '.join(groups[18:])}"
    assert hits.startswith("tool routes: hit=2: email(pattern '")
    assert picked.names == (*CORE, *found, *groups[13:18])
    assert "cut: beyond max_tools" in picked.explain(groups[-1])


def test_the_cap_drops_what_was_only_routed_first_then_the_lowest_scores():
    found = (*BROWSER, *REQUIRED)
    message = "Compose an email"
    assert nearest(found, max_tools=17).select(message).names == (*CORE, *found)
    assert nearest(found, max_tools=10).select(message).names == (*CORE, *found[:5])
    assert nearest(found, max_tools=3).select(message).names == CORE[:3]


def test_core_tools_are_always_there(roll):
    for message in ("", "hello", "what is a quark", "browse it"):
        assert roll.select(message).names[:5] == CORE


@each_row(
    ("message", "groups"),
    [
        ("What is the weather like?", ("search",)),
        ("Is there an email in my inbox?", ("email",)),
        ("When is the meeting?", ("calendar",)),
        ("Remember that I like tea", ("memory",)),
        ("Show me a photo of it", ("photos",)),
        ("Look at https://example.org/a", ("browsing",)),
        ("Remind me every Monday", ("jobs",)),
        ("WHO IS she?", ("search",)),
        ("Compose a meeting invitation", ("email", "calendar")),
    ],
)
def test_patterns_switch_on_the_groups_of_the_seeds_table(wide, message, groups):
    picked = wide.select(message)
    assert set(picked.names) == {
        *CORE, *(wide.catalog.tools[row].name for row in wide.catalog.routes.rows_of(groups).tolist()),
    }  # fmt: skip


def test_a_log_names_the_group_and_the_pattern_that_switched_it_on():
    """The tools of these groups belong to the toolkits of their servers: the groups have them as members."""
    picked = roll_of(PlannedEmbedder({}), minimum=0, max_tools=None).select("Check my inbox for a photo")
    hits = picked.log_lines()[-1]
    assert hits.startswith("tool routes: hit=2: ")
    assert "email(pattern 'email|inbox|compose')" in hits and "photos(pattern 'photo|picture|image')" in hits
    assert "email(pattern 'email|inbox|compose')" in picked.summary()
    assert picked.activated["photos"] == "pattern 'photo|picture|image'"
    assert len(roll_of(PlannedEmbedder({}), minimum=0).select("Hm").log_lines()) == 1  # by default, not hit


def test_a_photo_needs_search_and_telegram(roll):
    assert roll.select("Send a photo of the aurora").names == (*CORE, *SEARCH, *TELEGRAM)


def test_where_no_pattern_hits_search_and_memory_are_there(roll):
    picked = roll.select("Hm, and then?")
    memory = tuple(sorted(tool.name for tool in roll.catalog.tools if tool.name.startswith("memory_")))
    assert picked.names == (*CORE, *memory, *SEARCH)
    assert "default toolkit" in picked.explain("memory_store_fact")


def test_defaults_and_members_that_are_not_there_are_warned_of_once(caplog):
    tools = [Tool("mail_send"), Tool("memory_find")]
    groups = [
        Toolkit("memory", members=("memory_*", "later_*")),
        Toolkit("email", members=("mail_send", "mail_raed")),
    ]
    roll = Toolroll.from_tools(tools, toolkits=groups, profile="merged", embedder="none")
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "no_hit: toolkit 'search' is not in the catalog",
        "toolkit 'email': member 'mail_raed' is not in the catalog",
    ]
    roll.refresh(tools)
    assert len(caplog.records) == 2
    assert roll.select("Hm").names == ("memory_find",)


def test_a_catalog_that_has_what_is_named_is_not_warned_of(caplog):
    roll_of(PlannedEmbedder({}))
    Toolroll.from_tools([Tool("a")], embedder="none")
    assert caplog.records == []


def test_a_tool_is_reached_by_each_group_that_has_it_as_a_member(roll):
    for message in ("search", "a photo", "browse"):
        assert set(SEARCH) <= set(roll.select(message).names)


def test_a_glob_reaches_what_a_server_brings_later():
    roll = roll_of(PlannedEmbedder({}), minimum=0)
    from toolroll.formats.sources.folder import read_folder

    known = read_folder(FOLDER)
    more = Toolroll.from_tools(
        [*known.tools, Tool("memory_export", toolkit="memorizer")],
        toolkits=known.toolkits, routes=known.routes, profile="merged", embedder="none",
    )  # fmt: skip
    assert "memory_export" in more.select("remember it")
    assert "memory_export" not in roll.select("remember it")


@each_row(("above", "shown"), [(0, 5), (4, 5), (5, 5), (12, 12), (20, 15)])
def test_at_least_5_and_at_most_15_are_retrieved_above_a_cosine_of_0_3(above, shown):
    names = (*BROWSER, *REQUIRED, *SEARCH, *TELEGRAM, "create_job", "list_jobs")
    plans = planned(names[:above], 0.9) | planned(names[above:], 0.29, 0.001)
    roll = roll_of(PlannedEmbedder(plans), no_hit=None)
    assert roll.select("Hm").names == (*CORE, *names[:shown])


def test_core_tools_that_are_near_take_places_of_the_least_5_as_in_the_seed():
    """The system sorts all tools by their cosine, core ones too, takes the first 5, and adds the core."""
    near = (*CORE[:3], *BROWSER)
    roll = nearest(near, 0.25, no_hit=None)
    assert roll.select("Hm").names == (*CORE, *BROWSER[:2])
    none_near = nearest(BROWSER, 0.25, no_hit=None)
    assert none_near.select("Hm").names == (*CORE, *BROWSER[:5])
    others = (*BROWSER, *REQUIRED, *SEARCH)  # sixteen
    assert nearest((*CORE[:3], *others), 0.9, no_hit=None).select("Hm").names == (*CORE, *others[:15])


def test_each_tool_is_embedded_once_as_its_name_and_description_with_toolkit_and_its_parameters_apart():
    asked: list[str] = []

    class Recording(PlannedEmbedder):
        def embed(self, texts):
            asked.extend(texts)
            return super().embed(texts)

    tools = [
        Tool("gmail_list_emails", "Lists emails.", {"type": "object", "properties": {"max_count": {}}}),
        Tool("web_search", "Searches the web.", toolkit="searcher"),
    ]
    Toolroll.from_tools(tools, profile=PROFILES["merged"].with_(no_hit=None), embedder=Recording({}))
    texts = [text for text in asked if ": " in text]
    assert texts == [
        "gmail list emails: Lists emails.",
        "searcher: web search: Searches the web.",
    ]
    assert asked.count("max count") == 1


def test_a_group_is_loaded_by_its_name():
    session = roll_of(PlannedEmbedder({}), no_hit=None, minimum=0).session("chat")
    session.select("Hm")
    session.load("memory")
    names = {tool.name for tool in session.selection.catalog.tools if tool.name.startswith("memory_")}
    assert set(session.selection.names) == {*CORE, *names}


def test_sticky_tools_take_places_of_the_cap():
    plans = {"one": planned(BROWSER, 0.7), "two": planned((*SEARCH, *TELEGRAM, *REQUIRED), 0.7)}
    session = roll_of(PlannedEmbedder(plans), no_hit=None, minimum=0, max_tools=17).session("chat")
    session.select("one")
    session.used(BROWSER[:8])
    assert session.select("two").names == (*CORE, *BROWSER[:8], *SEARCH)


def test_a_reply_keeps_the_score_and_the_pattern_as_reasons():
    picked = nearest(SEARCH).select("a photo")
    assert "dense 0.68" in picked.explain(SEARCH[0])
    assert "pattern 'photo|picture|image'" in picked.explain(SEARCH[0])
    assert "pattern 'photo|picture|image'" in picked.explain("telegram_send_photo")


def test_while_the_embedder_is_down_the_routes_select_alone():
    embedder = PlannedEmbedder(planned(BROWSER, 0.9))
    roll = roll_of(embedder)
    embedder.is_up = False
    picked = roll.select("a photo of my calendar")
    assert picked.log_lines() == (
        "tool selection: method=routes, core=5, routes=15, total=20/72, degraded=embedder",
        "tool routes: hit=2: photos(pattern 'photo|picture|image'), "
        "calendar(pattern 'calendar|meeting|schedule')",
    )
    assert not set(BROWSER) & set(picked.names)


def test_required_tools_are_the_selection_and_nothing_else_runs():
    embedder = PlannedEmbedder(planned(BROWSER, 0.9))
    roll = roll_of(embedder)
    embedder.is_up = False
    picked = roll.select(INSTRUCTIONS, Context(required=REQUIRED))
    assert picked.names == REQUIRED
    assert picked.log_lines() == ("tool selection: method=required, resolved=3/3",)
    assert embedder.asked == [] and picked.degraded == ()
    assert picked.summary().startswith("3/72 tools | required: resolved=3/3 | ")


@each_row("text", ["", " ", "null", "[]"])
def test_required_tools_may_be_json_text_as_the_skills_of_the_seed_are_stored(roll, text):
    written = '["gmail_get_new_emails", "memory_list_contacts", "memory_list_projects"]'
    assert Context(required=written).required == REQUIRED
    assert roll.select(INSTRUCTIONS, Context(required=written)).names == REQUIRED
    assert Context(required=text).required == ()  # none are required


@each_row("text", ["gmail", "a, b", '"a"', '{"a": 1}', "[1]", '["a"', "[" * 99_999])
def test_required_tools_that_are_no_json_list_of_names_are_refused(text):
    with pytest.raises(InvalidInput, match="context: required"):
        Context(required=text)


def test_a_skill_without_required_tools_would_get_25_for_the_words_of_its_instructions(roll):
    free = roll.select(INSTRUCTIONS)
    short = roll.select(INSTRUCTIONS, Context(required=REQUIRED))
    assert len(free) == 25
    assert short.tokens.selected < short.tokens.total / 20  # the system: 600 of 14,000


def test_required_names_that_are_unknown_are_reported(roll):
    picked = roll.select(
        "", Context(required=("gmail_get_new_emails", "gmail_get_old_emails", "memory_export"))
    )
    assert picked.names == ("gmail_get_new_emails",)
    assert picked.missing_required == ("gmail_get_old_emails", "memory_export")
    assert picked.log_lines() == (
        "tool selection: method=required, resolved=1/3, unresolved=gmail_get_old_emails memory_export",
    )


def test_a_proactive_task_never_gets_send_telegram_though_it_is_core(roll):
    proactive = Context(exclude=("send_telegram",))
    for message in ("Send me a photo", "Hm"):
        assert "send_telegram" not in roll.select(message, proactive)
    asked = Context(exclude=("send_telegram",), required=("send_telegram", *REQUIRED))
    assert roll.select("", asked).names == REQUIRED
    assert roll.select("", asked).missing_required == ("send_telegram",)


def test_a_task_without_tools_gets_none(roll):
    assert roll.select(INSTRUCTIONS, max_tools=0).names == ()


def test_tools_called_in_the_turn_before_come_along_to_the_follow_up():
    """The system's example: news are searched for, then "the second one" is to be sent."""
    news, follow_up = "search for AI news", "send me the second one"
    plans = {
        news: planned(("searcher_web_search", "searcher_news_search"), 0.7),
        follow_up: planned(("telegram_send_message",), 0.7),
    }
    session = roll_of(PlannedEmbedder(plans), minimum=1).session("chat")
    assert {"searcher_web_search", "searcher_news_search"} <= set(session.select(news).names)
    session.used(["searcher_news_search"])
    picked = session.select(follow_up)
    assert {"telegram_send_message", "searcher_news_search"} <= set(picked.names)
    assert "searcher_web_search" not in picked
    assert "sticky=1" in picked.log_lines()[0]


def call(session: Session, name: str) -> None:
    """A call of a tool that is in no list, through the meta-tool."""
    assert session.answer("call_tool", {"name": name, "arguments": {}}).call is not None
    assert session.used([name]) == ()


def test_sticky_tools_are_those_of_three_turns_and_at_most_eight_newest_first():
    roll = roll_of(PlannedEmbedder({"one": planned(BROWSER, 0.7)}), no_hit=None, minimum=0)
    session = roll.session("chat")
    session.select("one")
    session.used([*BROWSER, "send_telegram"])  # nine of them, and a core tool, which is there anyway
    assert session.select("two").names == (*CORE, *BROWSER[1:])  # where they were sent before
    call(session, "create_job")
    assert session.select("three").names == (*CORE, *BROWSER[2:], "create_job")
    session.select("four")
    assert session.select("five").names == (*CORE, "create_job")
    assert session.select("six").names == CORE


def test_the_eight_sticky_tools_are_those_that_nothing_else_selects():
    called = (*BROWSER, "create_job", "filer_read_file", *REQUIRED[1:])  # thirteen, the newest last
    plans = {"one": planned(called, 0.7), "two": planned(called[-6:], 0.7)}
    roll = roll_of(PlannedEmbedder(plans), no_hit=None, minimum=0)
    session = roll.session("chat")
    session.select("one")
    session.used(called)
    picked = session.select("two")
    assert set(picked.names) == {*CORE, *called}  # six are found, seven added: 8 in all would lose five
    assert picked.log_lines()[0] == (
        "tool selection: method=retrieval, core=5, retrieved=6, sticky=7, total=18/72, top_score=0.700"
    )
    assert "called before" in picked.explain(called[-1])
    by_calls = roll_of(PlannedEmbedder(plans), no_hit=None, minimum=0, sticky_count="called").session("chat")
    by_calls.select("one")
    by_calls.used(called)
    assert set(by_calls.select("two").names) == {*CORE, *called[-8:]}


def test_sticky_limits_are_parameters():
    roll = roll_of(PlannedEmbedder({}), no_hit=None, minimum=0, sticky_tools=2, sticky_turns=1)
    session = roll.session("chat")
    session.select("one")
    for name in BROWSER[:4]:
        call(session, name)
    assert session.select("two").names == (*CORE, *BROWSER[3:1:-1])
    assert session.select("three").names == CORE
