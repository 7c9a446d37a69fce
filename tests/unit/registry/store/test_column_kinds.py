"""What SQLite's columns hold is of their kind, or is found."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
import sqlalchemy as sa

from toolroll.registry.store.column_kinds import UTF8, are_readable, is_utf8
from toolroll.registry.store.tables import experiments, learning_state, reporter_counts, selection_events

EVENT = selection_events.c
AT = "2026-02-28 10:00:00.000001"


def is_readable(column: sa.Column, value: object) -> bool:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.create_function(UTF8, 1, is_utf8, deterministic=True)
        query = (
            f'SELECT {are_readable((column,), "sqlite")} FROM (SELECT ? AS "{column.name}") AS {column.table}'
        )
        ((found,),) = connection.execute(query, (value,)).fetchall()
    assert found in (0, 1)  # never NULL, of which WHERE NOT is not true
    return bool(found)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (EVENT.at, AT),
        (EVENT.at, AT[:19]),
        (EVENT.recorded_at, None),
        (EVENT.org, ""),
        (EVENT.org, "é\n"),
        (EVENT.seed, -(2**63)),
        (EVENT.latency_us, 0.5),
        (EVENT.confidence, None),
        (EVENT.share, 1.0),
        (EVENT.share, 1e-12),
        (EVENT.selected, "[]"),
        (EVENT.selected, '["a", "é"]'),
        (EVENT.called, '{"a": "failed"}'),
        (EVENT.called, None),
        (EVENT.details, b""),
        (experiments.c.variants, '{"a": 0.5}'),
        (experiments.c.active, 0),
        (reporter_counts.c.day, "2026-02-28"),
    ],
    ids=str,
)
def test_what_a_column_may_hold_is_readable(column, value):
    assert is_readable(column, value)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *((column, None) for column in (EVENT.at, EVENT.org, EVENT.seed, EVENT.share, EVENT.selected)),
        *((EVENT.at, AT.replace("28", day)) for day in ("29", "31", "00")),
        *(
            (EVENT.at, value)
            for value in (AT.replace("10:", "24:"), f"0000{AT[4:]}", AT[:10], f"{AT}Z", 1, "now")
        ),
        *((EVENT.recorded_at, value) for value in ("", "x", 0.5)),
        *((EVENT.org, value) for value in (1, b"acme", 0.5)),
        *((EVENT.seed, value) for value in ("1", 1.5, b"1")),
        *((EVENT.latency_us, value) for value in ("1.0", float("inf"), -float("inf"), b"")),
        *((EVENT.share, value) for value in (0.0, -0.5, 1.5)),
        *(
            (EVENT.selected, value)
            for value in ("{", "{}", "5", "null", "[1]", '["a", null]', '[["a"]]', b"[]")
        ),
        *((EVENT.called, value) for value in ("{", "[]", "null", '{"a": 1}', '"a"')),
        *((EVENT.details, value) for value in ("text", 1)),
        *((experiments.c.variants, value) for value in ("[]", "5", "{")),
        *((experiments.c.active, value) for value in (2, "1")),
        *((reporter_counts.c.day, value) for value in ("2026-02-29", "28", AT)),
        (learning_state.c.seq, "7"),
    ],
    ids=str,
)
def test_what_a_column_must_not_hold_is_found(column, value):
    assert not is_readable(column, value)


@pytest.mark.parametrize(
    ("page", "checks_text", "expected"), [("c3", True, 0), ("c3a9", True, 1), ("c3", False, 1)]
)
def test_bytes_that_are_no_text_are_found_if_asked_for(page, checks_text, expected):
    columns = (EVENT.org, EVENT.page, EVENT.tier)
    values = f"SELECT 'a' AS org, CAST(x'{page}' AS TEXT) AS page, 'b' AS tier"
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.create_function(UTF8, 1, is_utf8, deterministic=True)
        query = f"SELECT {are_readable(columns, 'sqlite', checks_text)} FROM ({values}) AS selection_events"
        assert connection.execute(query).fetchone() == (expected,)


def test_two_texts_with_a_half_of_a_letter_each_are_no_text_together():
    values = "SELECT CAST(x'c3' AS TEXT) AS org, CAST(x'a9' AS TEXT) AS page"
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.create_function(UTF8, 1, is_utf8, deterministic=True)
        condition = are_readable((EVENT.org, EVENT.page), "sqlite")
        query = f"SELECT {condition} FROM ({values}) AS selection_events"
        assert connection.execute(query).fetchone() == (0,)
