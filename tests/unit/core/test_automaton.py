from __future__ import annotations

import tempfile
import threading
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from tests.unit.core.caseless import caseless
from toolroll._core import Automaton

ALPHABET = "aabbcß İiéE\u0301_s1가나를\u1100\u1161\u11a8日本กรุ.-\U0001f600\ufe0f\x00"
MODES = ["substring", "word", "prefix"]
words = st.text(st.sampled_from(ALPHABET), min_size=1, max_size=6) | st.text(
    st.sampled_from("ab"), min_size=1, max_size=20
)
pattern_lists = st.lists(st.tuples(words, st.sampled_from(MODES)), max_size=12)
texts = st.lists(words, max_size=8).map("".join)


def kind(c: str) -> int:
    """0 between words, 1 in words that spaces part, 2 in Hangul, 3 in a script without spaces."""
    name, category = unicodedata.name(c, ""), unicodedata.category(c)
    if (category[0] not in "LNM" and c != "_") or "VARIATION SELECTOR" in name:
        return 0
    if any(script in name for script in ("CJK", "HIRAGANA", "KATAKANA", "THAI")):
        return 3
    return 2 if "HANGUL" in name else 1


def is_boundary(text: str, at: int) -> bool:
    if at in (0, len(text)):
        return True
    left, right = kind(text[at - 1]), kind(text[at])
    return left != right or left in (0, 3)


def naive(patterns: list[tuple[str, str]], text: str) -> set[int]:
    text, found = caseless(text), set()
    for number, (pattern, mode) in enumerate(patterns):
        pattern = caseless(pattern)
        for at in range(len(text) - len(pattern) + 1):
            if (
                text.startswith(pattern, at)
                and (mode == "substring" or is_boundary(text, at))
                and (mode != "word" or is_boundary(text, at + len(pattern)))
            ):
                found.add(number)
    return found


def build(patterns: list[tuple[str, str]]) -> Automaton:
    return Automaton([pattern for pattern, _ in patterns], [mode for _, mode in patterns])


@given(pattern_lists, texts)
def test_it_finds_what_a_naive_search_of_the_folded_text_finds(
    patterns: list[tuple[str, str]], text: str
) -> None:
    assert build(patterns).find(text) == sorted(naive(patterns, text))


@given(pattern_lists, texts)
def test_a_match_is_a_slice_of_the_callers_text(patterns: list[tuple[str, str]], text: str) -> None:
    matches = build(patterns).matches(text)
    assert sorted({pattern for pattern, _, _ in matches}) == sorted(naive(patterns, text))
    assert matches == sorted(set(matches), key=lambda match: (match[1], match[2], match[0]))
    for pattern, start, end in matches:
        assert caseless(patterns[pattern][0]) in caseless(text[start:end])


@given(st.lists(st.text("ab\n", min_size=1, max_size=5), max_size=6), st.text("ab\n", max_size=30))
def test_every_occurrence_is_a_match(patterns: list[str], text: str) -> None:
    expected = {
        (number, at, at + len(pattern))
        for number, pattern in enumerate(patterns)
        for at in range(len(text))
        if text.startswith(pattern, at)
    }
    assert set(Automaton(patterns, ["substring"] * len(patterns)).matches(text)) == expected


@given(
    st.lists(st.integers(1, 200), min_size=1, max_size=8), st.text("ab", max_size=400), st.integers(0, 400)
)
def test_long_repetitive_patterns_are_found_by_failure_links(
    lengths: list[int], noise: str, run: int
) -> None:
    patterns = [("a" * length + "b" * (length % 2), "substring") for length in lengths]
    patterns += [("a" * 150 + "b", "substring"), ("b", "word"), ("aaa", "prefix")]
    text = noise + "a" * run + " " + noise + "b"
    assert build(patterns).find(text) == sorted(naive(patterns, text))


def test_case_composition_and_full_folding_make_no_difference() -> None:
    automaton = build([("STRASSE", "word"), ("café", "word"), ("날씨", "prefix"), ("ﬁle", "word")])
    text = unicodedata.normalize("NFD", "Die Straße zum CAFÉ: 날씨를, FILE")
    assert automaton.find(text) == [0, 1, 2, 3]
    for pattern, start, end in automaton.matches(text):
        assert caseless(text[start:end]) == ["strasse", "café", "날씨", "file"][pattern]


def test_a_match_inside_an_expansion_is_the_whole_character() -> None:
    assert build([("s", "substring"), ("ß", "substring")]).matches("aß") == [(0, 1, 2), (1, 1, 2)]


@each_row(
    ("pattern", "mode", "text", "found"),
    [
        ("log", "word", "blog", False),
        ("log", "word", "log.", True),
        ("log", "word", "a log", True),
        ("log", "word", "logs", False),
        ("log", "prefix", "logs", True),
        ("log", "prefix", "blog", False),
        ("log", "substring", "blogs", True),
        ("log", "word", "log_file", False),
        ("c++", "word", "use c++11", True),
        ("#bug", "word", "a#bug", True),
        ("회의", "word", "회의를", False),
        ("회의", "prefix", "회의를", True),
        ("회의", "prefix", "긴급회의", False),
        ("회의", "substring", "긴급회의", True),
        ("slack", "word", "Slack에서 찾아줘", True),
        ("天气", "word", "明天天气怎么样", True),
        ("python", "word", "用Python写", True),
        ("อากาศ", "word", "วันนี้อากาศดีไหม", True),
        ("weather", "word", "☀️weather", True),
        ("नम", "word", "नमस्ते", False),
        ("नमस्ते", "word", "नमस्ते!", True),
        ("cafe", "word", "cafe\u0301", False),
    ],
)
def test_words_end_where_their_script_says(pattern: str, mode: str, text: str, found: bool) -> None:
    assert build([(pattern, mode)]).find(text) == [0] * found


def test_duplicates_and_patterns_that_fold_alike_keep_their_numbers() -> None:
    patterns = [
        ("Mail", "word"),
        ("mail", "substring"),
        ("MAIL", "word"),
        ("mail", "prefix"),
        ("mai", "prefix"),
    ]
    assert build(patterns).find("send mail") == [0, 1, 2, 3, 4]
    assert build(patterns).find("emails") == [1]
    assert build(patterns).find("mails") == [1, 3, 4]


def test_a_thousand_patterns_with_one_beginning_are_all_found() -> None:
    patterns = [(f"mail{i:x}", "substring") for i in range(1000)] + [("mai", "substring"), ("m", "word")]
    text = " ".join(f"mail{i:x}" for i in range(0, 1000, 7)) + " m"
    assert build(patterns).find(text) == sorted(naive(patterns, text))


def test_no_patterns_and_no_text_find_nothing() -> None:
    assert Automaton([], []).find("anything") == []
    assert build([("a", "word")]).find("") == []
    assert build([("a", "word")]).matches("") == []


@each_row(
    ("patterns", "modes", "message"),
    [
        (["a", ""], ["word", "word"], "pattern 1: is empty"),
        (["a"], [], "modes: has 0 of them, must be 1"),
        (["a"], ["whole"], "mode 0: is 'whole', must be substring, word or prefix"),
        (["a", "b" * 513], ["word", "prefix"], "pattern 1: has 513 bytes, a word or prefix may have 512"),
    ],
)
def test_wrong_use_names_the_pattern(patterns: list[str], modes: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Automaton(patterns, modes)


def test_a_long_substring_is_welcome() -> None:
    assert build([("b" * 5000, "substring")]).find("a" + "b" * 5000) == [0]


@given(st.text(st.sampled_from("aé\ud800\udfff가"), max_size=8))
def test_a_lone_surrogate_neither_raises_nor_moves_an_offset(text: str) -> None:
    text += "needle"
    assert build([("needle", "substring")]).matches(text) == [(0, len(text) - 6, len(text))]


@each_row("text", ["a" * 1_000_000, "ab" * 500_000, "日" * 333_333, "a " * 500_000, "a\u0301" * 333_333])
def test_a_message_of_a_megabyte_takes_linear_time(text: str) -> None:
    patterns = [("a" * n, "substring") for n in range(1, 400)] + [
        ("日" * n, "word") for n in (1, 2, 100, 170)
    ]
    patterns += [("ab" * 200 + "c", "substring"), ("a " * 200 + "c", "word"), ("a" * 64 + "c", "substring")]
    automaton = build(patterns)
    start = time.thread_time()
    automaton.find(text)
    assert time.thread_time() - start < 10  # a second at most; quadratic would be minutes


def test_offsets_are_right_deep_in_a_long_text() -> None:
    text = "é가ß\U0001f600" * 5000 + "NEEDLE" + "é" * 100
    assert build([("needle", "word"), ("needle", "substring")]).matches(text) == [(1, 20000, 20006)]


@given(pattern_lists, texts)
def test_a_saved_automaton_answers_alike(patterns: list[tuple[str, str]], text: str) -> None:
    automaton = build(patterns)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "keywords.idx")
        automaton.save(path)
        loaded = Automaton.load(path)
    assert loaded.size == len(patterns)
    assert loaded.matches(text) == automaton.matches(text)


def test_a_damaged_file_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "keywords.idx"
    build([("mail", "word"), ("calendar", "substring")]).save(str(path))
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        with pytest.raises(ValueError):
            Automaton.load(str(path))
        path.write_bytes(whole[:at])
        with pytest.raises(ValueError):
            Automaton.load(str(path))
    with pytest.raises(ValueError, match="cannot read"):
        Automaton.load(str(tmp_path / "none.idx"))


def test_many_threads_search_one_automaton() -> None:
    patterns = [(f"w{i}", MODES[i % 3]) for i in range(2000)]
    automaton = build(patterns)
    messages = [f"w{i} w{i * 7 % 2000}x yw{i * 3 % 2000} " * 60 for i in range(40)]
    expected = [automaton.find(message) for message in messages]
    wrong: list[int] = []

    def search() -> None:
        wrong.extend(i for i, message in enumerate(messages) if automaton.find(message) != expected[i])

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
