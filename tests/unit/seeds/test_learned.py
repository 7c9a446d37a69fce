"""Seed 4: 158 tools, 27 pages, 7 tools for 840 tokens; its own arithmetic on a catalog of its sizes."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from tests.unit.seeds.catalogs import CRM, MAPPED_BEFORE, MAPPINGS, PAGES, PLATFORM, TOKENS, platform
from toolroll import Context, Tool, Toolroll
from toolroll.selection.policy.pages import matches
from toolroll.selection.profiles import PROFILES
from toolroll.tools import Definitions

QUERY = "show me the deals of the CRM"


@pytest.fixture(scope="module")
def roll() -> Toolroll:
    return Toolroll.from_definitions(platform(), profile="learned")


@cache
def without_embedder() -> Toolroll:
    return Toolroll.from_definitions(platform(), profile="learned", embedder="none")


def test_the_catalog_has_158_tools_in_six_parts_and_19_categories(roll):
    parts = Counter(
        "nexus_ros" if tool.toolkit in CRM else tool.toolkit.removesuffix("_read").removesuffix("_write")
        for tool in roll.catalog.tools
    )
    assert parts == {"nexus_ros": 80, "forge": 35, "graphrag": 27, "skills": 12, "workflow": 2, "admin": 2}
    assert len(roll.catalog) == 158
    assert len(CRM) + len(PLATFORM) == 19
    assert len(roll.catalog.below["nexus_ros"]) == 80  # a tree: a category reaches those below it


def test_seven_tools_cost_840_of_18_960_tokens(roll):
    tokens = roll.select(QUERY).tokens
    assert (tokens.selected, tokens.total, tokens.saved) == (840, 18_960, 18_120)
    assert round(100 * tokens.saved / tokens.total, 1) == 95.6


@pytest.mark.parametrize(("k", "tokens", "saved"), [(7, 840, 95.6), (10, 1_200, 93.7), (15, 1_800, 90.5)])
def test_each_k_of_the_seeds_table_costs_what_it_says(roll, k, tokens, saved):
    picked = roll.select(QUERY, k=k)
    assert (len(picked), picked.tokens.selected) == (k, tokens)
    assert round(100 * picked.tokens.saved / picked.tokens.total, 1) == saved


def test_k_is_seven_unless_the_call_says(roll):
    assert len(roll.select(QUERY)) == 7


def test_ten_thousand_selections_a_day_save_66_billion_tokens_a_year(roll):
    assert roll.select(QUERY).tokens.saved * 10_000 * 365 == 66_138_000_000


def test_two_pinned_tools_come_on_top_of_k_in_front():
    known = platform()
    pins = (
        Tool("nexus_health", "Health", pinned=True, pin_weight=10),
        Tool("search_tools", "Search", pinned=True, pin_weight=5),
    )
    with_pins = Definitions((*known.tools, *pins), known.toolkits, pages=known.pages)
    picked = Toolroll.from_definitions(with_pins, profile="learned").select(QUERY)
    assert len(picked) == 9
    assert picked.names[:2] == ("nexus_health", "search_tools")


def test_32_mappings_cover_all_27_pages_where_9_were_covered():
    assert (len(MAPPINGS), len(PAGES), len(MAPPED_BEFORE)) == (32, 27, 9)
    covered = [page for page in PAGES if any(matches(pattern, page) for pattern, _, _ in MAPPINGS)]
    assert covered == list(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_every_page_narrows_to_its_categories(roll, page):
    wanted = {name for pattern, toolkits, _ in MAPPINGS if matches(pattern, page) for name in toolkits}
    picked = roll.select("show me everything there is", Context(page=page), k=158)
    assert picked.names
    assert {roll.catalog.tools[row].toolkit for row in picked.rows.tolist()} <= wanted
    assert len(picked) < 40  # the seed: 15 to 40 tools a page


def test_a_page_that_no_mapping_knows_is_not_narrowed(roll):
    names = roll.select("show me everything there is", Context(page="elsewhere"), k=158).names
    toolkits = {roll.catalog.tools[roll.catalog.names[name]].toolkit for name in names}
    assert len(toolkits) == 19


def test_a_page_without_tools_hands_all_on():
    known = platform()
    crm = tuple(tool for tool in known.tools if tool.toolkit in CRM)
    roll = Toolroll.from_definitions(Definitions(crm, known.toolkits, pages=known.pages), profile="learned")
    assert len(roll.select(QUERY, Context(page="settings-admin"))) == 7


@pytest.mark.parametrize("page", PAGES)
def test_without_an_embedder_the_tools_of_the_page_are_used(page):
    """Of messages that share no word with any tool, too, and of all that its K leaves."""
    wanted = {name for pattern, toolkits, _ in MAPPINGS if matches(pattern, page) for name in toolkits}
    roll = without_embedder()
    on_page = {tool.name for tool in roll.catalog.tools if tool.toolkit in wanted}
    for message in (QUERY, "显示我的联系人", ""):
        names = roll.select(message, Context(page=page)).names
        assert set(names) <= on_page
        assert names if message == QUERY else len(names) == min(7, len(on_page))


def test_without_an_embedder_and_a_page_the_catalog_is_used():
    assert len(without_embedder().select("显示我的联系人")) == 7


def test_what_never_fits_is_left_out_before_anything_is_ranked(roll):
    """80 schemas and more were refused by Gemini; 7 never are."""
    assert len(roll.select(QUERY, Context(provider="gemini"))) == 7


def test_each_schema_is_counted_at_the_seeds_mean(roll):
    assert set(roll.catalog.costs.tolist()) == {TOKENS}


def test_outcomes_of_one_page_and_tier_do_not_count_on_another(roll):
    """The context key of the seed: tier, page, and what kind of message it is, which it calls `general`."""
    own = Toolroll.from_definitions(platform(), profile="learned")
    here, there = (Context(tier="teams", page=page, session="s") for page in ("contacts", "deals"))
    before = own.select(QUERY, there).names
    for _ in range(5):
        picked = own.select(QUERY, here)
        own.record(picked, {picked.names[-1]: True}, reporter="")
    assert own._home.learned("") is not None
    assert own.select(QUERY, there).names == before


def asked(own: Toolroll, turn: int) -> tuple[str, ...]:
    return own.select(QUERY, Context(tier="teams", page="contacts", session=str(turn))).names


def test_nothing_recorded_leaves_the_nearest_in_their_order(roll):
    static = Toolroll.from_definitions(platform(), profile=PROFILES["learned"].with_(learning=None))
    assert roll.select(QUERY).names == static.select(QUERY).names


def test_a_tool_that_always_fails_gives_its_place_to_others_and_the_last_place_explores():
    own = Toolroll.from_definitions(platform(), profile="learned")
    seeds = iter(range(10_000))
    own._home.engine._draw = lambda: next(seeds)
    victim, *others = asked(own, 0)
    shown = 0
    for turn in range(200):
        picked = own.select(QUERY, Context(tier="teams", page="contacts", user=f"user-{turn % 10}"))
        shown += victim in picked
        own.record(picked, {victim: False} if victim in picked else {})
    assert shown <= 30
    later = [asked(own, turn) for turn in range(100)]
    assert all(len(names) == 7 for names in later)
    assert sum(victim in names for names in later) <= 5
    assert all(set(others[:5]) <= set(names) for names in later)  # they are near, and nothing says they fail
    assert len({name for names in later for name in names} - {victim}) > 7


def test_a_tool_that_works_keeps_its_place_whatever_is_drawn():
    own = Toolroll.from_definitions(platform(), profile="learned")
    best = asked(own, 0)[0]
    for turn in range(30):
        picked = own.select(QUERY, Context(tier="teams", page="contacts", user=f"user-{turn % 10}"))
        own.record(picked, {best: turn % 3 > 0})
    assert all(best in asked(own, turn) for turn in range(100))
