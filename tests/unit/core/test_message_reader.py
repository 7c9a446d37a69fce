"""Reading a message in the core, compared with a regular expression and one step after the other."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests import slow_message_text as slow
from tests.table import each_row
from toolroll._core import Bitset, Lexicon, MessageReader, Reading, Speller, clauses_of, parts_of
from toolroll.catalog.message_text import Reader
from toolroll.catalog.spelling import general_words
from toolroll.embedders.static import StaticEmbedder

ROOT = Path(__file__).parents[3]
HIDDEN = "quokkafication"
WORDS = ("calendar", "weather", "zigbee", HIDDEN, "wombatization", "attendee")

# Everything that the expression names, and texts around it.
MARKS = (
    ".", "!", "?", ";", "。", "！", "？", "；", "、", "，", ",", "\n", " ", "  ", "\t", "\x1c", "\x85", "\xa0", "\u3000",
    "and", "AND", "then", "Then", "and then", "and  then", "and also", "also", "alſo", "plus", "PLUS", "pluſ",
    "as well as", "aſ well aſ", "as  well as", "but", "andy", "thenceforth",
)  # fmt: skip
SAID = (
    "calender", "wether", "quokkafcation", "wombatizaton", "atendee", "send the mail", "x", "a b", "don't", "天气", "ァア",
    "내일 날씨", "погода", "münchen", "e\u0301", "\u0301", "İ", "ẞ", "ﬁ", "ＡＢＣ", "\ud800", "\udfff", "\ufffd", "😀", "\0",
    "`wether`", "a.wether/b", "1,000",
)  # fmt: skip


def marked_texts() -> st.SearchStrategy[str]:
    """Texts of the expression's own marks, with spaces between them or without."""
    pieces = st.lists(st.sampled_from(MARKS + SAID) | st.text(max_size=2), max_size=24)
    return st.builds(lambda words, between: between.join(words), pieces, st.sampled_from(("", " ")))


def messages() -> st.SearchStrategy[str]:
    """Also ones that are too long, and around the length of a document."""
    many = st.builds(lambda text, n: text * n, marked_texts(), st.sampled_from((7, 60, 400)))
    near = st.builds(lambda text, n: (text + "ab. " * 300)[:n], marked_texts(), st.integers(995, 1005))
    return marked_texts() | st.text(max_size=40) | many | near


def histories() -> st.SearchStrategy[list[tuple[str, str]]]:
    texts = marked_texts() | marked_texts().map(lambda text: text * 60)
    return st.lists(st.tuples(st.sampled_from(("user", "assistant")), texts), max_size=5)


@cache
def speller() -> Speller:
    return Speller(Lexicon.of_texts(list(WORDS), np.ones(len(WORDS), np.float32)), general_words())


def same(ours: Reading, theirs: slow.SlowReading) -> None:
    def comparable(part: Sequence[Any]) -> tuple[Any, ...]:
        text, vector, trust, weight = part
        return text, None if vector is None else vector.tobytes(), trust, weight

    assert (ours.text, ours.query, ours.trust) == (theirs.text, theirs.query, theirs.trust)
    whole = (ours.query, ours.vector, ours.trust, 1.0)
    assert comparable(whole) == comparable((theirs.query, theirs.vector, theirs.trust, 1.0))
    assert [*map(comparable, ours.clauses)] == [*map(comparable, theirs.clauses)]
    assert [*map(comparable, ours.earlier)] == [*map(comparable, theirs.earlier)]


def check(
    message: str, said: Sequence[tuple[str, str]] = (), corrects: bool = True, limited: bool = False,
    has_clauses: bool = True, has_table: bool = False, is_english: bool = False,
) -> None:  # fmt: skip
    rows = Bitset.full(3)

    def may_show(word: str, visible: Bitset) -> bool:
        assert visible == rows
        return word != HIDDEN

    table = StaticEmbedder().table if has_table else None
    known = speller() if corrects else None
    ours = Reader(known, clauses=has_clauses, may_show=may_show).read(
        message,
        [{"role": role, "content": text} for role, text in said],
        (lambda: rows) if limited else None,
        table,
        is_english,
    )
    visible = (lambda word: general_words().knows(word) or word != HIDDEN) if limited else None
    heard = [(role, text) for role, text in said if text.strip()]
    same(ours, slow.read(message, heard, known, visible, has_clauses, table, is_english))


@given(
    messages(), histories(), st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans()
)  # fmt: skip
def test_a_message_is_read_as_one_step_after_the_other_reads_it(
    message, said, corrects, limited, has_clauses, has_table, is_english
):
    check(message, said, corrects, limited, has_clauses, has_table, is_english)


@given(messages())
@example("x。、y")
@example("。 。\n。")
@example("a, and b")
@example("a、 and b， then c")
@example("a \n and b")
@example("done. And then go")
@example(",,,  and , and")
@example(" and then ")
def test_pieces_are_those_of_the_expression(message):
    message = message.encode("utf-8", "replace").decode()
    assert clauses_of(message) == slow.clauses(message)
    assert parts_of(message) == slow.parts(message)


EVERY = "".join(chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000)


def test_each_character_is_blank_a_mark_or_part_of_a_word_as_the_expression_says():
    """All that the expression treats differently from a letter, and as many others."""
    special = set(re.findall(r"[\s.!?;。！？；,、，]", EVERY)) | {"\u3040", "\u30ff", "\u3400", "\u9fff"}
    edges = {chr(ord(character) + step) for character in special for step in (-1, 0, 1)}
    for character in sorted(edges | set(EVERY[::997])):
        message = "a b {0} c d{0}e f g {0}and{0} h i j{0}{0}k".replace("{0}", character)
        assert parts_of(message) == slow.parts(message), hex(ord(character))
        assert clauses_of(message) == slow.clauses(message), hex(ord(character))


def test_a_letter_of_a_conjunction_has_the_forms_that_the_expression_reads():
    for conjunction in ("and", "then", "also", "plus", "as well as", "but"):
        for letter in set(conjunction) - {" "}:
            for other in re.findall(letter, EVERY, re.IGNORECASE):
                message = f"go there {conjunction.replace(letter, other)} come here"
                assert len(parts_of(message)) == len(slow.parts(message)) == 2


def stored_messages() -> Iterator[str]:
    for line in (ROOT / "tests/data/demo_messages.jsonl").read_text("utf-8").splitlines():
        yield json.loads(line)["message"]
    for name in ("generated", "language", "servers"):
        with (ROOT / f"bench/quality/{name}_messages.tsv").open(encoding="utf-8", newline="") as lines:
            for row in csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
                yield from row
    for file in sorted((ROOT / "tools/train/bank").rglob("*.jsonl")):
        for line in file.read_text("utf-8").splitlines()[::10]:
            texts = json.loads(line).get("messages", ())
            yield from texts.values() if isinstance(texts, dict) else texts


def test_all_messages_of_the_repository_are_read_alike():
    count = 0
    for count, message in enumerate(stored_messages(), 1):
        check(message, has_table=count % 8 == 0, is_english=True)
    assert count > 2_000


def test_visible_rows_are_asked_for_once_and_only_for_words_that_the_vocabulary_lacks():
    asked, shown = [], []

    def visible() -> Bitset:
        asked.append(1)
        return Bitset.full(1)

    def may_show(word: str, rows: Bitset) -> bool:
        shown.append(word)
        return False

    reader = MessageReader(speller(), True, may_show)
    assert reader.read("the wether is fine", (), visible).query == "the weather is fine"
    assert (asked, shown) == ([], [])
    both = "the quokkafcation and the wombatizaton"
    assert reader.read(both, (), visible).query == both
    assert (asked, shown) == ([1], [HIDDEN, "wombatization"])


def test_an_error_of_the_question_reaches_the_caller():
    def fails(word: str, rows: Bitset) -> bool:
        raise LookupError(word)

    reader = MessageReader(speller(), True, fails)
    for message in (
        "the quokkafcation",
        "the quokkafcation " * 400,
    ):  # short, and with the interpreter released
        with pytest.raises(LookupError, match=HIDDEN):
            reader.read(message, (), lambda: Bitset.full(1))
    assert reader.read("the quokkafcation").query == f"the {HIDDEN}"


def test_a_reading_takes_vectors_for_its_texts_in_their_order():
    reading = MessageReader(None, True).read("check the weather and book a table")
    assert reading.texts == ["check the weather and book a table", "check the weather", "book a table"]
    short = MessageReader(None, True).read("yes", [(True, "book a table")])
    assert short.texts == ["yes", "book a table"]
    vectors = [np.full(3, at, np.float32) for at in range(3)]
    full = reading.with_vectors([vectors[0], None, vectors[2]])
    assert np.array_equal(full.vector, vectors[0])
    assert full.clauses[0][1] is None and np.array_equal(full.clauses[1][1], vectors[2])
    assert reading.vector is None
    with pytest.raises(ValueError, match="vectors: are 2, must be one for each text"):
        reading.with_vectors(vectors[:2])


def test_what_is_no_table_is_refused():
    with pytest.raises(TypeError, match="table: must be a MultilingualTable or None"):
        MessageReader(None, True).read("x", (), None, 7)  # type: ignore[arg-type]


def test_a_reading_that_is_made_of_its_parts_has_the_same_parts():
    read = MessageReader(None, True).read(
        "turn on the lamps, then read my mail aloud", [(True, "hello there")], None, StaticEmbedder().table
    )
    made = Reading(read.query, read.vector, read.trust, read.clauses, read.earlier)
    assert (made.text, made.query, made.trust) == (read.text, read.query, read.trust)
    assert made.texts == read.texts and len(read.clauses) == 2 and len(read.earlier) == 1
    assert made.vector.tobytes() == read.vector.tobytes()
    for mine, its in zip((*made.clauses, *made.earlier), (*read.clauses, *read.earlier), strict=True):
        assert (mine[0], mine[2]) == (its[0], its[2]) and mine[1].tobytes() == its[1].tobytes()
        assert mine[3] == np.float32(its[3])
    empty = Reading("rain", None, 1.0, (), ())
    assert empty.vector is None and empty.texts == ["rain"]


@each_row(
    "parts", [("rain",), (("rain", None, 1.0),), ((1, None, 1.0, 1.0),), (("rain", "no array", 1.0, 1.0),)]
)
def test_a_reading_refuses_what_is_no_part(parts):
    for clauses, earlier in ((parts, ()), ((), parts)):
        with pytest.raises(TypeError, match="part"):
            Reading("rain", None, 1.0, clauses, earlier)
