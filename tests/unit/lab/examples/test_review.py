"""The round trip: which messages become examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chat_server import PARTS_OF_A_HOUSE
from toolroll.embedders.static import StaticEmbedder
from toolroll.lab.examples.answers import AnswerLog, ModelAnswer
from toolroll.lab.examples.plan import plan
from toolroll.lab.examples.review import review
from toolroll.lab.examples.round_trip import WITHIN, RoundTrip
from toolroll.model.tools import Definitions, Tool

WEATHER = Tool("get_forecast", "Weather forecast for a city")
MAIL = Tool("send_mail", "Sends an e-mail to a person")
OTHERS = tuple(Tool(f"open_{word}", f"Opens the {word} of the house") for word in PARTS_OF_A_HOUSE)
CATALOG = Definitions((WEATHER, MAIL, *OTHERS))


def reviewed(
    answers: dict[str, ModelAnswer], tmp_path: Path, per_tool: int = 8, definitions: Definitions = CATALOG
):
    log = AnswerLog(tmp_path / "none", model="m", language="English", seed=0)
    names = [tool.name for tool in definitions.tools]
    planned = plan(definitions, names, log, per_tool=per_tool, batch=5)
    return review(definitions, planned, answers, StaticEmbedder())


def test_a_message_that_fits_another_tool_better_is_rejected_with_its_name(tmp_path: Path) -> None:
    texts = ("will it be sunny in Oslo", "weather for Rome please", "open the garage gate door of my house")
    found = reviewed({"get_forecast": ModelAnswer(texts)}, tmp_path)
    assert found.kept == {"get_forecast": texts[:2]}
    (rejection,) = found.rejected
    assert rejection.tool == "get_forecast" and rejection.text == texts[2]
    assert rejection.fits.startswith("open_") and rejection.fits in rejection.reason


def test_a_message_does_not_find_its_tool_by_itself() -> None:
    """It would be the nearest example of any catalog that has it."""
    odd = "open the garage gate door of my house"
    kept, rejected = RoundTrip(CATALOG).found({"get_forecast": [odd]})
    assert kept == {"get_forecast": []} and len(rejected) == 1
    kept, _ = RoundTrip(CATALOG).found({"get_forecast": [odd, "garage and gate and door of the house, open"]})
    assert kept["get_forecast"], "with another like it among its examples, it finds its tool"


def test_a_message_that_finds_an_interchangeable_tool_finds_its_own() -> None:
    twins = tuple(
        Tool(f"open_{i}_gate", "Opens the gate of the house", interchangeable="gates")
        for i in range(WITHIN + 5)
    )
    stranger = Tool("zzz", "Nothing of the kind", interchangeable="gates")
    message = {"zzz": ["open the gate of the house"]}
    kept, _ = RoundTrip(Definitions((*twins, stranger))).found(message)
    assert kept == {"zzz": ["open the gate of the house"]}
    alone = Tool("zzz", "Nothing of the kind")
    assert RoundTrip(Definitions((*twins, alone))).found(message)[0] == {"zzz": []}


def test_no_more_messages_are_kept_than_a_tool_lacks(tmp_path: Path) -> None:
    texts = ("weather in Oslo", "forecast for Rome", "how is the weather in Paris going to be")
    assert reviewed({"get_forecast": ModelAnswer(texts)}, tmp_path, per_tool=2).kept == {
        "get_forecast": texts[:2]
    }


def test_the_example_that_makes_a_near_miss_find_its_tool_first_is_taken_back(tmp_path: Path) -> None:
    texts = ("weather in Oslo", "how cold is it inside tonight", "tell me how cold it is inside now")
    found = reviewed({"get_forecast": ModelAnswer(texts)}, tmp_path)
    assert found.kept == {"get_forecast": texts}
    near_miss = "how cold is it inside the closet tonight"
    found = reviewed({"get_forecast": ModelAnswer(texts, (near_miss,))}, tmp_path)
    assert found.kept == {"get_forecast": (texts[0], texts[2])}
    assert [each.reason for each in found.rejected] == [
        f"makes the near miss {near_miss!r} find its tool first"
    ]
    assert (found.near_misses.first_before, found.near_misses.first_after) == (0, 0)


def test_a_tool_without_an_answer_gets_nothing(tmp_path: Path) -> None:
    found = reviewed({}, tmp_path)
    assert found.kept == {} and found.rejected == ()


def test_messages_that_the_tool_has_already_are_not_reported_as_rejected(tmp_path: Path) -> None:
    known = Tool("get_forecast", "Weather forecast for a city", examples=("weather in Oslo",))
    found = reviewed(
        {"get_forecast": ModelAnswer(("weather in Oslo",))}, tmp_path, definitions=Definitions((known, MAIL))
    )
    assert found.kept == {} and found.rejected == ()


@pytest.mark.parametrize("embedder", [None, StaticEmbedder()])
def test_it_works_with_words_alone(embedder: StaticEmbedder | None, tmp_path: Path) -> None:
    kept, _ = RoundTrip(CATALOG, embedder).found({"send_mail": ["send an e-mail to Ann"]})
    assert kept == {"send_mail": ["send an e-mail to Ann"]}
