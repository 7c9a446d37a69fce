"""Tools that get examples, and in particular the tools of a folder, whose files get them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from toolroll.formats.sources.bad_tools import OnBadTool
from toolroll.formats.sources.example_edits import read_edited, with_examples
from toolroll.formats.sources.folder import read_folder
from toolroll.model.errors import Conflict
from toolroll.model.tools import Definitions
from toolroll.runtime.files import replace_file


class EditableTools(Protocol):
    """Tools whose examples can be changed."""

    @property
    def definitions(self) -> Definitions:
        """All tools of the catalog."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """The tools that may get examples."""
        ...

    @property
    def closed(self) -> Mapping[str, str]:
        """Name → why a tool may not get examples."""
        ...

    def write(self, examples: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
        """Appends examples to tools. Returns changed files, or tools that wait. Raises ToolrollError."""
        ...


_TRIAL = "an example"
_CLOSED = "is in a form without examples, such as a server's answer to tools/list"


class FolderTools:
    """The tools of a folder or a file; see `EditableTools`. A server's answer cannot hold examples."""

    def __init__(self, path: str, on_bad_tool: OnBadTool | None = None) -> None:
        """Reads the tools. Raises InvalidDefinition."""
        self._path, self._on_bad_tool = path, on_bad_tool
        self.definitions = read_folder(path, on_bad_tool=on_bad_tool)
        active = {tool.name: tool for tool in self.definitions.tools if tool.status == "active"}
        trial = with_examples(path, dict.fromkeys(active, (_TRIAL,)))
        tried = read_edited(path, trial, on_bad_tool).tools
        self.names: Sequence[str] = tuple(
            tool.name
            for tool in tried
            if tool.name in active and len(tool.examples) > len(active[tool.name].examples)
        )
        self.closed: Mapping[str, str] = dict.fromkeys(active.keys() - set(self.names), _CLOSED)

    def write(self, examples: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
        """Writes the files; each is replaced as a whole. Returns their names.

        Raises:
            Conflict: the folder has changed in the meantime.
            InvalidInput: a file cannot be written.
        """
        contents = with_examples(self._path, examples)
        expected = tuple(
            replace(tool, examples=(*tool.examples, *examples.get(tool.name, ())))
            for tool in self.definitions.tools
        )
        if read_edited(self._path, contents, self._on_bad_tool).tools != expected:
            raise Conflict(f"{self._path}: has changed since it was read; nothing was written, run it again")
        for file, content in contents.items():
            replace_file(file, content)
        return tuple(os.fspath(file) for file in contents)
