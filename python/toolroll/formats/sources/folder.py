"""Reads toolkits from a folder: one JSON file for each toolkit, or one line for each tool.

    toolkits/weather.json    {"name": "weather", "description": ..., "keywords": [...], "tasks": [...]}
    catalog/tools.jsonl      {"name", "description", "parameters", "server", "examples"} a line
    toolkits/catalog.json    {"tiers": [...], "pages": [{"pattern", "toolkits", "priority"}]}

From a folder with tools.jsonl, only that and catalog.json are read. A file may also be the answer of an MCP
server to tools/list, as it came; its toolkit has the file's name. Every error names file, line and key. The
folder is not trusted: a symbolic link out of it, a FIFO or a device is skipped with a warning, never opened.
"""

from __future__ import annotations

import gc
import logging
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from toolroll.formats import strict_json
from toolroll.formats.sources import catalog_file, fields, jsonl, registry_fields
from toolroll.formats.sources.bad_tools import BadTools, OnBadTool, checked, report
from toolroll.formats.sources.dicts import read_items, toolkits_of
from toolroll.formats.sources.fields import Field, FieldError, InvalidValue
from toolroll.formats.sources.registry_fields import keys_of
from toolroll.model.argument_checks import items_of
from toolroll.model.errors import InvalidDefinition, InvalidInput, quoted
from toolroll.model.tools import MODES, MOST_MEMBERS, Definitions, Route, Tool, Toolkit

log = logging.getLogger(__name__)

LINES = "tools.jsonl"
_MOST_NAMED = 5  # files in an error
# The keys of MCP's answer to tools/list, in all revisions of the protocol.
_ANSWER = {"tools", "nextCursor", "_meta", "resultType", "ttlMs", "cacheScope"}


def read_folder(
    path: str | os.PathLike[str],
    tiers: Sequence[str] | None = None,
    on_bad_tool: OnBadTool | None = None,
    *,
    for_registry: bool = False,
) -> Definitions:
    """Reads a folder of toolkits, or one .json or .jsonl file.

    Files are read in the order of their names; hidden files are skipped. Raises InvalidDefinition for the
    first error, and for a folder without such a file.

    tiers: replace the folder's. A toolkit with another tier is an error; without any tiers, all toolkits
    may have the same one. None if the tiers are unknown, as for a registry that has its own.
    on_bad_tool: as in `read_tools`. If answers of several servers share a tool's name, the toolkit is put
    before the name.
    for_registry: refuses every unknown key, also in lists of tools; see `Definitions.refused`.
    """
    checked(on_bad_tool)
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidInput(f"path: is {quoted(path)}, must be a folder or a file")
    if tiers is not None:
        tiers = items_of(tiers, "tiers", str)
    path = os.fspath(path)
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise InvalidDefinition("is neither a folder nor a regular file", file=path)
    files = list(files_of(path)) if stat.S_ISDIR(mode) else [path]
    if not files:
        raise _no_files(path)
    with _collection_paused():
        parts = [_read_file(file, on_bad_tool, for_registry) for file in files]
        found = _join(parts)
        known = tuple(tiers or ()) or found.tiers
        if tiers is not None and not known:
            known = _only_tier(path, found.toolkits)
        if tiers is not None or known:
            _check_tiers(parts, known)
    report(path, found.skipped, found.repaired)
    return replace(found, tiers=known)


@contextmanager
def _collection_paused() -> Iterator[None]:
    """Disables garbage collection while many objects are read.

    Reading makes no cycles, and for 100,000 tools the collections would take a third of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True, slots=True)
class _Part:
    """The definitions of one file, and its text, which gives the lines of errors."""

    file: str
    text: str
    definitions: Definitions
    tools_key: str = ""  # "tasks" or "tools" in a toolkit file, "" in a file of lines or a bare list
    lines: list[int] = field(default_factory=list)  # the line of each tool, in a file of lines
    is_answer: bool = False  # whether it is a server's answer
    skips: bool = False

    def line_of_tool(self, i: int) -> int:
        if self.lines:
            return self.lines[i]
        path = ([self.tools_key] if self.tools_key else []) + [i]
        return strict_json.line_of(self.text, path)


def files_of(folder: str) -> Iterator[str]:
    """The files of a folder to read, in the order of their names."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(
                (entry for entry in entries if entry.name.endswith(".json") or entry.name == LINES),
                key=lambda entry: entry.name,
            )
    except OSError as error:
        raise _unreadable(folder, error) from error
    if any(entry.name == LINES for entry in found):
        found = [entry for entry in found if entry.name in (LINES, catalog_file.NAME)]
    root = os.path.realpath(folder)
    taken: set[str] = set()
    for entry in found:
        if entry.name.startswith("."):
            continue
        linked = entry.is_symlink()
        target = os.path.realpath(entry.path) if linked else os.path.join(root, entry.name)
        if linked and not target.startswith(os.path.join(root, "")):
            log.warning("%s: skipped, a symbolic link out of the folder", entry.path)
        elif not _is_file(entry):
            log.warning("%s: skipped, not a regular file", entry.path)
        elif target not in taken:  # a link beside its target is the same file, not a second one
            taken.add(target)
            yield entry.path


def _no_files(folder: str) -> InvalidDefinition:
    """The error for a folder without a file to read; it names the files that the folder holds."""
    problem = f"holds no file to read; must hold toolkit files (NAME.json), or {LINES}"
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        if entry.is_dir() and not entry.name.startswith("."):
            with suppress(OSError):
                if any(name.endswith(".json") or name == LINES for name in os.listdir(entry.path)):
                    return InvalidDefinition(f"{problem}; did you mean {entry.path!r:.300}?", file=folder)
    names = ", ".join([entry.name for entry in found[:_MOST_NAMED]]) + (", …" if found[_MOST_NAMED:] else "")
    return InvalidDefinition(f"{problem}; it holds {names or 'nothing'}"[:1_000], file=folder)


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Whether it is a regular file, or a link to one."""
    try:
        return entry.is_file()
    except OSError:  # a link to itself
        return False


def _read_file(file: str, on_bad_tool: OnBadTool | None, for_registry: bool) -> _Part:
    text = strict_json.decode(content_of(file), file)
    bad = BadTools(on_bad_tool, lambda path: {"file": file, "line": strict_json.line_of(text, path)})
    bad.for_registry = for_registry
    skips = on_bad_tool == "skip"
    if file.endswith(".jsonl"):
        bad.place = lambda path: {"file": file, "line": path[0]}
        tools, lines, hosted = jsonl.read_lines(text, file, bad)
        definitions = Definitions(tuple(tools), toolkits_of(tools), hosted=tuple(hosted))
        return _Part(file, text, _with(definitions, bad), lines=lines, skips=skips)
    value = strict_json.parse(text, file)
    if isinstance(value, list):
        return _Part(file, text, _read_list(value, text, file, bad), skips=skips)
    if (path := tools_answer_in(value)) is not None:
        holder = value[path[0]] if len(path) > 1 else value
        bad.on_bad_tool = on_bad_tool or "skip"  # also a tool that has no schema, or is no object
        found = _read_list(holder["tools"], text, file, bad, *path)
        toolkit = os.path.splitext(os.path.basename(file))[0]
        tools = [tool if tool.toolkit else replace(tool, toolkit=toolkit) for tool in found.tools]
        named = replace(found, tools=tuple(tools), toolkits=toolkits_of(tools) or (Toolkit(toolkit),))
        return _Part(file, text, named, "tools", is_answer=True, skips=on_bad_tool != "refuse")
    key = "tools" if isinstance(value, dict) and "tools" in value else "tasks"
    bad.on_bad_tool = (
        on_bad_tool or "refuse"
    )  # in whatever form its tools are: a toolkit file is a person's own
    try:
        if catalog_file.is_catalog_file(os.path.basename(file), value):
            return _Part(file, text, catalog_file.read_catalog_file(value))
        return _Part(file, text, _with(_read_toolkit(value, file, bad), bad), key, skips=skips)
    except FieldError as error:
        line = strict_json.line_of(text, error.path)
        tool = fields.name_of(value[key], error.path[1:]) if error.path[:1] == (key,) else None
        raise error.invalid(file=file, line=line, tool=tool) from None


def _with(definitions: Definitions, bad: BadTools) -> Definitions:
    return replace(
        definitions, skipped=tuple(bad.skipped), repaired=tuple(bad.repaired), refused=tuple(bad.refused)
    )


def tools_answer_in(value: Any) -> tuple[str, ...] | None:
    """The keys that lead to the tools of a server's answer to tools/list; None for any other file.

    A toolkit file has more keys than its tools, or its tools are in another form. In the envelope of
    JSON-RPC every list of tools is an answer, whatever other keys it has.
    """
    if not isinstance(value, dict):
        return None
    if "jsonrpc" in value and isinstance(value.get("result"), dict):
        return ("result", "tools") if isinstance(value["result"].get("tools"), list) else None
    tools = value.get("tools")
    if not isinstance(tools, list) or not value.keys() <= _ANSWER:
        return None
    keys = {key for tool in tools if isinstance(tool, dict) for key in tool}
    return ("tools",) if "inputSchema" in keys and keys.isdisjoint(("function", "parameters")) else None


def content_of(file: str) -> bytes:
    """The bytes of a regular file. Raises InvalidDefinition."""
    # O_NONBLOCK: the file may have been replaced by a FIFO since the check, and must not block.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        with open(os.open(file, flags | getattr(os, "O_CLOEXEC", 0)), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise InvalidDefinition("is not a regular file", file=file)
            return stream.read()
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(path: str, error: OSError | ValueError) -> InvalidDefinition:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return InvalidDefinition(f"cannot be read: {reason}", file=path)


def _read_list(items: list[Any], text: str, file: str, bad: BadTools, *path: str) -> Definitions:
    """Reads a list of tools, in any form of `read_tools`. path: the list's path in its file."""
    try:
        return read_items(items, bad, *path)
    except FieldError as error:
        line = strict_json.line_of(text, error.path)
        name = fields.name_of(items, error.path[len(path) :])
        raise error.invalid(file=file, line=line, tool=name) from None


def _read_toolkit(value: Any, file: str, bad: BadTools) -> Definitions:
    if not isinstance(value, dict):
        raise FieldError(
            f"is {fields.shown(value)}, must be an object with name and tasks, or a list of tools"
        )
    read = fields.read_fields(value, _TOOLKIT)
    tasks = read.pop("tasks", ())
    keywords, patterns = read.pop("keywords", ()), read.pop("patterns", ())
    stem = os.path.splitext(os.path.basename(file))[0]
    toolkit = Toolkit(**{"name": stem, **read})
    key = "tools" if "tools" in value else "tasks"
    tools = []
    for i, task in enumerate(tasks):
        tool = bad.read(task, lambda given: _read_task(given, toolkit.name), key, i)
        if tool is not None:
            tools.append(tool)
    routes = []
    if keywords or patterns:
        modes = tuple(mode for _, mode in keywords)
        routes.append(
            Route((toolkit.name,), tuple(word for word, _ in keywords), patterns, modes if any(modes) else ())
        )
    return Definitions(tuple(tools), (toolkit,), tuple(routes))


def _read_task(task: Any, toolkit: str) -> Tool:
    if not isinstance(task, dict):
        raise FieldError(f"a task is {fields.shown(task)}, must be an object")
    if "function" not in task:
        values = fields.read_fields(task, _FLAT_TASK)
        values.pop("type", None)
    else:
        values = fields.read_fields(task, _TASK)
        function = values.pop("function")
        values.pop("type", None)
        try:
            values.update(fields.read_fields(function, _FUNCTION))
        except FieldError as error:
            raise error.under("function") from None
        if values.pop("strict", None) is not None:  # only the OpenAI form has it
            values["original"] = {"type": "function", "function": function}
    if "name" not in values:
        raise FieldError("name is missing", ("function",) if "function" in task else ())
    return Tool(toolkit=toolkit, **values, keys=keys_of(("toolkit", *values)))


def _join(parts: list[_Part]) -> Definitions:
    names = [tool.name for part in parts for tool in part.definitions.tools]
    if len(set(names)) != len(names):
        parts = _without_duplicates(_with_prefixes(parts, Counter(names)))
    toolkits = tuple(toolkit for part in parts for toolkit in part.definitions.toolkits)
    _check_toolkits(parts)
    _warn_of_pages(parts, {toolkit.name for toolkit in toolkits})
    found = Definitions.joined([part.definitions for part in parts])
    tiers = next((part.definitions.tiers for part in parts if part.definitions.tiers), ())
    return replace(found, tiers=tiers)


def _with_prefixes(parts: list[_Part], names: Counter[str]) -> list[_Part]:
    """The parts, with the toolkit before each name of a server's tool that another tool has, too."""
    found = []
    for part in parts:
        tools, repaired = list(part.definitions.tools), list(part.definitions.repaired)
        for i, tool in enumerate(tools):
            longer = f"{tool.toolkit}_{tool.name}"
            if part.is_answer and names[tool.name] > 1 and not names[longer]:
                tools[i] = replace(tool, name=longer, original=None)
                problem = f"name is also a tool of another file, so it is now {longer!r}"
                repaired.append(InvalidDefinition(problem, file=part.file, field="name", tool=tool.name))
        own = replace(part.definitions, tools=tuple(tools), repaired=tuple(repaired))
        found.append(replace(part, definitions=own))
    return found


def _without_duplicates(parts: list[_Part]) -> list[_Part]:
    """The parts without tools whose name an earlier tool has, if these may be skipped."""
    places: dict[str, tuple[_Part, int]] = {}
    found = []
    for part in parts:
        tools, lines, skipped = [], [], list(part.definitions.skipped)
        for i, tool in enumerate(part.definitions.tools):
            first, at = places.setdefault(tool.name, (part, i))
            if (first, at) == (part, i):
                tools.append(tool)
                lines += part.lines[i : i + 1]
                continue
            error = InvalidDefinition(
                f"name is already taken at {first.file}:{first.line_of_tool(at)}",
                file=part.file,
                line=part.line_of_tool(i),
                field="name",
                tool=tool.name,
            )
            if not part.skips:
                raise error
            skipped.append(error)
        own = replace(part.definitions, tools=tuple(tools), skipped=tuple(skipped))
        found.append(replace(part, definitions=own, lines=lines))
    return found


def _warn_of_pages(parts: list[_Part], toolkits: set[str]) -> None:
    """Warns of page mappings to toolkits that are not here: misspelt, or in the registry."""
    for part in parts:
        for i, page in enumerate(part.definitions.pages):
            for name in page.toolkits:
                if name not in toolkits:
                    line = strict_json.line_of(part.text, ["pages", i, "toolkits"])
                    log.warning(
                        "%s:%d: page %r names toolkit %r, which no file declares",
                        part.file,
                        line,
                        page.pattern,
                        name,
                    )


def _only_tier(path: str, toolkits: Sequence[Toolkit]) -> tuple[str, ...]:
    """The only tier of these toolkits, with a warning; () if they have several."""
    tiers = {toolkit.tier for toolkit in toolkits if toolkit.tier is not None}
    if len(tiers) != 1:
        return ()
    (tier,) = tiers
    log.warning(
        "%s: no tiers are configured, so %r is the only one: other tiers do not get its toolkits", path, tier
    )
    return (tier,)


def _check_tiers(parts: list[_Part], tiers: tuple[str, ...]) -> None:
    """Refuses a toolkit whose tier is not in `tiers`."""
    for part in parts:
        for toolkit in part.definitions.toolkits:
            if toolkit.tier is not None and toolkit.tier not in tiers:
                known = f"must be one of {', '.join(map(repr, tiers))}" if tiers else "but there are no tiers"
                raise _toolkit_error(
                    part,
                    "tier",
                    f"toolkit {toolkit.name!r}: tier is {toolkit.tier!r}, {known}; list them, lowest first, "
                    f'in {catalog_file.NAME} ({{"tiers": ["free", "pro"]}}), or pass tiers (--tiers …)',
                )


def _check_toolkits(parts: list[_Part]) -> None:
    """Checks that names are unique and parents lead to a root, so that a parent's rules reach all."""
    places: dict[str, _Part] = {}
    parents: dict[str, str | None] = {}
    for part in parts:
        for toolkit in part.definitions.toolkits:
            first = places.setdefault(toolkit.name, part)
            if first is not part:
                raise _toolkit_error(
                    part, "name", f"toolkit {toolkit.name!r}: name is already taken at {first.file}"
                )
            parents[toolkit.name] = toolkit.parent
    for name, parent in parents.items():
        if parent is not None and parent not in parents:
            hint = fields.unknown_key(parent, parents).partition("; ")[2].replace("keys", "toolkits")
            raise _toolkit_error(
                places[name], "parent", f"toolkit {name!r}: parent {parent!r} is no toolkit; {hint}"
            )
        above, steps = parent, 0
        while above is not None and steps <= len(parents):
            above, steps = parents.get(above), steps + 1
        if above is not None:
            raise _toolkit_error(
                places[name], "parent", f"toolkit {name!r}: parent {parent!r} leads back to itself"
            )


def _toolkit_error(part: _Part, key: str, problem: str) -> InvalidDefinition:
    return InvalidDefinition(problem, file=part.file, line=strict_json.line_of(part.text, [key]), field=key)


def _object(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise InvalidValue("an object", value)
    return value


def _function_type(value: Any) -> str:
    if value != "function":
        raise InvalidValue("'function'", value)
    return "function"


def _keywords(value: Any) -> tuple[tuple[str, str], ...]:
    return tuple(_keyword(item, i) for i, item in enumerate(fields.items(value)))


def _keyword(item: Any, i: int) -> tuple[str, str]:
    """A keyword and its mode: a string, or {"keyword": "rain", "mode": "substring"}."""
    if type(item) is str and item.strip():
        return item, ""
    if type(item) is not dict:
        raise InvalidValue("a non-empty string or an object with keyword and mode", item, (i,))
    word, mode = item.get("keyword"), item.get("mode", "")
    if type(word) is not str or not word.strip():
        raise InvalidValue("a non-empty string", word, (i, "keyword"))
    if "mode" in item and mode not in MODES:
        raise InvalidValue("substring, word or prefix", mode, (i, "mode"))
    if extra := sorted(item.keys() - {"keyword", "mode"}):
        raise InvalidValue("an object with keyword and mode alone", extra[0], (i,))
    return word, mode


def _members(value: Any) -> tuple[str, ...]:
    members = fields.texts(value)
    for i, member in enumerate(members):
        if not member:
            raise InvalidValue("the name of a tool, or a pattern such as 'memory_*'", member, (i,))
    if len(members) > MOST_MEMBERS:
        raise InvalidValue(f"a list of at most {MOST_MEMBERS} names and patterns", value)
    return members


def _patterns(value: Any) -> tuple[str, ...]:
    patterns = fields.texts(value)
    if patterns:
        # Imported here: most folders have no patterns, and the import takes as long as all others.
        import re2

        options = re2.Options()
        options.log_errors = False
        for i, pattern in enumerate(patterns):
            try:
                re2.compile(pattern, options)
            except re2.error as error:
                raise InvalidValue(f"an RE2 expression ({_reason(error)})", pattern, (i,)) from None
    return patterns


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


_FUNCTION: dict[str, Field] = {**fields.FUNCTION, "strict": ("strict", fields.flag)}
_TASK: dict[str, Field] = {
    **fields.EXTRAS,
    **registry_fields.ALIASES,
    **registry_fields.READ_ONLY,
    "type": ("type", _function_type),
    "function": ("function", _object),
}
_FLAT_TASK: dict[str, Field] = {
    **fields.FUNCTION,
    **fields.EXTRAS,
    **registry_fields.ALIASES,
    **registry_fields.READ_ONLY,
    "type": ("type", _function_type),
}
_TOOLKIT: dict[str, Field] = {
    "name": ("name", fields.name),
    "tier": ("tier", fields.name_or_null),
    "description": ("description", fields.text_or_null),
    "keywords": ("keywords", _keywords),
    "patterns": ("patterns", _patterns),
    "tasks": ("tasks", fields.items),
    "tools": ("tasks", fields.items),
    "settings_keys": ("settings_keys", fields.texts),
    "parent": ("parent", fields.name_or_null),
    "members": ("members", _members),
    "base": ("base", fields.flag),
}
