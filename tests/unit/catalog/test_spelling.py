"""A catalog's speller, with the general vocabulary behind it."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.core.corrected import corrected
from toolroll import Profile, Route, Toolkit, Toolroll
from toolroll.catalog.message_text import Reader
from toolroll.catalog.spelling import DeferredSpeller, general_words, language_gate, speller_of
from toolroll.catalog.tool_text import columns, texts_of
from toolroll.model.errors import InvalidInput
from toolroll.model.tools import Tool

TOOLS = (
    Tool("get_weather", description="Forecast for a city", examples=("do I need an umbrella",)),
    Tool(
        "create_event",
        description="Adds an appointment to the calendar",
        parameters={"type": "object", "properties": {"attendeeEmails": {"type": "array"}}},
    ),
)
SPELLER = speller_of(columns(texts_of(TOOLS)))


@pytest.mark.parametrize(
    ("message", "read"),
    [
        ("whats the wether forcast", "whats the weather forecast"),
        ("add an apointment to my calender", "add an appointment to my calendar"),
        ("do i need an umbrela", "do i need an umbrella"),
        ("who is the atendee", "who is the attendee"),
        ("please choose a restarant for the evening", "please choose a restaurant for the evening"),
    ],
)
def test_words_of_names_prose_parameters_examples_and_english_are_known(message, read):
    assert corrected(SPELLER, message) == read


@pytest.mark.parametrize(
    "message",
    [
        "Could you please check whether Jane's flight from Boston arrives on time?",
        "post it in the Trello board and tell Zeynep",
        "reschedule everything that overlaps",
        "Wie ist das Wetter heute und brauche ich einen Regenschirm",
        "Quel temps fait-il demain à Paris",
        "내일 서울 날씨 어때",
        "",
    ],
)
def test_messages_without_typos_stay(message):
    assert corrected(SPELLER, message) == message


@pytest.mark.parametrize(
    "message",
    [
        "wie schwer darf mein Handgepäck gerade sein",
        "was haben die Leute gestern auf der Seite kommentiert",
        "¿me buscas la página con la receta de masa madre?",
        "quanto costa la posta per la Francia?",
    ],
)
def test_a_message_in_another_language_is_not_corrected_to_english_words(message):
    prose = ["grade a paging of western action for the haven, at the postal cost of france"]
    assert corrected(speller_of([[], prose, [], []]), message) == message


def test_a_message_in_another_language_is_corrected_to_words_of_its_language():
    german = speller_of([["wettervorhersage"], ["die Niederschläge und Sturmwarnungen von heute"], [], []])
    assert (
        corrected(german, "zeig mir die Sturmwarnngen für morgen") == "zeig mir die sturmwarnungen für morgen"
    )


def test_an_english_message_that_typos_make_look_foreign_is_corrected():
    assert language_gate().is_foreign("ad an umbrela")
    assert corrected(SPELLER, "ad an umbrela") == "ad an umbrella"


def test_words_in_another_script_leave_english_words_english():
    assert corrected(SPELLER, "내일 서울 wether 어때") == "내일 서울 weather 어때"
    assert corrected(SPELLER, "帮我查明天北京的wether") == "帮我查明天北京的weather"


def test_words_of_names_are_preferred_to_words_of_prose():
    prose = ["whether and whether or not whether"]
    assert corrected(speller_of([["get_weather"], prose, [], []]), "wether") == "weather"
    assert corrected(speller_of([["get_it"], prose, [], []], ["weather"]), "wether") == "weather"


def test_a_catalog_without_tools_still_knows_english():
    assert corrected(speller_of([[]] * 4), "add it to the calender") == "add it to the calendar"


def test_the_general_words_are_read_once():
    assert general_words() is general_words()
    assert general_words().memory_bytes < 2_000_000


CITY = Tool("city_guide", toolkit="travel", description="Sights of a town")
KITS = (Toolkit("travel"),)


def rolled(*routes: Route, **parameters: object) -> Toolroll:
    profile = Profile(pass_through_tools=0, **parameters)  # type: ignore[arg-type]
    return Toolroll.from_tools((*TOOLS, CITY), toolkits=KITS, routes=routes, profile=profile)


@pytest.mark.parametrize("embedder", ["static", "none"])
def test_a_message_with_typos_selects_as_if_it_had_none(embedder):
    roll = Toolroll.from_tools(TOOLS, embedder=embedder)
    clean = roll.select("put the appointment into my calendar", k=1)
    typos = roll.select("put the apointment into my calender", k=1)
    assert typos.names == clean.names == ("create_event",)
    assert typos.candidates.scores.tolist() == clean.candidates.scores.tolist()


async def _selected(roll: Toolroll, message: str) -> tuple[str, ...]:
    return (await roll.aselect(message, k=1)).names


def test_the_async_twin_mends_too():
    assert asyncio.run(_selected(rolled(), "the calender")) == ("create_event",)


def test_a_selection_says_which_words_were_read_as_others():
    picked = rolled().select("Wether for my calender please", k=2)
    assert picked.spelling_corrections == (("Wether", "weather"), ("calender", "calendar"))
    assert "read 'calender' as 'calendar'" in picked.explain()
    assert rolled().select("weather", k=1).spelling_corrections == ()


def test_keywords_read_the_mended_message_and_patterns_the_message_itself():
    keyword = rolled(Route(("travel",), keywords=("sightseeing",)))
    assert keyword.select("some sigthseeing", k=1).names == ("city_guide",)
    pattern = rolled(Route(("travel",), patterns=("calender",)), route_weight=9.0)
    assert pattern.select("the calender", k=1).names == ("city_guide",)


def test_a_keyword_is_a_known_word():
    roll = rolled(Route(("travel",), keywords=("calenders",)), route_weight=9.0)
    assert roll.select("the calenders", k=1).names == ("city_guide",)


def test_without_the_parameter_messages_are_read_as_they_are():
    picked = rolled(spelling=False).select("calender", k=1)
    assert picked.spelling_corrections == ()
    assert picked.turn.query == "calender"


def test_the_parameter_is_true_or_false():
    with pytest.raises(InvalidInput, match="parameter spelling: is 'yes', must be True or False"):
        Profile(spelling="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "message", ["whats the wether forcast", "who is the atendee", "the weather of tomorrow", "내일", ""]
)
def test_a_deferred_speller_corrects_as_one_that_was_made_at_once(message):
    deferred = DeferredSpeller(lambda: SPELLER)
    assert Reader(deferred, clauses=False).read(message).query == corrected(SPELLER, message)
    assert deferred.corrections(message) == SPELLER.corrections(message)


def test_a_message_of_common_words_does_not_read_the_words_of_the_catalog():
    made = []
    reader = Reader(DeferredSpeller(lambda: made.append(1) or SPELLER), clauses=False)
    reader.read("please show me the weather of tomorrow")
    assert not made
    for _ in range(2):
        assert reader.read("please show me the wether").query == "please show me the weather"
    assert made == [1]
