"""Marks of a text, beside an expression of the standard library for each kind."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolroll._core import Automaton, find_meanings

NO_NAMES = Automaton([], [])

# Each expression begins with the character that shows the mark, and looks back from there.
ORACLE = {
    "mail address": r"@(?<=[\w+-]@)[A-Za-z0-9-]{1,63}\.[A-Za-z]{2}",
    "issue number": r"#(?<![\w&#/]#)\d{1,6}(?!\w)",
    "channel": r"#(?<![\w&#/]#)[a-z][\w-]",
    "pull request": r"R(?<=PR)(?<!\wPR) ?#?\d{1,6}(?!\w)",
    "merge request": r"!(?<![\w!]!)\d{1,6}(?!\w)|R(?<=MR)(?<!\wMR) ?!?\d{1,6}(?!\w)",
    "ticker": r"\$(?<![\w$]\$)[A-Z]{1,5}(?!\w)",
    "path": r"/(?<=~/)(?<![\w~]~/)|/(?<![\w/:.<*)~]/)[\w.-]{1,63}/|\\(?<=[A-Za-z]:\\)(?<!\w[A-Za-z]:\\)\w",
    "bucket": r":(?<=s3:|gs:)(?<!\ws3:)(?<!\wgs:)//",
    "time": r":(?<=\d:)[0-5]\d(?!\w)|[mM](?:(?<=\d[apAP][mM])|(?<=\d [apAP][mM]))(?!\w)",
    "vulnerability": r"-(?<=CVE-)(?<!\wCVE-)\d{4}-\d{4,7}(?!\w)",
    "SQL": r"T(?<=SELECT)(?<!\wSELECT)[\t-\r ][\w*\"`(]",
    "coordinates": r"\.(?<=\d\.)\d{3,10}°?[NSns]?[\t-\r ]?[,;][\t-\r ]?[+-]?\d{1,3}\.\d{3}",
    "DOI": r"\.(?<=10\.)(?<!\w10\.)\d{4,9}/[^\0\t-\r ]",
    "arXiv number": r"\.(?<=\d\d[01]\d\.)(?<!\w\d\d\d\d\.)(?:\d{4,5}(?!\w)|\d{4,5}v\d{1,2}(?!\w))",
    "temperature": r"°(?:(?<=\d°)|(?<=\d °))",
    "commit": r"(?<![\w.-])(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}(?![\w-])",
}
# Those that look back over a number of characters that is not fixed.
_CELLS = re.compile(r"(?<!\w)[A-Z]{1,2}\d{1,4}:[A-Z]{1,2}\d", re.ASCII)
_TICKET = re.compile(r"(?<![\w-])([A-Z][A-Z0-9]{1,9})-\d{1,6}(?![\w-]|\.\d)", re.ASCII)
_ISO_DATE = re.compile(r"(?<!\w)\d{4}-\d\d-\d\d(?!\w)", re.ASCII)
_DATE = re.compile(r"(?<=\d)/\d{1,2}/\d{2,4}(?!\w)", re.ASCII)
_PHONE = re.compile(r"(?<!\w)\+(?=\d)([\d ().-]{1,24})", re.ASCII)
_ENDING = re.compile(r"(?<=[^\t-\r .])\.[A-Za-z0-9]{2,8}(?!\w)", re.ASCII)
_STANDARDS = {"UTF", "UTC", "GMT", "ISO", "SHA", "GPT", "RFC", "COVID", "CVE"}


def oracle(text: str) -> tuple[set[str], list[str]]:
    """The kinds of marks, and the endings of files."""
    kinds = {kind for kind, source in ORACLE.items() if re.search(source, text, re.ASCII)}
    if _CELLS.search(text):
        kinds.add("cells")
    if any(match[1] not in _STANDARDS for match in _TICKET.finditer(text)):
        kinds.add("ticket key")
    if _ISO_DATE.search(text) or _DATE.search(text):
        kinds.add("date")
    starts = (at for at, c in enumerate(text) if c == "+")
    runs = [match[1] for at in starts if (match := _PHONE.match(text, at))]
    if any(8 <= sum(map(str.isdigit, run)) <= 15 for run in runs):
        kinds.add("phone number")
    return kinds, _ENDING.findall(text)[:16]


def find_marks(text: str) -> list[str | int]:
    return list(find_meanings(text, NO_NAMES))


PIECES = (
    *"abfmprsvxzAPRMSTC01245679.,;:!?#$@/\\~+-_ '\"()<>*&°é가\n\t\0",
    *("PR", "MR", "SELECT ", "CVE-", "UTF-", "PAY-", "s3://", "gs://", "10.", "2310.", "2026-05-01", "B2:C3"),
    *(
        " pm",
        "3pm",
        ".xlsx",
        "x@ab.co",
        "48.858, 2.29",
        "+44 20 7946 0958",
        "9fceb02d",
        "deadbeef",
        "1/5/2026",
    ),
)


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join) | st.text(max_size=60))
@example("PAY-310.")
@example("PAY-310.5")
@example("1:00 12:599")
def test_the_marks_are_those_that_an_expression_for_each_kind_finds(text):
    found = find_marks(text)
    kinds = {name for name in found if not name.startswith(".")}
    assert (kinds, [name for name in found if name.startswith(".")]) == oracle(text)


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("put costs.xlsx next to PAY-310", [".xlsx", "ticket key"]),
        ("보고서.xlsx을 열어줘", [".xlsx"]),
        ("mail ann.lee@example.com at 3 pm", [".lee", "mail address", ".com", "time"]),
        ("PR 56, #12 and !34", ["pull request", "issue number", "merge request"]),
        ("is $AAPL over $200 on 2026-05-01?", ["ticker", "date"]),
        ("read /etc/ssh/sshd and C:\\temp, not and/or", ["path"]),
        ("what is at 48.8584, 2.2945", [".8584", "coordinates", ".2945"]),
        ("cite 10.1000/182 and 2310.06770v2", [".1000", "DOI", ".06770v2", "arXiv number"]),
        ("sum A1:C10 of s3://bucket", ["cells", "bucket"]),
        ("what changed in 9fceb02d", ["commit"]),
        ("the decade 1234567 was effaced", []),
        ("UTF-8, COVID-19, e.g. this. And that", []),
        ("call +44 20 7946 0958 when it is 21 °C", ["phone number", "temperature"]),
        ("SELECT name FROM people", ["SQL"]),
        ("is CVE-2026-12345 fixed? tell #security", ["vulnerability", "channel"]),
        ("", []),
    ],
)
def test_examples_of_each_kind(text, marks):
    assert sorted(find_marks(text)) == sorted(marks)


def test_a_kind_is_named_once_and_endings_are_bounded():
    assert find_marks("#1 #2 #3") == ["issue number"]
    assert len(find_marks("a.py " * 1_000)) == 16


@pytest.mark.parametrize(
    "unit", ["a", "-", "1:", "+1 ", "a@", "0123456a", "/a", ".", "1.1234 ", "x.ab", "A1:", "A-", "#1a", "\0"]
)
def test_a_text_of_a_megabyte_that_repeats_the_start_of_a_mark_takes_linear_time(unit):
    text = unit * (1_000_000 // len(unit)) + " SELECT 1"
    start = time.process_time()
    found = find_marks(text)
    assert time.process_time() - start < 1.0  # 4 ms; with the square of the length it would be minutes
    assert found[-1] == "SQL"
