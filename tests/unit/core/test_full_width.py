"""Full-width Latin letters and digits, as Chinese and Japanese keyboards write them, are ordinary ones."""

from __future__ import annotations

import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.caseless import NARROW, WIDE
from tests.unit.core.corrected import corrected
from toolroll import Route, Tool, Toolkit, Toolroll
from toolroll._core import Automaton, Bm25Index, Lexicon, Speller
from toolroll.catalog.spelling import general_words, language_gate
from toolroll.embedders.static import StaticEmbedder

WORDS = (
    "getURLs",
    "HTTPServer2",
    "oauth2",
    "the",
    "wether",
    "calender",
    "S3",
    "weather",
    "it's",
    "ÄRZTE",
    "データ",
    "mp3s",
)
MARKS = (" ", "-", "_", ".", ", ", "")


@st.composite
def texts(draw: st.DrawFn) -> str:
    pieces = draw(
        st.lists(st.sampled_from(WORDS) | st.text(string.ascii_letters + "1 é東", max_size=4), max_size=8)
    )
    return draw(st.sampled_from(MARKS)).join(pieces)


@st.composite
def alike(draw: st.DrawFn) -> tuple[str, str]:
    """A text, and the same with some of its letters and digits in full width."""
    text = draw(texts())
    wide = draw(st.lists(st.booleans(), min_size=len(text), max_size=len(text)))
    return text, "".join(c.translate(WIDE) if is_wide else c for c, is_wide in zip(text, wide, strict=True))


@given(alike(), st.sampled_from(("default", "plain")))
def test_terms_are_those_of_ordinary_letters(pair, analysis):
    text, wide = pair
    index = Bm25Index.build([[]], [1.0], analysis=analysis)
    assert index.terms(wide) == index.terms(text)


@given(alike())
def test_vectors_of_the_built_in_table_are_those_of_ordinary_letters(pair):
    text, wide = pair
    embedder = StaticEmbedder()
    assert embedder.embed_query(wide).tobytes() == embedder.embed_query(text).tobytes()


@given(alike(), alike())
def test_spelling_is_that_of_ordinary_letters(pair, tool):
    text, wide = pair
    message, tool_text = text, tool[0] + " get_weather calendar"
    ordinary = Speller(
        Lexicon.of_texts([tool_text], np.ones(1, np.float32)), general_words(), language_gate()
    )
    known = Lexicon.of_texts([tool[1] + " get_weather calendar"], np.ones(1, np.float32))
    speller = Speller(known, general_words(), language_gate())
    assert corrected(speller, wide).translate(NARROW) == corrected(ordinary, message)


@pytest.mark.parametrize(
    ("keyword", "text"),
    [("zigbee", "ＺＩＧＢＥＥの電球"), ("Ｚｉｇｂｅｅ", "the zigbee bulb"), ("abc1", "Ａbc１")],
)
def test_keywords_are_found_in_either_width(keyword, text):
    assert Automaton([keyword], ["word"]).find(text) == [0]


def test_a_message_selects_what_it_selects_in_ordinary_letters():
    tools = [
        Tool("get_weather", "Forecast for a city"),
        Tool("send_mail", "Sends a mail", toolkit="mail"),
        Tool("api_keys", "ＡＰＩキーの一覧"),
    ]
    roll = Toolroll.from_tools(tools, toolkits=[Toolkit("mail")], routes=[Route(("mail",), ("inbox",))])
    for message in ("the wether in Oslo", "clear my INBOX", "API key list"):
        one, other = roll.select(message, k=2), roll.select(message.translate(WIDE), k=2)
        assert one.names == other.names
        assert one.candidates.scores.tolist() == other.candidates.scores.tolist()
