"""The stage that finds: thresholds, confidence, what its terms say."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from tests.oracle.confidence import confidence
from tests.table import each_row
from toolroll import Context, Profile, Route, Tool, Toolkit, Toolroll
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.embedders.static import StaticEmbedder
from toolroll.selection.compose import fusion_of

ANYONE = Context()
TOOLS = (
    Tool("get_forecast", "Weather forecast for a city: rain, wind and temperature", toolkit="weather"),
    Tool("create_event", "Puts an event into the calendar", toolkit="calendar"),
    Tool("list_events", "Lists the events of a calendar", toolkit="calendar"),
    Tool("send_email", "Sends an e-mail message", toolkit="email"),
    Tool("play_song", "Plays a song or an album", toolkit="music"),
    Tool("book_table", "Books a table in a restaurant", toolkit="food"),
    Tool("now", "Current date and time", toolkit="basics"),
)
KITS = (Toolkit("basics", base=True),)
MESSAGE = "put the rain forecast into my calendar"


def roll_of(embedder="static", tools=TOOLS, **changes) -> Toolroll:
    return Toolroll.from_tools(tools, toolkits=KITS, embedder=embedder, profile=Profile(**changes))


def found(picked) -> list[str]:
    return [name for name in picked.names if name != "now"]


def terms_of(picked, name: str) -> dict[str, float]:
    evidence = picked.candidates.retrieved
    (at,) = np.flatnonzero(evidence.rows == picked.catalog.names[name])
    return {term: float(column[at]) for term, _, column in evidence.terms}


def test_every_score_is_the_sum_of_its_terms():
    history = ["what will the weather be", {"role": "assistant", "content": "Where? In the calendar?"}]
    tools = (*TOOLS, Tool("many", "odd", examples=tuple(f"will it rain in {i}" for i in "abcdefghij")))
    roll = roll_of(tools=tools, damping=False)
    for message in (MESSAGE, "rain?", "play me a song, then send Ann a message"):
        step = roll.select(message, ANYONE, k=7, history=history).candidates.retrieved
        total = sum(column for _, _, column in step.terms)
        assert np.allclose(total, step.scores, atol=1e-6)
        assert (np.diff(step.scores) <= 0).all()


def test_what_damping_takes_off_is_a_term_of_its_own():
    verbs = ("start", "stop", "show", "list")
    tools = [
        Tool(f"t{n:02}", f"does thing {n}", examples=tuple(f"{verb} thing {n} please" for verb in verbs))
        for n in range(60)
    ]
    greedy = Tool(
        "zz", "everything", toolkit="plugin", examples=tuple(f"run thing {n} please" for n in range(60))
    )
    roll = Toolroll.from_tools([*tools, greedy], profile=Profile(candidates=61))
    picked = roll.select("start thing 7 and show thing 9 please", k=6)
    step = picked.candidates.retrieved
    assert terms_of(picked, "zz")["damped"] < -0.1 and terms_of(picked, "t07")["damped"] == 0
    assert np.allclose(sum(column for _, _, column in step.terms), step.scores, atol=1e-6)
    assert "damped -" in picked.explain("zz")


@each_row("threshold", [0.05, 0.2, 0.4, 10.0])
def test_no_tool_below_the_threshold_is_found(threshold):
    free = roll_of().select(MESSAGE, ANYONE, k=7)
    picked = roll_of(threshold=threshold).select(MESSAGE, ANYONE, k=7)
    step = free.candidates.retrieved
    kept = [
        free.catalog.tools[row].name
        for row, score in zip(step.rows.tolist(), step.scores.tolist(), strict=True)
        if score >= threshold
    ]
    assert set(found(picked)) == set(kept) - {"now"}
    assert "now" in picked
    for name in set(found(free)) - set(kept):
        assert "below the threshold" in picked.explain(name)


@pytest.mark.parametrize("minimum", [0, 1, 3])
def test_so_many_are_found_even_below_the_threshold(minimum):
    best = roll_of().select(MESSAGE, ANYONE, k=7).candidates.retrieved.rows.tolist()[:minimum]
    picked = roll_of(threshold=10.0, minimum=minimum).select(MESSAGE, ANYONE, k=7)
    assert set(picked.rows.tolist()) - {picked.catalog.names["now"]} == set(best) - {
        picked.catalog.names["now"]
    }


def test_a_tool_without_evidence_is_not_found_whatever_the_minimum():
    picked = roll_of(embedder="none", threshold=0.1, minimum=5).select("rain", ANYONE, k=7)
    assert found(picked) == ["get_forecast"]


def test_a_message_that_nothing_serves_is_said_to_be_one_and_keeps_the_nearest():
    picked = roll_of(least_confidence=1.0).select(MESSAGE, ANYONE, k=2)
    assert not picked.has_match
    assert len(found(picked)) == 2
    assert f"no tool seems to apply ({picked.confidence:.2f})" in picked.summary()
    assert picked.to_dict()["has_match"] is False


def test_where_the_profile_says_so_it_keeps_core_tools_alone():
    tools = (*TOOLS, Tool("pin", "pinned", pinned=True))
    picked = roll_of(tools=tools, least_confidence=1.0, on_no_tool="empty").select(MESSAGE, ANYONE, k=2)
    assert set(picked.names) == {"now", "pin"}
    assert not picked.has_match
    assert picked.degraded == ()
    assert "no tool seems to serve this message" in picked.explain("get_forecast")


def test_a_message_that_some_tool_serves_is_selected_for_as_ever():
    plain = roll_of(least_confidence=0.0).select(MESSAGE, ANYONE, k=2)
    strict = roll_of(least_confidence=0.0, on_no_tool="empty").select(MESSAGE, ANYONE, k=2)
    assert plain.names == strict.names
    assert plain.has_match and strict.has_match


def test_confidence_is_higher_for_what_tools_say_than_for_what_they_do_not():
    roll = roll_of()
    served = roll.select("weather forecast for the city: rain and wind", ANYONE, k=2)
    foreign = roll.select("who painted the ceiling of that chapel", ANYONE, k=2)
    assert 0 <= foreign.confidence < served.confidence <= 1


@pytest.mark.parametrize("context", [Context(required=("now",)), Context(only=("now",))])
def test_where_retrieval_is_not_asked_nothing_is_said(context):
    picked = roll_of().select(MESSAGE, context)
    assert picked.confidence is None
    assert picked.has_match
    assert "no tool seems" not in picked.summary()


def test_a_turn_that_sees_few_tools_is_measured_by_the_right_ones():
    """By the best of the whole catalog, what is left would look as if nothing served the message."""
    tools = [
        Tool(
            f"tool_{i:02}",
            f"about {word}",
            examples=tuple(f"{word} {verb} {i}" for verb in ("show", "set", "drop", "list")),
        )
        for i, word in enumerate(["red", "green", "blue", "cyan", "pink", "gold", "gray", "teal", "lime", "navy", "plum", "rose", "rust", "sand", "snow", "wine", "ash", "bay", "elm", "fir", "oak", "yew", "fig", "ivy"])
    ]  # fmt: skip
    roll = Toolroll.from_tools(tools, embedder=HashingEmbedder(256))
    names = tuple(tool.name for tool in tools)
    whole = roll.select("blue show", k=3)
    within = roll.select("blue show", Context(only=names[:4]), k=3)
    nearly = roll.select("blue show", Context(exclude=names[-1:]), k=3)
    calibration = roll.catalog.retriever(fusion_of(Profile(), roll.catalog.scale), True).calibration
    best = float(whole.candidates.scores[0])
    assert whole.confidence == nearly.confidence == confidence(calibration, best, True, 1.0)
    assert within.confidence == confidence(calibration, best, False, 1.0) >= whole.confidence
    elsewhere = roll.select("blue show", Context(only=names[5:9]), k=3)
    assert elsewhere.confidence < within.confidence


@each_row(
    ("message", "history", "name", "terms"),
    [
        ("weather forecast", (), "get_forecast", {"dense", "lexical"}),
        ("will it rain in the city of Oslo", (), "umbrella", {"dense", "examples", "lexical"}),
        ("and there?", ("will it rain in the city",), "umbrella", {"earlier turns"}),
        ("play me a song, then tell Ann the forecast", (), "play_song", {"dense", "clause"}),
    ],
)
def test_explanations_name_every_term_that_speaks_for_a_tool(message, history, name, terms):
    rain = tuple(
        f"will it rain in the city of {city}"
        for city in ["Rome", "Lima", "Cairo", "Delhi", "Quito", "Paris", "Bern", "Kiev"]
    )
    roll = roll_of(tools=(*TOOLS, Tool("umbrella", "Tells what to wear", examples=rain)))
    picked = roll.select(message, ANYONE, k=7, history=history)
    said = picked.explain(name)
    for term in terms:
        assert f"{term} {terms_of(picked, name)[term]:.2f}" in said


def test_what_a_clause_asks_for_is_found_among_what_another_asks_for():
    message = "Send an e-mail message to all of them about the event, and play a song"
    weights = [
        terms_of(roll_of(clauses=clauses).select(message, ANYONE, k=7), "play_song").get("clause", 0.0)
        for clauses in (0.0, 0.3, 1.0)
    ]
    assert weights[0] == 0.0
    assert weights[0] < weights[1] < weights[2]


class EnglishEmbedder(HashingEmbedder):
    """Says that it has learnt English alone."""

    is_english = True


def test_a_korean_message_gets_no_dense_evidence_from_an_english_embedder():
    """It embeds a few stray pieces of it, and those would say something about every tool."""
    message = "내일 비가 올까요"
    tools = (*TOOLS, Tool("umbrella", "비 소식을 알려 줍니다", examples=("내일 비가 오나요",)))
    picked = roll_of(embedder=EnglishEmbedder(256), tools=tools).select(message, ANYONE, k=7)
    assert picked.turn.trust == 0.0
    assert found(picked)[0] == "umbrella"
    assert set(terms_of(picked, "umbrella")) == {"lexical"}
    words = roll_of(embedder="none", tools=tools).select(message, ANYONE, k=7)
    assert picked.names == words.names


def test_a_message_of_two_scripts_is_trusted_by_the_share_of_the_one_it_knows():
    trust = roll_of(embedder=EnglishEmbedder(256)).select("forecast 내일 rain", ANYONE, k=1).turn.trust
    assert 0 < trust < 1


def test_an_embedder_of_many_languages_is_trusted_in_all():
    picked = roll_of(embedder=HashingEmbedder(256)).select("내일 비가 올까요", ANYONE, k=1)
    assert picked.turn.trust == 1.0


def test_a_route_adds_to_the_score_and_to_the_confidence():
    routes = [Route(("music",), ("calendar",))]
    hit = Toolroll.from_tools(TOOLS, toolkits=KITS, routes=routes, profile=Profile(pass_through_tools=0))
    row = hit.catalog.names["play_song"]
    plain, lifted = (roll.select(MESSAGE, ANYONE, k=7) for roll in (roll_of(pass_through_tools=0), hit))
    before = plain.candidates.score(row)
    assert lifted.candidates.score(row) == pytest.approx(before + 0.25)
    assert lifted.confidence > plain.confidence  # a keyword says that some tool applies


def test_only_allowed_rows_are_found():
    picked = roll_of().select(MESSAGE, Context(only=("create_event", "play_song")), k=2)
    assert set(picked.candidates.retrieved.rows.tolist()) <= {
        picked.catalog.names[name] for name in ("create_event", "play_song")
    }


def test_a_follow_up_is_read_with_the_turns_it_answers():
    roll = roll_of()
    history = [
        {"role": "user", "content": "book a table in a restaurant for four"},
        {"role": "assistant", "content": "At what time?"},
    ]
    message = "at 8 please"
    assert found(roll.select(message, ANYONE, k=1)) != ["book_table"]
    assert found(roll.select(message, ANYONE, k=1, history=history)) == ["book_table"]
    asynchronous = asyncio.run(roll.aselect(message, ANYONE, k=1, history=history))
    assert found(asynchronous) == ["book_table"]
    assert "earlier turns" in asynchronous.explain("book_table")


def test_a_message_that_says_it_all_is_not_led_astray_by_what_was_said_before():
    roll = roll_of()
    message = (
        "weather forecast for the city of Oslo tomorrow evening: rain, wind, temperature, sunset, clouds"
    )
    without = roll.select(message, ANYONE, k=3)
    behind = roll.select(message, ANYONE, k=3, history=["play a song", "play another song"])
    assert behind.names == without.names
    assert behind.turn.earlier == ()


def test_the_selection_is_repeated_from_its_turn_with_its_history():
    roll = roll_of()
    first = roll.select("and in the calendar?", ANYONE, k=3, history=["the rain forecast", "as I said"])
    again = roll._home.engine.snapshot.shared.decide(first.turn)
    assert first.turn.earlier
    assert again.names == first.names
    assert again.candidates.scores.tolist() == first.candidates.scores.tolist()
    assert again.confidence == first.confidence


def test_an_embedder_that_fails_on_what_was_said_before_keeps_what_it_gave_for_the_message():
    class Forgetful(StaticEmbedder):
        def embed_query(self, text):
            if text == "the rain forecast":
                raise RuntimeError("forgot")
            return super().embed_query(text)

        def embed_queries(self, texts):
            return [self.embed_query(text) for text in texts]

    picked = roll_of(embedder=Forgetful()).select("and there?", ANYONE, k=3, history=["the rain forecast"])
    assert picked.degraded == ("embedder",)
    assert picked.turn.vector is not None
    ((_, vector, _, _),) = picked.turn.earlier
    assert vector is None
    assert terms_of(picked, "get_forecast")["earlier turns"] > 0  # by words


def test_a_history_of_the_wrong_type_is_the_callers_mistake():
    from toolroll.model.errors import InvalidInput

    with pytest.raises(InvalidInput, match=r"history\[1\]"):
        roll_of().select("yes", history=["x", 5])


def test_timings_tell_reading_from_embedding():
    assert list(roll_of().select(MESSAGE, ANYONE, k=1).timings_us)[:2] == ["read", "embed"]


def test_a_toolkit_that_is_near_the_message_is_hit_without_a_keyword():
    kits = (Toolkit("music", "Songs, albums and playlists: listen to jazz or rock"), *KITS)
    tools = (*TOOLS, Tool("shuffle", "Does so at random", toolkit="music"))

    def picked(threshold, routes="favour"):
        parameters = Profile(toolkit_threshold=threshold, routes=routes)
        roll = Toolroll.from_tools(tools, toolkits=kits, profile=parameters)
        return roll.select("listen to some jazz albums", ANYONE, k=3)

    assert "shuffle" in picked(0.3)
    assert picked(0.3).activated["music"].startswith("dense")
    assert set(found(picked(0.3, "narrow"))) == {"shuffle", "play_song"}
    near = picked(0.3).explain("shuffle")
    assert near != picked(1.0).explain("shuffle") == picked(None).explain("shuffle")


def test_a_tool_that_takes_everybodys_messages_counts_less_where_damping_is_on():
    common = "the of and to in for my please show list get find make"
    tools = [
        Tool(f"tool_{i}", f"{word} things", examples=(f"show my {word}", f"please find the {word}"))
        for i, word in enumerate(["apple", "brick", "cloud", "drum", "eagle", "flute", "grape", "house", "igloo", "jewel", "kite", "lemon", "mango", "nest"])
    ]  # fmt: skip
    greedy = Tool("zz_greedy", common, examples=tuple(f"please show my {w} list" for w in common.split()))
    scores = []
    for damping in (False, True):
        roll = Toolroll.from_tools([*tools, greedy], embedder="none", profile=Profile(damping=damping))
        found = roll.select("please show my lemon list", k=15).candidates.retrieved
        scores.append(dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True))[len(tools)])
    assert 0 < scores[1] < scores[0]
