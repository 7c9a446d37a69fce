"""What is printed: escaped, aligned, on one line, without passwords."""

from __future__ import annotations

import json
from datetime import datetime, timezone

from tests.table import each_row
from toolroll.cli import output


def test_what_is_no_password_stays_readable():
    text = "postgresql://me@host:5432/tools: refuses this user (me@host)"
    assert output.redacted(text) == text


@each_row(
    ("text", "shown"),
    [
        ("café 날씨 🙂", "café 날씨 🙂"),
        ("two\nlines", "two\nlines"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("a\u202eb\u200bc", "a\\u202eb\\u200bc"),
        ("tab\tand\rreturn", "tab\\tand\\rreturn"),
        ("half \ud800", "half \\ud800"),
    ],
)
def test_what_a_terminal_would_act_on_is_escaped(text, shown):
    assert output.printable(text) == shown


def test_a_table_keeps_its_columns_whatever_is_in_them(capsys):
    output.print_table(("NAME", "TEXT"), [("날씨", "one"), ("a\nb\x1b", "two"), ("plain", "")])
    assert capsys.readouterr().out.splitlines() == [
        "NAME     TEXT",
        "날씨     one",
        "a b\\x1b  two",
        "plain",
    ]


def test_a_list_is_a_table_of_fields_or_one_json_object(capsys):
    items = [
        {"name": "a", "tags": ["x", "y"], "on": True, "when": {"role": "z"}, "at": "2026-03-01T12:00:00.5Z"},
        {"name": "b", "tags": [], "on": False, "when": {}, "at": datetime(2026, 3, 1, tzinfo=timezone.utc)},
    ]
    output.print_list(False, "items", items, "NAME TAGS ON IS_LONG=long AT WHEN", long=lambda item: len(item))
    assert capsys.readouterr().out.splitlines() == [
        "NAME  TAGS  ON   IS LONG  AT                   WHEN",
        'a     x, y  yes  5        2026-03-01 12:00:00  {"role": "z"}',
        "b     -     no   5        2026-03-01 00:00:00  {}",
    ]
    output.print_list(True, "items", items[:1], "NAME", {"of": 7})
    assert json.loads(capsys.readouterr().out) == {"of": 7, "items": items[:1]}


def test_progress_is_one_line_and_gone_at_the_end(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with output.Progress() as progress:
        count = progress.counter("tools")
        count(1, 2)
        count(1, 2)
        count(2, 2)
    assert capsys.readouterr().err == "\r\033[Ktools 1/2\r\033[Ktools 2/2\r\033[K"


def test_progress_off_a_terminal_prints_nothing(capsys):
    with output.Progress() as progress:
        progress("half")
        assert progress.counter("tools") is None
    assert capsys.readouterr() == ("", "")


def test_progress_is_shown_no_more_often_than_asked_for(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with output.Progress(between_s=60) as progress:
        for step in range(10):
            progress(f"step {step}")
    assert capsys.readouterr().err == "\r\033[Kstep 0\r\033[K"
