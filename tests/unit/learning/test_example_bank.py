"""What a bank takes, what it drops, and that a catalog learns from it."""

from __future__ import annotations

import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolroll import Tool, Toolroll
from toolroll.errors import InvalidInput
from toolroll.learning.example_bank import LONGEST, ExampleBank, cleaned, folded
from toolroll.tools import Definitions


def bank_of(*texts: str, tool: str = "weather", source: str = "ann", **bounds: int) -> ExampleBank:
    bank = ExampleBank(**bounds)
    for text in texts:
        bank = bank.add(tool, text, source)
    return bank


def test_a_message_becomes_an_example_of_its_tool_behind_the_tools_own():
    bank = bank_of("will it rain in Oslo")
    tools = (Tool("weather", "Forecast", examples=("is it sunny",)), Tool("mail", "Sends mail"))
    weather, mail = bank.apply(Definitions(tools)).tools
    assert weather.examples == ("is it sunny", "will it rain in Oslo")
    assert mail is tools[1]


def test_the_newest_examples_come_first_since_only_so_many_are_read():
    assert bank_of("the first of all", "the second of all").examples("weather") == (
        "the second of all",
        "the first of all",
    )


def test_a_bank_is_a_value():
    bank = bank_of("will it rain in Oslo")
    more = bank.add("weather", "will it snow in Oslo", "ann")
    assert len(bank) == 1 and len(more) == 2
    assert bank == bank_of("will it rain in Oslo")


@pytest.mark.parametrize(
    "again",
    [
        "Will it  RAIN in Oslo?",
        "will it rain\nin oslo",
        "will it ra\u200bin in Oslo",
        "\u202ewill it rain in Oslo",
    ],
)
def test_a_message_that_differs_in_case_spacing_or_hidden_characters_is_no_new_example(again):
    bank = bank_of("will it rain in Oslo")
    assert bank.add("weather", again, "ben") is bank


@pytest.mark.parametrize(
    "text", ["", "yes please", "ok", "\x00\x01 \u200b\u202e", "x" * (LONGEST + 1), "a b c " * 10**6]
)
def test_what_says_too_little_or_too_much_is_no_example(text):
    bank = ExampleBank()
    assert bank.add("weather", text, "ann") is bank


def test_scripts_without_spaces_are_counted_by_character():
    assert bank_of("明日の天気は").examples("weather") == ("明日の天気は",)
    assert bank_of("날씨 알려줘").examples("weather") == ("날씨 알려줘",)


def test_hidden_characters_are_not_kept():
    assert cleaned("show\x07 me\u202e the\U000e0041 rain\ud800 \ue000now") == "show me the rain now"
    assert cleaned("cafe\u0301") == "caf\u00e9"


def test_joiners_that_spelling_needs_are_kept():
    assert (
        cleaned("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645")
        == "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    )


def test_one_source_fills_only_its_part_of_a_tool():
    bank = bank_of(*(f"what Mallory wants no {n}" for n in range(100)), most_per_source=2)
    assert bank.examples("weather") == ("what Mallory wants no 99", "what Mallory wants no 98")


def test_a_full_tool_makes_room_at_the_cost_of_who_has_most():
    bank = bank_of("ben asks for rain", source="ben", most_per_tool=4, most_per_source=3)
    for n in range(3):
        bank = bank.add("weather", f"mallory asks for number {n}", "mallory")
    bank = bank.add("weather", "cleo asks for snow", "cleo")
    assert bank.examples("weather") == (
        "cleo asks for snow",
        "mallory asks for number 2",
        "mallory asks for number 1",
        "ben asks for rain",
    )


def test_examples_are_taken_back_by_tool_by_source_or_both():
    bank = (
        bank_of("will it rain in Oslo")
        .add("mail", "write to my mother", "ann")
        .add("mail", "write to my boss", "ben")
    )
    assert set(bank.remove(tool="mail").grown) == {"weather"}
    assert bank.remove(source="ann").grown == bank_of("write to my boss", tool="mail", source="ben").grown
    assert len(bank.remove(tool="mail", source="ann")) == 2
    with pytest.raises(InvalidInput, match="needs a tool"):
        bank.remove()


def test_a_text_that_stands_for_many_tools_teaches_none_of_them():
    bank = ExampleBank()
    for n in range(4):
        bank = bank.add(f"tool_{n}", "do it for me", "ann")
    definitions = Definitions(tuple(Tool(f"tool_{n}") for n in range(4)))
    assert all(not tool.examples for tool in bank.apply(definitions).tools)
    assert all(tool.examples for tool in bank.remove(tool="tool_0").apply(definitions).tools[1:])


def test_a_tool_that_already_says_it_does_not_say_it_twice():
    tool = Tool("weather", examples=("Will it rain in Oslo?",))
    assert bank_of("will it rain in oslo").apply(Definitions((tool,))).tools == (tool,)


@pytest.mark.parametrize("bounds", [{"most_per_tool": 0}, {"most_per_source": True}, {"most_per_tool": "8"}])
def test_bounds_are_whole_numbers_of_at_least_one(bounds):
    with pytest.raises(InvalidInput, match="whole number"):
        ExampleBank(**bounds)


@pytest.mark.parametrize(
    "record", [{"tool": "a", "text": "b c d"}, {"tool": "", "text": "a b c", "source": "s"}, 7]
)
def test_a_broken_record_is_named_by_its_place(record):
    with pytest.raises(InvalidInput, match=r"records\[1\]"):
        ExampleBank.from_records([{"tool": "a", "text": "one two three", "source": "s"}, record])


additions = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.text(max_size=40) | st.sampled_from(["a b c", "d e f", "g h i", "j k l"]),
        st.sampled_from("xyz"),
    ),
    max_size=30,
)


@given(additions, st.integers(1, 4), st.integers(1, 4))
def test_whatever_is_added_the_bounds_hold_and_nothing_is_there_twice(added, most_per_tool, most_per_source):
    bank = ExampleBank(most_per_tool, most_per_source)
    for addition in added:
        bank = bank.add(*addition)
    for held in bank.grown.values():
        assert 1 <= len(held) <= most_per_tool
        assert len({folded(one.text) for one in held}) == len(held)
        assert all(sum(o.source == one.source for o in held) <= most_per_source for one in held)
        assert all(one.text == cleaned(one.text) and len(one.text) <= LONGEST for one in held)


@given(additions)
def test_a_bank_comes_back_from_its_records(added):
    bank = ExampleBank()
    for addition in added:
        bank = bank.add(*addition)
    records = json.loads(json.dumps(list(bank.records())))
    assert ExampleBank.from_records(records) == bank


TOOLS = [
    Tool("forecast", "Weather forecast for a place"),
    Tool("ledger", "Posts an entry"),
    *(Tool(f"other_{n}", f"Does thing number {n}") for n in range(12)),
]


def test_a_tool_is_found_by_words_that_only_use_has_taught():
    roll = Toolroll.from_tools(TOOLS)
    message = "put the dinner with Henrik on expenses"
    assert roll.select(message, k=1).names != ("ledger",)
    picked = roll.select("please post an entry for the dinner expenses", k=5)
    assert roll.grow(picked, "put yesterday's dinner on my expenses", ["ledger"], source="ann") == 1
    assert roll.select(message, k=1).names != ("ledger",)
    roll.apply_grown()
    assert roll.select(message, k=1).names == ("ledger",)


def test_what_was_not_offered_is_not_learnt():
    roll = Toolroll.from_tools(TOOLS)
    picked = roll.select("weather forecast for a place", k=1)
    assert roll.grow(picked, "post an entry for me", ["ledger", "unheard_of"], source="ann") == 0
    assert len(roll.grown) == 0


def test_what_is_taken_back_is_gone_with_the_next_catalog():
    roll = Toolroll.from_tools(TOOLS)
    before = roll.catalog.revision
    roll.grow(roll.select("post an entry", k=5), "put dinner on my expenses", ["ledger"], source="ann")
    assert roll.apply_grown().revision != before
    assert roll.forget(source="ann") == 1
    assert roll.apply_grown().revision == before


def test_new_tools_keep_what_was_grown():
    roll = Toolroll.from_tools(TOOLS)
    roll.grow(roll.select("post an entry", k=5), "put dinner on my expenses", ["ledger"], source="ann")
    catalog = roll.refresh(TOOLS[:2])
    assert catalog.tools[catalog.names["ledger"]].examples == ("put dinner on my expenses",)


def test_a_bank_from_elsewhere_is_taken_over():
    roll = Toolroll.from_tools(TOOLS)
    roll.grown = bank_of("put dinner on my expenses", tool="ledger")
    catalog = roll.apply_grown()
    assert catalog.tools[catalog.names["ledger"]].examples == ("put dinner on my expenses",)


def test_wrong_arguments_are_refused():
    roll = Toolroll.from_tools(TOOLS)
    picked = roll.select("post an entry", k=5)
    with pytest.raises(InvalidInput, match="picked"):
        roll.grow("ledger", "post an entry", ["ledger"], source="ann")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="succeeded"):
        roll.grow(picked, "post an entry", "ledger", source="ann")
    with pytest.raises(InvalidInput, match="source"):
        roll.grow(picked, "post an entry", ["ledger"], source="")
    with pytest.raises(InvalidInput, match="ExampleBank"):
        roll.grown = {}  # type: ignore[assignment]


def test_threads_that_add_select_and_rebuild_lose_nothing():
    roll = Toolroll.from_tools(TOOLS)
    roll.grown = ExampleBank(most_per_tool=1_000, most_per_source=1_000)
    picked = roll.select("post an entry", k=5)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for n in range(50):
                assert (
                    roll.grow(picked, f"thread {number} wants entry {n}", ["ledger"], source=f"s{number}")
                    == 1
                )
                assert roll.select("post an entry", k=5).degraded == ()
                if n % 10 == 0:
                    roll.apply_grown()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(roll.grown) == 200
