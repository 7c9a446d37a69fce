"""Adds example messages to the files of a folder, and changes no other character.

The examples are inserted into the text of a tool's object in its style: on one line, or one message a
line with its indentation. MCP's form has no field for examples, so a server's answer to tools/list does
not change. `read_edited` reads the new contents before they replace the files.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any

from toolroll.formats import strict_json
from toolroll.formats.sources.bad_tools import OnBadTool, clean_name
from toolroll.formats.sources.dicts import group_of
from toolroll.formats.sources.fields import FieldError
from toolroll.formats.sources.folder import content_of, files_of, read_folder, tools_answer_in
from toolroll.model.errors import InvalidDefinition
from toolroll.model.tools import Definitions

KEY = "examples"

_BOM = b"\xef\xbb\xbf"
_COLON = re.compile(r'"(?:[^"\\]|\\.)*"\s*:([ \t]*)')  # behind a key; the group is the gap before its value
_INDENT = re.compile(r"[ \t]*")

_Path = tuple["str | int", ...]


def with_examples(path: str, examples: Mapping[str, Sequence[str]]) -> dict[str, bytes]:
    """The new contents by file, with these examples after the tools' own.

    path: a folder or file for `read_folder`. examples: name of a tool → messages. A tool that no file
    has, or that is in MCP's form, gets none.

    Raises:
        InvalidDefinition: a file cannot be read.
    """
    missing = {name: list(texts) for name, texts in examples.items() if texts}
    found = {}
    for file in files_of(path) if os.path.isdir(path) else [path]:
        content = content_of(file)
        text = strict_json.decode(content, file)
        if file.endswith(".jsonl"):
            # not splitlines(): U+2028 may stand in a string
            lines = enumerate(text.split("\n"), 1)
            edited = "\n".join(_edited_line(line, file, number, missing) for number, line in lines)
        else:
            edited = _edited(text, _tools_of_file(strict_json.parse(text, file)), missing)
        if edited != text:
            found[file] = (_BOM if content.startswith(_BOM) else b"") + edited.encode()
    return found


def read_edited(
    path: str, contents: Mapping[str, bytes], on_bad_tool: OnBadTool | None = None
) -> Definitions:
    """`read_folder` as if the files had these contents.

    Raises:
        InvalidDefinition: as `read_folder`.
    """
    is_folder = os.path.isdir(path)
    with TemporaryDirectory(prefix="toolroll-") as folder:
        for file in files_of(path) if is_folder else [path]:
            with open(os.path.join(folder, os.path.basename(file)), "xb") as stream:
                stream.write(contents[file] if file in contents else content_of(file))
        return read_folder(
            folder if is_folder else os.path.join(folder, os.path.basename(path)), on_bad_tool=on_bad_tool
        )


def _edited_line(line: str, file: str, number: int, missing: dict[str, list[str]]) -> str:
    if not line or line.isspace():
        return line
    try:
        value = strict_json.parse(line, file, number)
    except InvalidDefinition:
        return line  # the reader of the file decides whether that is an error
    # A plain definition may call its schema as MCP does; in a group that is MCP's own form.
    items = _tools_in([value], ()) if not _is_named(value) else iter([((0,), value)])
    return _edited(line, ((path[1:], item) for path, item in items), missing)


def _edited(text: str, items: Iterator[tuple[_Path, Any]], missing: dict[str, list[str]]) -> str:
    """The text with examples for its tools. The tools are removed from `missing`."""
    added = {}
    for path, item in items:
        function = item.get("function")
        name = (function if isinstance(function, Mapping) else item).get("name")
        if isinstance(name, str) and (texts := missing.pop(clean_name(name), None)) is not None:
            added[path] = item, texts
    if not added:
        return text
    paths: list[_Path] = []
    for path, (item, _) in added.items():
        own = item.get(KEY) or ()
        paths += path, (*path, list(item)[-1]), (*path, KEY), (*path, KEY, len(own) - 1)
    places = strict_json.places_of(text, paths)
    newline = "\r\n" if "\r\n" in text else "\n"
    is_escaped = text.isascii() and "\\u" in text
    changes = [
        _insertion(
            text, places, path, item, [json.dumps(each, ensure_ascii=is_escaped) for each in texts], newline
        )
        for path, (item, texts) in added.items()
    ]
    for start, end, new in sorted(changes, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _insertion(
    text: str,
    places: Mapping[_Path, strict_json.Span],
    path: _Path,
    item: Mapping[str, Any],
    texts: Sequence[str],
    newline: str,
) -> tuple[int, int, str]:
    """The start and end of a change to the text of a tool, and the new part."""
    last = places[(*path, list(item)[-1])]
    colon = _COLON.match(text, last.key)
    assert colon is not None
    gap = colon[1]
    if own := item.get(KEY):
        end = places[(*path, KEY, len(own) - 1)]
        indent = _indent_before(text, end.start)
        between = f",{gap}" if indent is None else f",{newline}{indent}"
        return end.end, end.end, "".join(between + each for each in texts)
    indent = _indent_before(text, last.key)
    if indent is None:
        value = f"[{f',{gap}'.join(texts)}]"
    else:
        outer = _indent_before(text, places[path].end - 1)
        step = indent.removeprefix(outer) if outer is not None and indent != outer else "  "
        inner = f"{newline}{indent}{step}"
        value = f"[{inner}{f',{inner}'.join(texts)}{newline}{indent}]"
    if KEY in item:  # without a message
        old = places[(*path, KEY)]
        return old.start, old.end, value
    before = f",{gap}" if indent is None else f",{newline}{indent}"
    return last.end, last.end, f'{before}"{KEY}":{gap}{value}'


def _indent_before(text: str, at: int) -> str | None:
    """The indentation of the text at `at`; None if it is on the first line, or not the first on its line."""
    start = text.rfind("\n", 0, at) + 1
    return text[start:at] if start and _INDENT.fullmatch(text, start, at) else None


def _tools_of_file(value: Any) -> Iterator[tuple[_Path, Mapping[str, Any]]]:
    """The tools of a .json file that may have examples, with their paths."""
    if isinstance(value, list):
        yield from _tools_in(value, ())
    elif isinstance(value, dict) and tools_answer_in(value) is None:
        key = "tools" if "tools" in value else "tasks"
        tasks = value.get(key)
        for i, task in enumerate(tasks if isinstance(tasks, list) else ()):
            if isinstance(task, dict):
                yield (key, i), task


def _tools_in(items: Sequence[Any], path: _Path) -> Iterator[tuple[_Path, Mapping[str, Any]]]:
    """The tools of a list in any form, with their paths; groups of tools are searched, too."""
    for i, item in enumerate(items):
        if not isinstance(item, dict):
            continue
        try:
            group = group_of(item)
        except FieldError:
            continue
        if group is not None:
            yield from _tools_in(group.members, (*path, i, group.key))
        elif "inputSchema" not in item:
            yield (*path, i), item


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and "name" in value and "function" not in value
