"""Reads one tool from a JSON text, in any shape that `read_tools` knows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from toolroll.formats import strict_json
from toolroll.formats.sources import fields
from toolroll.formats.sources.dicts import group_of, read_item, read_mapping
from toolroll.formats.sources.fields import FieldError
from toolroll.formats.sources.registry_fields import read_for_registry
from toolroll.model.errors import InvalidDefinition
from toolroll.model.tools import Tool


def read_tool_file(path: str) -> Tool:
    """The tool in a file. Raises InvalidDefinition, with file, line and key of the error."""
    try:
        content = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidDefinition(f"cannot be read: {reason}", file=path) from error
    return read_tool(content, path)


def read_tool(content: bytes, file: str) -> Tool:
    """The tool in a JSON text. file: its name in errors. Raises as `read_tool_file`."""
    text = strict_json.decode(content, file)
    value = strict_json.parse(text, file)
    try:
        if isinstance(value, Mapping) and group_of(value) is None:
            return read_for_registry(value, read_mapping)
        return read_item(value)
    except FieldError as error:
        line = strict_json.line_of(text, error.path)
        raise error.invalid(file=file, line=line, tool=fields.name_of([value], (0, *error.path))) from None
