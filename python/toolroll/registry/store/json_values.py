"""Converts values of rows and records to JSON."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any


def as_json(value: Any) -> Any:
    """Converts mappings to dicts, tuples to lists, times to ISO 8601 and bytes to base64."""
    if isinstance(value, Mapping):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, datetime) else value


class JsonRecord:
    """A dataclass with a JSON form."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The fields, for JSON."""
        return {field.name: as_json(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]
