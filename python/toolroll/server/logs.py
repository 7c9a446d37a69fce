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
    """Writes the logs of this process to standard error in this form: the service's, and all warnings."""
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
    """`toolroll: event name=value …`, and a traceback on lines of its own."""

    def __init__(self) -> None:
        super().__init__("toolroll: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # the name of the base class
        """The first line."""
        return " ".join(
            [super().formatMessage(record), *(f"{name}={value}" for name, value in _extra(record).items())]
        )


def _extra(record: logging.LogRecord) -> Mapping[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}
