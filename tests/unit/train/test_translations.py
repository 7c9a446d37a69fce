"""The collector of translations: formats, languages in paths, and what counts as a pair."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path

import pytest
from tools.train.translations import READERS, Source, clean, is_pair, language_of, pairs

from tests.table import each_row

FLUENT = b"""
# comment
menu-contacts = Show contacts
    .accesskey = S
    .title =
        All your
        contacts
-brand = Mail
count = { $n ->
    [one] One
   *[other] Many
}
"""
SCRIPT = rb"""
// don't stop here
export const enTranslations = { general: { addNew: 'Add \'new\'', b: "B" }, "other-key": `C\nD` };
"""


def catalog(texts: dict[str, str]) -> bytes:
    """A catalog of gettext."""
    keys, values = ([text.encode() for text in some] for some in (texts.keys(), texts.values()))
    begin = 28 + 16 * len(texts)
    out, strings = b"", b""
    for some in (keys, values):
        for text in some:
            out += struct.pack("<II", len(text), begin + len(strings))
            strings += text + b"\0"
    head = struct.pack("<7I", 0x950412DE, 0, len(texts), 28, 28 + 8 * len(texts), 0, 0)
    return head + out + strings


def pak(texts: list[str]) -> bytes:
    """Chromium's resources."""
    packed = [text.encode() for text in texts]
    out, at = struct.pack("<IIHH", 5, 1, len(texts), 0), 12 + 6 * (len(texts) + 1)
    for key, text in enumerate([*packed, b""], 7):
        out += struct.pack("<HI", key, at)
        at += len(text)
    return out + b"".join(packed)


@each_row(
    ("suffix", "content", "texts"),
    [
        (".json", b'{"a": {"b": "x"}, "n": 1}', {"/a/b": "x"}),
        (".ftl", FLUENT, {
            "menu-contacts": "Show contacts", "menu-contacts.title": "All your contacts", "-brand": "Mail",
        }),
        (".properties", b"# c\na.b=Tag\\u00fc\nx.accesskey=T\n", {"a.b": "Tagü"}),
        (".dtd", b'<!ENTITY a.label "Show">\n<!ENTITY a.accesskey "S">', {"a.label": "Show"}),
        (".mo", catalog({"": "head", "ctx\x04Show": "Zeigen", "Day": "Tag\0Tage"}), {
            "ctx\x04Show": "Zeigen", "Day": "Tag",
        }),
        (".pak", pak(["Show", "Hide"]), {"7": "Show", "8": "Hide"}),
        (".js", SCRIPT, {
            "enTranslations/general/addNew": "Add 'new'", "enTranslations/general/b": "B",
            "enTranslations/other-key": "C D",
        }),
    ],
)  # fmt: skip
def test_each_format_gives_its_texts_by_key(suffix: str, content: bytes, texts: dict[str, str]) -> None:
    assert READERS[suffix](content) == texts


@pytest.mark.parametrize(
    ("path", "language", "shared"),
    [
        ("a/translations/zh-Hans.json", "zh", "a/translations/*.json"),
        ("locale/pt_BR/LC_MESSAGES/django.mo", "pt", "locale/*/LC_MESSAGES/django.mo"),
        ("main/ko/units.json", "ko", "main/*/units.json"),
    ],
)
def test_a_path_names_its_language(path: str, language: str, shared: str) -> None:
    found = language_of(path)
    assert found is not None and (found[0], found[2]) == (language, shared)


def test_a_path_without_a_known_language_has_none() -> None:
    assert language_of("locale/sv/LC_MESSAGES/django.mo") is None


def test_placeholders_tags_and_marks_of_shortcuts_are_taken_out() -> None:
    assert clean("ctx\x04Delete <b>{count, plural, other {%(name)s}}</b> &File…") == "Delete File…"


def test_a_text_that_was_not_translated_is_no_pair() -> None:
    assert is_pair("Show contacts", "显示联系人")
    assert not is_pair("Bluetooth", "bluetooth")
    assert not is_pair("42", "четыре")
    assert not is_pair("Four", "4")


def test_a_package_gives_pairs_of_texts_with_the_same_key(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "some_app-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("app/i18n/en.json", json.dumps({"show": "Show contacts", "only": "Only English"}))
        archive.writestr("app/i18n/zh.json", json.dumps({"show": "旧"}))
        archive.writestr("app/i18n/zh-Hans.json", json.dumps({"show": "显示联系人"}))
        archive.writestr("app/i18n/sv.json", json.dumps({"show": "Visa kontakter"}))
        archive.writestr("app/locale/de/a.mo", catalog({"Show": "Zeigen"}))
    source = Source("App", "pypi", ("some-app",), "MIT", r"\.(json|mo)$")
    assert sorted(pairs(source, tmp_path)) == [
        ("de", "Show", "Zeigen"),
        ("zh", "Show contacts", "显示联系人"),
    ]
