"""Where tools come from: folders of toolkit files, dictionaries of any provider, annotated functions."""

from __future__ import annotations

from toolroll.formats.sources.dicts import as_tool, read_tools
from toolroll.formats.sources.folder import read_folder

__all__ = ["as_tool", "read_tools", "read_folder"]
