"""Flags: what people should look at before they trust a tool."""

from __future__ import annotations

import sys
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from toolroll import Tool
from toolroll.registry.editing.flags import Flag, Lookalikes, flags_of, skeletons

# One of each sort of what shows nothing, by the name under which it was used to deceive.
HIDDEN = {
    "NUL-like control": "\x01",
    "escape sequence": "\x1b",
    "carriage return alone": "\r",
    "delete": "\x7f",
    "C1 control": "\x9b",
    "soft hyphen": "\xad",
    "combining grapheme joiner": "\u034f",
    "Arabic letter mark": "\u061c",
    "Hangul filler": "\u3164",
    "Khmer inherent vowel": "\u17b4",
    "Mongolian variation selector": "\u180b",
    "zero width space": "\u200b",
    "right-to-left override": "\u202e",
    "isolate": "\u2066",
    "word joiner": "\u2060",
    "blank Braille": "\u2800",
    "variation selector": "\ufe0f",
    "byte order mark": "\ufeff",
    "half width filler": "\uffa0",
    "annotation": "\ufff9",
    "tag": "\U000e0041",
    "variation selector 17": "\U000e0100",
}


def codes(tool: Tool, *others: str) -> list[str]:
    return [flag.code for flag in flags_of(tool, Lookalikes(others))]


@each_row("character", HIDDEN.values())
def test_a_character_that_no_reader_sees_is_flagged_with_its_place(character: str) -> None:
    flags = flags_of(Tool("mail", f"Sends it{character} to all"))
    assert [flag.code for flag in flags] == ["hidden"]
    assert f"U+{ord(character):04X} in description at 8" in flags[0].message


@each_row(
    ("tool", "place"),
    [
        (Tool("ma\u200bil"), "name at 2"),
        (Tool("mail", display_name="\u200bMail"), "display_name at 0"),
        (Tool("mail", summary="a\u200b"), "summary at 1"),
        (Tool("mail", when_to_use="a\u200b"), "when_to_use at 1"),
        (Tool("mail", limitations="a\u200b"), "limitations at 1"),
        (Tool("mail", tags=("x", "\u200b")), "tags[1] at 0"),
        (Tool("mail", examples=("\u200b",)), "examples[0] at 0"),
        (
            Tool("mail", parameters={"properties": {"to": {"description": "who\u200b"}}}),
            "parameters.properties.to.description at 3",
        ),
        (Tool("mail", parameters={"enum": ["a", "b\u200b"]}), "parameters.enum[1] at 1"),
        (Tool("mail", parameters={"properties": {"t\u200bo": {}}}), "a key of parameters.properties at 1"),
        (Tool("mail", returns={"title": "\u200b"}), "returns.title at 0"),
    ],
)
def test_every_text_that_a_model_or_a_person_reads_is_looked_at(tool: Tool, place: str) -> None:
    (flag,) = flags_of(tool)
    assert flag.message.endswith(f"U+200B in {place}")


def test_a_message_shows_no_hidden_character_itself() -> None:
    flags = flags_of(Tool("p\u0430ge\u202e", parameters={"a\u200b": "b\u200b"}), Lookalikes(["page"]))
    assert [flag.code for flag in flags] == ["hidden", "mixed_script", "confusable"]
    assert all(flag.message.isprintable() for flag in flags)


def test_of_many_places_three_are_named_and_the_rest_counted() -> None:
    (flag,) = flags_of(Tool("mail", "\u200b" * 50_000))
    assert flag.message.endswith("U+200B in description at 2 and 49997 more")


@each_row(
    "text",
    [
        "Two lines\nand\ta tab\r\nas Windows ends them",
        "⚠️ careful: ☎️, ❤️ and 1️⃣",
        "A family 👨‍👩‍👧, a pirate 🏴‍☠️, a woman 👩🏽‍💻 at work",
        "می‌خواهم نامه بفرستم",  # Persian parts a prefix with a joiner's opposite
        "क्‍ष and ക്‍ഷ",
        "이메일을 보냅니다. 送信します。Ünïcödé, Tiếng Việt, עִבְרִית",
        "a\u0323\u0302\u0301 at most four marks",
        "a C:\\users\\bob path, a \\r in letters",
    ],
)
def test_what_honest_text_needs_is_not_flagged(text: str) -> None:
    assert flags_of(Tool("mail", text)) == ()


def test_an_emoji_hides_no_second_selector() -> None:
    assert codes(Tool("mail", "⚠\ufe0f\ufe0f")) == ["hidden"]


def test_a_name_may_hold_no_invisible_character_at_all() -> None:
    assert codes(Tool("warn_⚠\ufe0f")) == ["hidden"]
    assert codes(Tool("two\nlines")) == ["hidden"]


def test_more_than_four_marks_on_a_letter_are_flagged() -> None:
    (flag,) = flags_of(Tool("mail", "zalgo: z" + "\u0338" * 5))
    assert flag == Flag("marks", "more than 4 marks on one letter: description at 7")


def test_no_character_of_general_category_control_or_format_passes_but_those_that_are_seen() -> None:
    seen = {0x9, 0xA, *range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
    seen |= set(range(0x13430, 0x13440))  # they place hieroglyphs
    missed = [
        hex(c)
        for c in range(sys.maxunicode + 1)
        if unicodedata.category(chr(c)) in ("Cc", "Cf")
        and c not in seen
        and not flags_of(Tool("mail", f"a{chr(c)}b"))
        and not 0x1BCA0 <= c <= 0x1BCA3
    ]
    assert missed == []


@each_row("name", ["pаypal_send", "send_ｍaіl", "τοken", "раge"])
def test_a_word_of_two_alphabets_in_a_name_is_flagged(name: str) -> None:
    assert "mixed_script" in codes(Tool(name))


@each_row("name", ["отправить_mail", "이메일send", "メールsend漢字", "naïve_café", "2024_отчёт", "送信"])
def test_words_of_several_languages_side_by_side_are_not_mixed(name: str) -> None:
    assert codes(Tool(name)) == []


@each_row(
    ("name", "other"),
    [
        ("list_l", "list_1"),
        ("Iist", "list"),
        ("send_emaiI", "send_email"),
        ("send-email", "send_email"),
        ("sendEmail", "send_email"),
        ("сору", "copy"),  # all of it Cyrillic, so that no word is mixed
        ("corn", "com"),
        ("tooIO", "tool0"),
        ("cafe", "café"),
        ("ma\u200bil", "mail"),
        ("ｍａｉｌ", "mail"),
        ("𝐦𝐚𝐢𝐥", "mail"),
    ],
)
def test_a_name_that_looks_like_another_is_flagged(name: str, other: str) -> None:
    (message,) = (
        flag.message for flag in flags_of(Tool(name), Lookalikes([other])) if flag.code == "confusable"
    )
    assert "looks like" in message
    assert "confusable" in codes(Tool(other), name)


@each_row(
    ("name", "other"),
    [
        ("list", "lists"),
        ("a1_10", "a11_0"),
        ("v1.1", "v11"),
        ("की", "का"),
        ("이메일", "이메인"),
        ("get", "set"),
    ],
)
def test_names_that_readers_tell_apart_are_not_flagged(name: str, other: str) -> None:
    assert codes(Tool(name), other) == []


def test_a_name_is_not_confused_with_itself() -> None:
    assert codes(Tool("mail"), "mail") == []


@given(st.text(min_size=1, max_size=12), st.text(min_size=1, max_size=12))
def test_looking_alike_goes_both_ways(one: str, other: str) -> None:
    there, back = Lookalikes([one]).of(other), Lookalikes([other]).of(one)
    assert (there is None) == (back is None)


@given(st.text(alphabet="lI1|oO0mrn_-aа", min_size=1, max_size=8))
def test_case_and_separators_change_no_skeleton(name: str) -> None:
    assert set(skeletons(name)) & set(skeletons(f"_{name}-"))
    assert set(skeletons(name)) & set(skeletons(name.lower()))


@given(
    st.text(), st.text(min_size=1), st.recursive(st.text(), lambda inner: st.dictionaries(st.text(), inner))
)
def test_no_text_breaks_it(description: str, name: str, schema: object) -> None:
    flags = flags_of(Tool(name, description, {"x": schema}), Lookalikes(["mail"]))
    assert flags == tuple(Flag.from_dict(flag.to_dict()) for flag in flags)
    assert len({flag.code for flag in flags}) == len(flags)


def test_a_schema_that_holds_itself_ends() -> None:
    schema: dict[str, object] = {"title": "\u200b"}
    schema["again"] = schema
    assert codes(Tool("mail", parameters=schema)) == ["hidden"]


@each_row("name", ["log1n_user", "IOGIN_USER", "loginuser", "iogin_user", "l0gin_user"])
def test_digits_and_letters_that_look_alike_are_told(name: str) -> None:
    assert codes(Tool(name), "login_user") == ["confusable"]
    assert codes(Tool(name), "login_uses") == []
