"""A catalog's speller, with the general vocabulary behind it."""

from __future__ import annotations

import pytest

from toolroll.spelling import general_words, speller_of
from toolroll.tool_text import fields
from toolroll.tools import Tool

TOOLS = (
    Tool("get_weather", description="Forecast for a city", examples=("do I need an umbrella",)),
    Tool(
        "create_event",
        description="Adds an appointment to the calendar",
        parameters={"type": "object", "properties": {"attendeeEmails": {"type": "array"}}},
    ),
)
SPELLER = speller_of(zip(*map(fields, TOOLS), strict=True))


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
    assert SPELLER.correct(message) == read


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
    assert SPELLER.correct(message) == message


def test_a_catalog_without_tools_still_knows_english():
    assert speller_of([]).correct("add it to the calender") == "add it to the calendar"


def test_the_general_words_are_read_once():
    assert general_words() is general_words()
    assert general_words().memory_bytes < 2_000_000
