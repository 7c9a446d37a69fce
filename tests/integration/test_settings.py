"""Settings: that there is a value is kept, the value is nowhere."""

from __future__ import annotations

import json
import logging
import sqlite3
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.table import each_row
from toolroll import Context
from toolroll.model.context import has_value
from toolroll.model.errors import InvalidInput, NotFound, StoreUnavailable, ToolrollError
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

from .governance import Governed

CANARY = "sk-canary-7f3a9c51d2e8"
VALUES: list[Any] = ["x", CANARY, 0, 0.0, True, b"x", ["x"], {"a": 1}, object()]
NO_VALUES: list[Any] = [None, False, "", "   ", "\n\t", [], (), {}, set(), b""]


@pytest.fixture
def governed(database: Database) -> Governed:
    return Governed(database)


@pytest.mark.parametrize(("values", "are_values"), [(VALUES, True), (NO_VALUES, False)])
def test_the_registry_and_a_context_agree_on_what_a_value_is(values: list[Any], are_values: bool) -> None:
    for value in values:
        assert has_value(value) is are_values
        assert Context(settings={"key": value}).has_setting("key") is are_values


def test_a_setting_is_set_and_unset(governed: Governed) -> None:
    for value in VALUES:
        assert governed.settings.set("KEY", value).is_set
    for value in NO_VALUES:
        assert not governed.settings.set("KEY", value).is_set
    governed.settings.set("KEY", "x")
    revision = governed.database.revision()
    assert not governed.settings.unset("KEY").is_set
    assert not governed.settings.unset("KEY").is_set
    assert governed.database.revision() == revision + 1
    with pytest.raises(NotFound, match="did you mean 'KEY'"):
        governed.settings.unset("KEYS")


def test_an_organisation_has_its_own_and_the_platforms(governed: Governed) -> None:
    governed.settings.set("SHARED", "x")
    governed.settings.set("OWN", "x", org="acme")
    governed.settings.set("GONE", None, org="acme")
    assert governed.settings.present() == {"SHARED"}
    assert governed.settings.present("acme") == {"SHARED", "OWN"}
    assert [(it.org, it.key, it.is_set) for it in governed.settings.list()] == [
        ("", "SHARED", True),
        ("acme", "GONE", False),
        ("acme", "OWN", True),
    ]
    assert [it.key for it in governed.settings.list("")] == ["SHARED"]


def test_a_new_value_for_an_old_one_is_noted(governed: Governed) -> None:
    first = governed.settings.set("KEY", "old")
    second = Governed(governed.database, "bob").settings.set("KEY", "new", reason="rotated")
    assert second.updated_at >= first.updated_at and second.updated_by == "bob"
    assert governed.settings.list() == (second,)
    assert governed.audit.list(subject="KEY")[0].reason == "rotated"
    with governed.database.reading() as connection:
        assert connection.execute(sa.select(tables.settings.c.revision)).scalars().all() == [2]


@each_row("key", ["", "a\0", "\ud800", "x" * 129, 7, None])
def test_a_key_is_a_name(governed: Governed, key: Any) -> None:
    with pytest.raises(InvalidInput):
        governed.settings.set(key, "x")
    assert governed.database.revision() == 0


def everything(connection: sa.Connection) -> Iterator[str]:
    for table in tables.metadata.sorted_tables:
        yield from (repr(row) for row in connection.execute(sa.select(table)))


def test_a_value_is_nowhere(
    database_url: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "sqlalchemy.engine")  # statements with their parameters
    database = Database.open(database_url, create=False, migrate=False)
    governed = Governed(database)
    seen: list[str] = []
    for value in (CANARY, [CANARY], {"token": CANARY}, {CANARY}):
        seen.append(repr(governed.settings.set("KEY", value, org="acme", reason="rotated")))
    seen += (repr(governed.settings), repr(database), repr(governed.settings.list()))
    seen += (json.dumps(setting.to_dict()) for setting in governed.settings.list())
    seen += (f"{change} {change!r} {json.dumps(change.to_dict())}" for change in governed.audit.list())
    with database.reading() as connection:
        seen += everything(connection)
    if database.dialect == "sqlite":
        path = Path(database_url.removeprefix("sqlite:///"))
        files = list(path.parent.glob(f"{path.name}*"))
        assert any(file.name.endswith("-wal") for file in files)
        seen += (file.read_bytes().decode("latin-1") for file in files)
    database.close()
    assert "INSERT INTO settings" in caplog.text
    assert CANARY not in caplog.text
    assert CANARY not in "".join(seen)
    assert CANARY not in "".join(capfd.readouterr())


def shown(error: BaseException) -> str:
    """An error as logs show it that print the variables of all frames, but for the test's own."""
    text = "".join(traceback.format_exception(error))
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_globals["__name__"].startswith("toolroll."):
            text += repr(frame.f_locals)
    return text


def test_a_value_is_in_no_error(governed: Governed, tmp_path: Path) -> None:
    for wrong in ({"key": "x" * 129}, {"key": "a\0"}, {"org": "a\0"}, {"reason": "x" * 9_999}):
        with pytest.raises(ToolrollError) as caught:
            governed.settings.set(**{"key": "KEY", "value": CANARY, **wrong})  # type: ignore[arg-type]
        assert CANARY not in shown(caught.value)


def test_a_value_is_in_no_error_of_a_broken_store(tmp_path: Path) -> None:
    database = Database.open(f"sqlite:///{tmp_path / 'it.db'}", create=True, migrate=True)
    database.close()
    with sqlite3.connect(tmp_path / "it.db") as other:
        other.execute("DROP TABLE settings")
    other.close()
    with pytest.raises(StoreUnavailable) as caught:
        Governed(database).settings.set("KEY", CANARY)
    assert CANARY not in shown(caught.value)
    database.close()
