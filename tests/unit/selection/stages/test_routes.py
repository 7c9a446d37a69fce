"""What a hit means: evidence, toolkits that are there whole, or nothing."""

from __future__ import annotations

import numpy as np
import pytest

from tests.table import each_row
from toolroll import Context, PageMapping, Profile, Route, Rule, Tool, Toolkit, Toolroll
from toolroll.model.errors import InvalidInput
from toolroll.selection.profiles import PROFILES

TOOLS = (
    Tool("get_forecast", "Gives the weather forecast for a city", toolkit="weather"),
    Tool("get_warnings", "Gives warnings", toolkit="weather"),
    Tool("send_mail", "Sends a mail", toolkit="mail"),
    Tool("read_mail", "Reads a mail", toolkit="mail"),
    Tool("play_song", "Plays a song", toolkit="music"),
    Tool("stop_song", "Stops a song", toolkit="music"),
)
KITS = (Toolkit("weather"), Toolkit("mail", settings_keys=("mail_key",)), Toolkit("music"))
ROUTES = (Route(("weather",), ("rain",)), Route(("mail",), ("letter",)), Route(("music",), ("loud",)))
MAIL = Context(settings=("mail_key",))


def roll_of(embedder="none", **parameters) -> Toolroll:
    settled = {"pass_through_tools": 0, "lexical_saturation": float("inf"), "spelling": False} | parameters
    return Toolroll.from_tools(
        TOOLS, toolkits=KITS, routes=ROUTES, embedder=embedder, profile=Profile(**settled)
    )


def test_fill_puts_what_was_hit_behind_what_was_found_and_by_name():
    roll = roll_of(routes="fill", k=1)
    picked = roll.select("play a song when it rains, rain or shine, loud", MAIL)
    assert picked.names == ("play_song", "get_forecast", "get_warnings", "stop_song")
    assert picked.candidates.scores[1:].tolist() == [0, 0, 0]
    assert picked.log_lines()[0].startswith(
        "tool selection: method=retrieval+routes, retrieved=1, routes=3, total=4/6"
    )


def test_fill_adds_default_toolkits_only_where_nothing_is_hit():
    roll = roll_of(routes="fill", k=1, no_hit=("weather",))
    assert roll.select("song", MAIL).names[1:] == ("get_forecast", "get_warnings")
    assert roll.select("song loud", MAIL).names[1:] == ("stop_song",)
    assert roll_of(routes="fill", k=1).select("song", MAIL).names == ("play_song",)


def test_fill_keeps_to_the_page():
    roll = Toolroll.from_tools(
        TOOLS, toolkits=KITS, routes=ROUTES, embedder="none", pages=[PageMapping("home", ("music",))],
        profile=Profile(routes="fill", pass_through_tools=0),
    )  # fmt: skip
    here = Context(page="home")
    assert set(roll.select("rain and a song", here).names) <= {"play_song", "stop_song"}
    assert "get_forecast" in roll.select("rain and a song")


def test_narrow_leaves_all_tools_of_what_was_hit_where_none_are_retrieved():
    roll = roll_of(routes="narrow", retrieve="none")
    assert roll.select("a letter about rain", MAIL).names == (
        "get_forecast", "get_warnings", "read_mail", "send_mail",
    )  # fmt: skip
    assert len(roll.select("nothing is said", MAIL)) == 6


@pytest.mark.parametrize("routes", ["narrow", "fill"])
def test_a_toolkit_without_its_settings_cannot_be_hit(routes):
    roll = roll_of(routes=routes, retrieve="none", no_hit=("music",))
    assert roll.select("a letter").names == ("play_song", "stop_song")
    assert roll.select("a letter", MAIL).names == ("read_mail", "send_mail")


def test_the_keyword_of_a_denied_toolkit_says_nothing():
    denied = Rule("no mail", "deny", "user", {"user": "bob"}, toolkit="mail")
    roll = Toolroll.from_tools(
        TOOLS, toolkits=KITS, routes=ROUTES, embedder="none", rules=[denied],
        profile=Profile(routes="narrow", retrieve="none"),
    )  # fmt: skip
    bob = Context(user="bob", settings=("mail_key",))
    assert roll.select("a letter", bob).names == roll.select("hm", bob).names


def test_ignore_hits_nothing():
    nothing = roll_of(routes="ignore", retrieve="none", no_hit=(), on_no_tool="empty")
    assert nothing.select("rain", MAIL).names == ()
    assert roll_of(routes="ignore", retrieve="none", no_hit=("music",)).select("rain", MAIL).names == (
        "play_song", "stop_song",
    )  # fmt: skip
    assert len(roll_of(routes="ignore", retrieve="none").select("rain", MAIL)) == 6
    assert "keyword" not in roll_of(routes="ignore").select("rain song", MAIL).explain()


def test_a_toolkit_hit_twice_counts_once_and_by_its_strongest_hit():
    tools = [Tool(f"t{at}", toolkit=kit) for at, kit in enumerate(("one", "two", "two"))]
    kits = (Toolkit("one"), Toolkit("two"), Toolkit("both", members=("t*",)))
    routes = (Route(("two",), ("x",)), Route(("both",), ("x",)))
    roll = Toolroll.from_tools(
        tools, toolkits=kits, routes=routes, embedder="none",
        profile=Profile(routes="narrow", retrieve="none", pass_through_tools=0),
    )  # fmt: skip
    picked = roll.select("x")
    assert picked.names == ("t0", "t1", "t2")
    assert np.all(picked.candidates.scores == 1)


def test_keywords_stand_as_the_profile_says_where_their_author_did_not():
    routes = (Route(("weather",), ("rain",)), Route(("music",), ("loud",), modes=("word",)))

    def hit(mode, message):
        profile = PROFILES["layers"].with_(keyword_mode=mode, toolkit_threshold=None)
        roll = Toolroll.from_tools(TOOLS, toolkits=KITS, routes=routes, embedder="none", profile=profile)
        return roll.select(message).has_match

    assert hit("substring", "the TRAINS") and hit("prefix", "rainy") and hit(None, "rain")
    assert not hit(None, "rainy") and not hit("prefix", "the trains") and not hit("word", "rainy")
    assert not hit("substring", "clouds"), "this one's author did say"


def test_a_keyword_mode_is_part_of_the_catalogs_revision():
    revisions = {
        roll_of(keyword_mode=mode).catalog.revision for mode in (None, "substring", "prefix", "word")
    }
    assert len(revisions) == 4


@each_row(
    "wrong",
    [
        {"retrieve": "some"}, {"retrieve": None}, {"routes": "narrows"}, {"routes": False},
        {"no_hit": "search"}, {"no_hit": [7]}, {"keyword_mode": "glob"}, {"keyword_mode": ""},
    ],
)  # fmt: skip
def test_a_wrong_parameter_is_refused(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        Profile(**wrong)


def test_default_toolkits_may_be_a_list():
    assert Profile(no_hit=["a", "b"]).no_hit == ("a", "b")


def test_k_above_the_candidates_is_reached():
    tools = [Tool(f"tool_{at:02}", "the same words") for at in range(60)]
    roll = Toolroll.from_tools(tools, embedder="none", profile=Profile(k=40, candidates=5))
    assert len(roll.select("same words")) == 40


def test_nothing_is_retrieved_where_k_is_given_but_the_profile_retrieves_nothing():
    assert len(roll_of(retrieve="none", routes="narrow").select("hm", MAIL, k=1)) == 6
