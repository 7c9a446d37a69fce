from __future__ import annotations

import json
import logging
import sys

import pytest

pytest.importorskip("fastapi")

from toolroll.server.logs import JsonLines, TextLines


def record(**extra: object) -> logging.LogRecord:
    made = logging.getLogger("toolroll.server").makeRecord(
        "toolroll.server", logging.WARNING, "x.py", 1, "away: %s", ("a\nb",), None, extra=extra
    )
    made.created = 1_767_225_600.5
    return made


def test_a_json_line_is_one_object_with_the_extra_fields():
    line = JsonLines().format(record(status=200, path=object))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2026-01-01T00:00:00.500+00:00",
        "level": "warning",
        "logger": "toolroll.server",
        "event": "away: a\nb",
        "status": 200,
        "path": "<class 'object'>",
    }


def test_a_json_line_has_the_traceback_of_an_error():
    made = record()
    try:
        raise ValueError("odd")
    except ValueError:
        made.exc_info = sys.exc_info()
    assert "ValueError: odd" in json.loads(JsonLines().format(made))["error"]


def test_a_text_line_names_its_fields():
    assert TextLines().format(record(status=200)) == "toolroll: away: a\\nb status=200"
    assert TextLines().format(record(by="ann b=c")).endswith(' by="ann b=c"')
