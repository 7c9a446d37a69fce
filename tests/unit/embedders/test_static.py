"""The tables in the wheel: what they answer, compared with twins in numpy, and how large they are."""

from __future__ import annotations

import hashlib
import json
import re
from importlib import resources
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.table import each_row
from toolroll import Tool, Toolroll, _core
from toolroll.catalog.spelling import language_gate
from toolroll.embedders.static import StaticEmbedder, checksum

MODELS = resources.files("toolroll.embedders.data")
ABOUT = json.loads(MODELS.joinpath("static_minilm", "table.json").read_text("utf-8"))
OTHERS = json.loads(MODELS.joinpath("static_multilingual", "table.json").read_text("utf-8"))


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
    with resources.as_file(MODELS.joinpath("static_multilingual")) as folder:
        table, scale, scores, gate = (
            np.load(folder / f"{name}.npy") for name in ("table", "scale", "scores", "gate")
        )
        pieces = (folder / "pieces.txt").read_bytes()
    assert checksum(table, scale, scores.tobytes(), gate.tobytes(), pieces) == OTHERS["sha256"]
    assert OTHERS["english"] == ABOUT["sha256"]
    both = hashlib.sha256((ABOUT["sha256"] + OTHERS["sha256"]).encode()).hexdigest()
    assert StaticEmbedder().identity == f"static-minilm@{both[:12]}"


def test_the_table_has_a_row_for_each_piece_and_none_for_special_ones(
    files: tuple[list[str], Any, Any],
) -> None:
    vocabulary, table, scale = files
    assert table.dtype == np.int8 and scale.dtype == np.float32
    assert table.shape == (len(vocabulary), ABOUT["dim"]) and scale.shape == (len(vocabulary),)
    for piece in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"):
        assert not table[vocabulary.index(piece)].any()


def test_the_model_files_stay_under_twenty_megabytes() -> None:
    with resources.as_file(MODELS) as folder:
        assert sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) <= 20e6


@each_row(
    "text",
    [
        "Should I bring an umbrella?",
        "A naïve user at the CAFÉ — has déjà vu, 24/7!",
        "create_calendar_event(title: string)",
        "unaffable supercalifragilistic",
        "ไทย weather ελληνικά",
        "",
        "x" * 500,
    ],
)
def test_a_vector_is_the_sum_of_the_rows_of_its_pieces(twin: Any, text: str) -> None:
    assert np.allclose(StaticEmbedder().embed_query(text), twin.embed(text), atol=1e-5)


# Latin and Greek: in later blocks the twin's Unicode is older than ours.
LETTERS = st.characters(max_codepoint=0x3FF)


@given(st.text(LETTERS, max_size=60))
def test_any_english_text_has_the_twins_vector(twin: Any, text: str) -> None:
    embedder = StaticEmbedder()
    assume(not language_gate().is_foreign(text))
    assert np.allclose(embedder.embed_query(text), twin.embed(text), atol=1e-5)


class OtherTwin:
    """Reads what is not English: a word with the gate on its side by its own table, others by the English."""

    def __init__(self, vocabulary: list[str], english: Any, scale: Any) -> None:
        with resources.as_file(MODELS.joinpath("static_multilingual")) as folder:
            self._rows = np.load(folder / "table.npy") * np.load(folder / "scale.npy").astype(float)[:, None]
            self._gate = np.load(folder / "gate.npy").astype(np.float64)
            pieces = (folder / "pieces.txt").read_text("utf-8").splitlines()
            self._cut = _core.Unigram(pieces, np.load(folder / "scores.npy").astype(np.float32)).encode
        self._english = english * scale.astype(float)[:, None]
        self._encode = _core.WordPiece(vocabulary).encode

    def _evidence(self, text: str) -> float:
        accents = len(re.findall("[\u00c0-\u024f\u1e00-\u1eff]", text))
        return float(self._gate[self._encode(text)].sum() + accents * self._gate[-2])

    def embed(self, text: str) -> Any:
        latin = re.sub("[\u0400-\u1dff\u2e80-\uffff]", " ", text)
        total = self._rows[self._cut(re.sub("[\0-\u024f\u1e00-\u1eff]", " ", text))].sum(0)
        if self._evidence(latin) + self._gate[-1] <= 0:
            total += self._english[self._encode(latin)].sum(0)
        else:
            words = re.findall(r"[^\W\d_]+", latin)
            foreign = [word for word in words if self._evidence(word) > 0]
            total += self._rows[self._cut(" ".join(foreign))].sum(0)
            for word in set(words) - set(foreign):
                total += words.count(word) * self._english[self._encode(word)].sum(0)
        return total / np.linalg.norm(total)


@each_row(
    "text",
    [
        "显示我的联系人",
        "покажи мои контакты",
        "연락처를 보여줘",
        "مرر لي جهات الاتصال",
        "मेरे संपर्क दिखाओ",
        "把 Notion 页面导出 as PDF, please",
        "lösche alle Termine im Google Calendar am Freitag",
        "¿puedes enviar el archivo a mi jefe?",
        "xem danh sách cuộc họp trong Outlook",
        "покажи мои issues на GitHub und zeige mir die Termine",
    ],
)
def test_another_language_is_read_by_its_own_table_and_its_english_words_by_the_english_one(
    files: tuple[list[str], Any, Any], text: str
) -> None:
    assert np.allclose(StaticEmbedder().embed_query(text), OtherTwin(*files).embed(text), atol=1e-5)


@given(st.text(max_size=80))
def test_any_text_has_a_vector_of_length_one_or_zero(text: str) -> None:
    length = float(np.linalg.norm(StaticEmbedder().embed_query(text)))
    assert length == 0 or abs(length - 1) < 1e-4


TOOLS = [
    Tool("list_contacts", "Lists the people in the address book with phone numbers and e-mail addresses"),
    Tool("get_forecast", "Weather forecast for a city: temperature, rain and wind"),
    Tool("send_email", "Sends an e-mail to one or more people"),
    Tool("create_event", "Creates an event in the calendar with title, time and guests"),
    Tool("play_music", "Plays a song, an album or a playlist on the speaker"),
    Tool("delete_file", "Deletes a file or a folder from the drive"),
    Tool("convert_currency", "Converts an amount from one currency into another at today's rate"),
    Tool("translate_text", "Translates a text from one language into another"),
]


@each_row(
    ("message", "tool"),
    [
        ("显示我的联系人", "list_contacts"),
        ("покажи мои контакты", "list_contacts"),
        ("muestra mis contactos", "list_contacts"),
        ("zeig mir meine Kontakte", "list_contacts"),
        ("연락처를 보여줘", "list_contacts"),
        ("連絡先を表示して", "list_contacts"),
        ("明天会下雨吗？", "get_forecast"),
        ("удали этот файл", "delete_file"),
        ("traduis ce texte", "translate_text"),
        ("스피커로 노래 틀어줘", "play_music"),
    ],
)
def test_a_message_in_another_language_finds_an_english_tool_offline(message: str, tool: str) -> None:
    selection = Toolroll.from_tools(TOOLS, embedder="static").select(message, k=3)
    assert selection.tools[0].name == tool


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


def test_a_script_that_no_table_can_read_has_no_vector_rather_than_a_wrong_one() -> None:
    assert not StaticEmbedder().embed(["พรุ่งนี้ฝนจะตกไหม", "ωραίος", "☂"]).any()


@each_row(
    "text",
    [
        "Show the café's menu",
        "Book a table at Käfer",
        "what's the déjà vu about",
        "vm redeploy",
        "git rebase -i",
    ],
)
def test_an_english_text_with_a_foreign_name_stays_english(text: str) -> None:
    assert not language_gate().is_foreign(text)


def test_all_embedders_of_a_process_share_one_table() -> None:
    assert StaticEmbedder().table is StaticEmbedder().table
