"""`toolroll events sessions` as typed, on both databases."""

from __future__ import annotations

import json
import re

import pytest

from tests.integration.commands import Typed
from tests.table import each_row
from toolroll.cli import main
from toolroll.registry.sessions.keys import key_of
from toolroll.registry.sessions.store import SessionStore

RECORD = {"turn": 4, "loaded": {"weather_tool": 2}, "sent": ["weather_tool", "reminder_tool"], "empty": []}


def write(store, org, session, record):
    assert store.write(key_of(org, session), record.get("turn", 0), json.dumps(record), 0)


@pytest.fixture
def store(database):
    return SessionStore(database)


@pytest.fixture
def typed(database_url, capsys):
    return Typed(database_url, capsys)


@pytest.fixture
def held(store):
    """Sessions of two organisations and of none, in this order."""
    for org, session in (
        ("acme", "conversation-42"),
        ("acme", "two words"),
        ("umbrella", "u1"),
        ("", "alone"),
    ):
        write(store, org, session, RECORD)
    return store


def test_sessions_are_listed_the_one_used_last_first(typed, held):
    listed = typed.json("events", "sessions", "list")["sessions"]
    assert [(one["org"], one["session"]) for one in listed] == [
        ("", "alone"), ("umbrella", "u1"), ("acme", "two words"), ("acme", "conversation-42"),
    ]  # fmt: skip
    assert set(listed[0]) == {"org", "session", "turn", "version", "created_at", "updated_at", "expires_at"}
    assert (
        listed[0]["turn"] == 4
        and listed[0]["created_at"] == listed[0]["updated_at"] < listed[0]["expires_at"]
    )
    assert [
        one["session"] for one in typed.json("events", "sessions", "list", "--limit", "1")["sessions"]
    ] == ["alone"]
    assert len(typed.json("events", "sessions", "list", "--org", "acme")["sessions"]) == 2
    assert [one["session"] for one in typed.json("events", "sessions", "list", "--org", "")["sessions"]] == [
        "alone"
    ]
    assert typed.json("events", "sessions", "list", "--until", "1d")["sessions"] == []
    assert len(typed.json("events", "sessions", "list", "--until", listed[1]["updated_at"])["sessions"]) == 2
    lines = typed("events", "sessions", "list").out.splitlines()
    assert re.fullmatch(r"USED +ORG +TURN +EXPIRES +SESSION", lines[0])
    assert re.fullmatch(r"[-\d]+ [:\d]+ +acme +4 +[-\d]+ [:\d]+ +two words", lines[3])


def test_what_a_session_holds_is_printed(typed, held):
    shown = typed.json("events", "sessions", "show", "conversation-42", "--org", "acme")
    assert shown["record"] == RECORD and shown["version"] > 0
    text = typed("events", "sessions", "show", "conversation-42", "--org", "acme").out
    assert re.search(r"^session +conversation-42$", text, re.MULTILINE)
    assert re.search(r'^loaded +\{"weather_tool": 2\}$', text, re.MULTILINE)
    assert typed.json("events", "sessions", "show", "alone")["org"] == ""


@pytest.mark.parametrize("command", ["show", "forget"])
def test_a_session_of_another_organisation_is_not_there(typed, held, command):
    for words in (["u1", "--org", "acme"], ["conversation-42"], ["nope", "--org", "acme"]):
        done = typed("events", "sessions", command, *words, status=1)
        assert "is not there, or has expired" in done.err and "toolroll events sessions list" in done.err
    assert "of no organisation" in typed("events", "sessions", command, "nope", status=1).err
    assert len(held.list()) == 4


def test_a_session_is_forgotten(typed, held):
    assert typed.json("events", "sessions", "forget", "conversation-42", "--org", "acme") == {
        "session": "conversation-42", "org": "acme",
    }  # fmt: skip
    assert typed("events", "sessions", "forget", "alone").out == "session alone was forgotten\n"
    assert [one.session for one in held.list()] == ["u1", "two words"]
    typed("events", "sessions", "forget", "alone", status=1)


def test_expired_and_old_sessions_are_cleared_away(typed, held, database):
    write(SessionStore(database, lifetime_s=0.001), "acme", "brief", {})
    assert typed.json("events", "sessions", "prune", "--org", "umbrella") == {"sessions": 0}
    assert typed.json("events", "sessions", "prune") == {"sessions": 1}
    assert typed.json("events", "sessions", "prune", "--older-than", "7d") == {"sessions": 0}
    assert typed.json("events", "sessions", "prune", "--older-than", "0m", "--org", "acme") == {"sessions": 2}
    assert typed("events", "sessions", "prune", "--older-than", "0m").out == "2 sessions were deleted\n"


def test_ids_that_a_terminal_would_act_on_are_printed_escaped(typed, store):
    write(store, "acme", "red \x1b[31m\nnext", {"turn": 1, "loaded": "\x1b[2J"})
    for words in (["list"], ["show", "red \x1b[31m\nnext", "--org", "acme"]):
        text = typed("events", "sessions", *words).out
        assert "\x1b" not in text and r"\x1b[31m" in text
    assert "\x1b" not in typed("events", "sessions", "forget", "red \x1b[31m\nnext", "--org", "acme").out


@pytest.mark.parametrize(
    "words", [["show", ""], ["show", "x", "--org", "\ud800"], ["list", "--org", "\ud800"]], ids=repr
)
def test_what_cannot_be_an_id_is_refused(typed, held, words):
    assert typed("events", "sessions", *words, status=1).err.startswith(
        f"toolroll events sessions {words[0]}: "
    )


@each_row(
    "words",
    [
        ["events", "sessions"],
        ["events", "sessions", "show"],
        ["events", "sessions", "list", "--limit", "0"],
        ["events", "sessions", "list", "--until", "soon"],
        ["events", "sessions", "prune", "--older-than", "7"],
    ],
)
def test_wrong_use_is_said_before_anything_is_opened(words, capsys):
    assert main([*words, *(["--catalog", "sqlite:///none.db"] if len(words) > 2 else [])]) == 2
    capsys.readouterr()
