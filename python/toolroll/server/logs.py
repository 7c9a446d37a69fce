"""Logs of the service: a line for each event, as text or as JSON. No line has a message or a key."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Literal

Form = Literal["text", "json"]

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_SERVICE = "toolroll.server"


def configure(form: Form) -> None:
    """Writes the service's logs and all warnings of this process to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger(_SERVICE).setLevel(logging.INFO)


class JsonLines(logging.Formatter):
    """An object a line: `time`, `level`, `logger`, `event`, the record's extra fields, and `error`."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        at = datetime.fromtimestamp(record.created, timezone.utc)
        line = {
            "time": at.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextLines(logging.Formatter):
    """`toolroll: event name=value …`, then an indented traceback. A caller's text never begins a line."""

    def __init__(self) -> None:
        super().__init__("toolroll: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # the name of the base class
        """The first line."""
        fields = (f"{name}={_one_word(str(value))}" for name, value in _extra(record).items())
        return " ".join([_one_line(super().formatMessage(record)), *fields])

    def formatException(self, ei: Any) -> str:  # the name of the base class
        """The traceback, indented: no text in it can look like a line of its own."""
        return "\n".join(f"  {_one_line(line)}" for line in super().formatException(ei).split("\n"))

    def formatStack(self, stack_info: str) -> str:  # the name of the base class
        """The stack, indented."""
        return "\n".join(f"  {_one_line(line)}" for line in stack_info.split("\n"))


def _one_line(text: str) -> str:
    """The text with escapes for characters that do not print, such as the end of a line."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def _one_word(text: str) -> str:
    """A value on one line, in quotes if it looks like several."""
    line = _one_line(text)
    return json.dumps(line, ensure_ascii=False) if set(' "=') & set(line) else line


def _extra(record: logging.LogRecord) -> Mapping[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}
