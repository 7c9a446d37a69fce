"""How the texts of options and arguments are read."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import click
import pytest

from tests.table import each_row
from toolroll.cli import main
from toolroll.cli.parameter_types import (
    assignment,
    condition,
    duration,
    field,
    names,
    sizes,
    timestamp,
    variant,
)


@each_row(
    ("text", "value"),
    [
        ("damping=off", False),
        ("spelling=on", True),
        ("toolkit_threshold=none", None),
        ("lexical_saturation=inf", float("inf")),
        ("k=7", 7),
        ("lexical=0.5", 0.5),
        ("routes=narrow", "narrow"),
    ],
)
def test_a_parameter_is_typed_as_the_documents_write_it(text, value):
    assert assignment(text) == (text.partition("=")[0], value)


@each_row(
    ("text", "value"),
    [
        ("summary=Sends mail", ("summary", "Sends mail")),
        ("description=7", ("description", "7")),
        ("description=", ("description", "")),
        ("when_to_use=a=b", ("when_to_use", "a=b")),
        ("status=deprecated", ("status", "deprecated")),
        ("pinned=true", ("pinned", True)),
        ("pin_weight=-3", ("pin_weight", -3)),
        ('examples=["one", "two"]', ("examples", ["one", "two"])),
        ("parameters=null", ("parameters", None)),
    ],
)
def test_a_field_is_text_or_json_by_what_it_holds(text, value):
    assert field(text) == value


@each_row(
    ("read", "text"),
    [
        (condition, '{"org": "x", "org": "y"}'),
        (condition, '{"any": [{"tier": {"lt": "a", "lt": "b"}}]}'),
        (field, 'parameters={"type": "object", "type": "string"}'),
        (assignment, 'x={"a": 1, "a": 2}'),
    ],
)
def test_a_key_given_twice_in_json_is_refused(read, text):
    with pytest.raises(click.BadParameter, match="is given twice in one object"):
        read(text)


@each_row(
    ("text", "seconds"), [("30m", 1_800), ("12h", 43_200), ("7d", 604_800), ("2w", 1_209_600), ("0d", 0)]
)
def test_a_span_is_a_number_and_a_unit(text, seconds):
    assert duration(text).total_seconds() == seconds
    near = timestamp(text) - (datetime.now(timezone.utc) - timedelta(seconds=seconds))
    assert abs(near) < timedelta(seconds=5)


def test_an_instant_is_in_utc_unless_it_says_otherwise():
    assert timestamp("2026-03-01") == datetime(2026, 3, 1, tzinfo=timezone.utc)
    assert timestamp("2026-03-01T12:00Z") == datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
    assert timestamp("2026-03-01T12:00+02:00") == datetime(2026, 3, 1, 10, tzinfo=timezone.utc)


@each_row("text", ["", "7", "d", "-7d", "7y", "yesterday", "2026-13-01", "999999w"])
def test_what_is_no_time_is_wrong_use(text, capsys):
    command = ["events", "analytics", "metrics", f"--since={text}", "--catalog", "sqlite:///none.db"]
    assert main(command) == 2 and "--since" in capsys.readouterr().err


@each_row(
    ("read", "text", "value"),
    [
        (sizes, "158,1000", (158, 1000)),
        (names, "static, none", ("static", "none")),
        (variant, "default=0.5", ("default", 0.5)),
        (condition, '{"role": "admin"}', {"role": "admin"}),
    ],
)
def test_a_text_of_several_parts_is_read(read, text, value):
    assert read(text) == value


@each_row(
    ("read", "text"),
    [
        (variant, "default"),
        (variant, "default=1"),
        (variant, "=0.5"),
        (sizes, "1,0"),
        (names, "a,a"),
        (names, ""),
    ],
)
def test_a_text_that_is_wrong_is_refused(read, text):
    with pytest.raises(click.BadParameter):
        read(text)
