"""The table in the wheel: what it answers, compared with a twin in numpy, and what it costs to load."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolroll.embedders.static import StaticEmbedder, checksum

MODELS = resources.files("toolroll.embedders.data")
ABOUT = json.loads(MODELS.joinpath("static_minilm", "table.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def files() -> tuple[list[str], Any, Any]:
    vocabulary = MODELS.joinpath("vocab.txt").read_text("utf-8").splitlines()
    with resources.as_file(MODELS.joinpath("static_minilm")) as folder:
        return vocabulary, np.load(folder / "table.npy"), np.load(folder / "scale.npy")


@pytest.fixture(scope="module")
def twin(files: tuple[list[str], Any, Any]) -> Any:
    pytest.importorskip("tokenizers")
    from tests.unit.embedders.token_table_twin import TokenTableTwin

    return TokenTableTwin(*files)


def test_the_identity_is_the_checksum_of_the_numbers_in_the_wheel(files: tuple[list[str], Any, Any]) -> None:
    _, table, scale = files
    assert checksum(table, scale) == ABOUT["sha256"]
    assert StaticEmbedder().identity == f"static-minilm@{ABOUT['sha256'][:12]}"


def test_the_table_has_a_row_for_each_piece_and_none_for_special_ones(
    files: tuple[list[str], Any, Any],
) -> None:
    vocabulary, table, scale = files
    assert table.dtype == np.int8 and scale.dtype == np.float32
    assert table.shape == (len(vocabulary), ABOUT["dim"]) and scale.shape == (len(vocabulary),)
    for piece in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"):
        assert not table[vocabulary.index(piece)].any()


def test_the_model_files_stay_under_ten_megabytes() -> None:
    with resources.as_file(MODELS) as folder:
        assert sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) <= 10e6


@pytest.mark.parametrize(
    "text",
    [
        "Should I bring an umbrella?",
        "Naïve CAFÉ — déjà vu, 24/7!",
        "create_calendar_event(title: string)",
        "unaffable supercalifragilistic",
        "日本 weather 내일",
        "",
        "x" * 500,
    ],
)
def test_a_vector_is_the_sum_of_the_rows_of_its_pieces(twin: Any, text: str) -> None:
    assert np.allclose(StaticEmbedder().embed_query(text), twin.embed(text), atol=1e-5)


# Latin, Greek, Cyrillic, kana, Han, Hangul: in later blocks the twin's Unicode is older than ours.
LETTERS = st.characters(max_codepoint=0x52F) | st.characters(min_codepoint=0x3040, max_codepoint=0xD7A3)


@given(st.text(LETTERS, max_size=60))
def test_any_text_has_the_twins_vector(twin: Any, text: str) -> None:
    assert np.allclose(StaticEmbedder().embed_query(text), twin.embed(text), atol=1e-5)


def test_an_umbrella_is_about_the_weather() -> None:
    tools = {
        "weather": "get weather forecast: Gets the forecast for a place: temperature, rain and wind",
        "calendar": "create calendar event: Creates an event in the calendar with title, time and guests",
        "mail": "send email: Sends an e-mail to one or more people",
        "restaurant": "reserve table: Books a table in a restaurant for a number of people",
        "luggage": "track luggage: Finds out where a checked bag is and when it will be delivered",
    }
    embedder = StaticEmbedder()
    scores = embedder.embed(list(tools.values())) @ embedder.embed_query("Should I bring an umbrella?")
    assert list(tools)[int(np.argmax(scores))] == "weather"


def test_a_script_that_the_table_cannot_read_has_no_vector_rather_than_a_wrong_one() -> None:
    assert not StaticEmbedder().embed(["내일 비가 오나요?", "明日は雨ですか", "مظلة", "☂"]).any()


def test_all_embedders_of_a_process_share_one_table() -> None:
    assert StaticEmbedder()._table is StaticEmbedder()._table
