"""Reads tools: folders of toolkit files, dictionaries of any provider, MCP objects, annotated functions.

A new source is a file here that returns `Definitions` and raises `InvalidDefinition` with the place of an
error.
"""

from __future__ import annotations

from toolroll.formats.sources.dicts import as_tool, read_tools
from toolroll.formats.sources.folder import read_folder

__all__ = ["as_tool", "read_tools", "read_folder"]
