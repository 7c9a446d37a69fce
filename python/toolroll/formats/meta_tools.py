"""The meta-tools with which a model asks for tools: their definitions, and readers of their arguments.

`manage_tools` loads and unloads tools, `search_tools` finds tools that were not shown, and `call_tool` calls
a tool that is in no list. Their schemas are the same bytes in every process and turn, so that they stay in a
provider's prompt cache. Sessions run them; this file defines them and reads their arguments. The
readers are tolerant: models write JSON as text, several names in one string and numbers in quotes. Arguments
that cannot be read raise an InvalidInput whose message tells the model what to write instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, NoReturn, get_args

from toolroll.formats.schemas import PLAIN, Form, convert_all
from toolroll.model.errors import InvalidInput
from toolroll.model.tools import Tool

Mode = Literal["load", "unload", "fallback"]
MODES: tuple[Mode, ...] = get_args(Mode)
MOST_QUERIES = 5
MOST_FOUND = 20
DEFAULT_FOUND = 5
MOST_NAMES = 100  # names in one call of manage_tools
MOST_TEXT = 2_000  # characters of one query or name

MANAGE_TOOLS = Tool(
    "manage_tools",
    "Changes which tools you have. Mode load adds tools by name, or all of a toolkit by its name; unload "
    "removes them; fallback gives you all tools for one turn.",
    {
        "type": "object",
        "properties": {
            "mode": {"type": "string", "enum": [*MODES], "description": "What to do."},
            "tools": {
                "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}],
                "description": "Names of tools: a list, or with commas between them. None for fallback.",
            },
        },
        "required": ["mode"],
        "additionalProperties": False,
    },
)

SEARCH_TOOLS = Tool(
    "search_tools",
    "Finds tools that you have not been shown. Say in plain words what you want to do, "
    "one query for each thing.",
    {
        "type": "object",
        "properties": {
            "queries": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "maxItems": MOST_QUERIES,
                "description": "What you want to do, such as: send an email with an attachment.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": MOST_FOUND,
                "default": DEFAULT_FOUND,
                "description": "How many tools to find for each query.",
            },
        },
        "required": ["queries"],
        "additionalProperties": False,
    },
)

CALL_TOOL = Tool(
    "call_tool",
    "Calls a tool that search_tools has found.",
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Name of the tool, as search_tools gave it."},
            "arguments": {
                "type": "object",
                "description": "Arguments of the tool, as its schema asks for them.",
                "additionalProperties": True,
            },
        },
        "required": ["name"],
        "additionalProperties": False,
    },
)

META_TOOLS: tuple[Tool, ...] = (MANAGE_TOOLS, SEARCH_TOOLS, CALL_TOOL)


class ManageArguments(NamedTuple):
    """The arguments of `manage_tools`. Some modes need no names."""

    mode: Mode
    names: tuple[str, ...]


class SearchArguments(NamedTuple):
    """The arguments of `search_tools`: 1 to 5 queries, and how many tools to find for each."""

    queries: tuple[str, ...]
    limit: int


class CallArguments(NamedTuple):
    """The arguments of `call_tool`."""

    name: str
    arguments: dict[str, Any]


def meta_schemas(
    provider: str, tools: Iterable[Tool] = META_TOOLS, form: Form = PLAIN
) -> list[dict[str, Any]]:
    """The meta-tools in the form of `provider`. The caller may change the dictionaries.

    Raises InvalidInput for an unknown provider.
    """
    return convert_all(tools, provider, form)[0]


def read_manage(arguments: object) -> ManageArguments:
    """Reads the arguments of `manage_tools`: an object, or its JSON text.

    The names may also stand in `names`, or in `query`, `queries` or `name` as in the arguments of the other
    two meta-tools, which models mix up with this one.

    Raises InvalidInput, with what to write instead, for an unknown mode, or for one without the names it
    needs.
    """
    given = _object(arguments, "manage_tools")
    mode = given.get("mode")
    said = mode.strip(_AROUND).lower() if isinstance(mode, str) else None
    for known in MODES:
        if said == known:
            break
    else:
        _refuse("manage_tools", f"mode is {_shown(mode)}, must be load, unload or fallback")
    written = next((value for key in _NAME_KEYS if not _is_blank(value := given.get(key))), None)
    names = _texts(written, "manage_tools", "tools", split=True)
    if known != "fallback" and not names:
        _refuse("manage_tools", f"tools is empty, must name the tools to {known}, such as ['send_email']")
    if len(names) > MOST_NAMES:
        _refuse("manage_tools", f"tools has {len(names)} names, must have at most {MOST_NAMES}")
    return ManageArguments(known, names)


def read_search(arguments: object) -> SearchArguments:
    """Reads the arguments of `search_tools`: an object, or its JSON text.

    A limit out of range becomes the nearest one in range. Raises InvalidInput, with what to write instead,
    for no query, more than five, or a limit that is not a number.
    """
    given = _object(arguments, "search_tools")
    queries = _texts(given.get("queries", given.get("query")), "search_tools", "queries", split=False)
    if not 1 <= len(queries) <= MOST_QUERIES:
        _refuse("search_tools", f"queries has {len(queries)}, must have 1 to {MOST_QUERIES} texts")
    return SearchArguments(queries, _limit(given.get("limit")))


def read_call(arguments: object) -> CallArguments:
    """Reads the arguments of `call_tool`. These and the tool's arguments are objects or JSON text.

    If `arguments` is missing, all other keys beside the name are the tool's arguments.

    Raises InvalidInput, with what to write instead, for a missing name or arguments that are not an object.
    """
    given = _object(arguments, "call_tool")
    name = given.get("name")
    if not isinstance(name, str) or not (name := name.strip(_AROUND)):
        _refuse("call_tool", f"name is {_shown(name)}, must be the name of a tool")
    if len(name) > MOST_TEXT:
        _refuse("call_tool", f"name has {len(name)} characters, must have at most {MOST_TEXT}")
    if (own := given.get("arguments")) is None:
        own = {key: value for key, value in given.items() if key not in ("name", "arguments")}
    return CallArguments(name, _object(own, "call_tool", "arguments"))


_NAME_KEYS = (
    "tools",
    "names",
    "tool",
    "query",
    "queries",
    "name",
)  # keys of manage_tools for names; the first one counts
_AROUND = " \t\r\n'\"`"  # characters that models write around a name
_BETWEEN = re.compile(r"[,\n;]")


def _object(value: object, tool: str, what: str = "what you sent") -> dict[str, Any]:
    """The arguments as an object. Text is parsed as JSON, twice if it was encoded twice; blank text is {}."""
    for _ in range(2):
        if isinstance(value, (str, bytes, bytearray)):
            value = _json(value, tool, what)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        _refuse(tool, f"{what} is {_shown(value)}, must be an object with its arguments by name")
    return dict(value)


def _json(text: str | bytes | bytearray, tool: str, what: str) -> Any:
    if not text.strip():
        return None
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError:
        _refuse(tool, f"{what} is nested too deeply")
    except ValueError as error:  # wrong JSON, wrong UTF-8, a number of thousands of digits
        _refuse(tool, f"{what} is not JSON ({error}), must be an object with its arguments by name")


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


def _texts(value: object, tool: str, what: str, split: bool) -> tuple[str, ...]:
    """The distinct texts of a list or a string. `split`: a string may hold several."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = str(value).strip().strip("[]")
    if isinstance(value, str):
        value = _BETWEEN.split(value) if split else [value]
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        _refuse(tool, f"{what} is {_shown(value)}, must be a list of texts")
    for text in value:
        if not isinstance(text, str):
            _refuse(tool, f"{what} holds {_shown(text)}, must hold texts")
        if len(text) > MOST_TEXT:
            _refuse(tool, f"{what} holds a text of {len(text)} characters, must be at most {MOST_TEXT}")
    around = _AROUND if split else None  # quotes may belong to a query
    return tuple(dict.fromkeys(text for text in (text.strip(around) for text in value) if text))


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, (str, list)) and not value)


def _limit(value: object) -> int:
    if _is_blank(value):
        return DEFAULT_FOUND
    try:
        if isinstance(value, bool):
            raise ValueError
        number = float(value) if isinstance(value, (str, int, float)) else float("nan")
        return int(min(max(number, 1), MOST_FOUND)) if number == number else _no_limit(value)
    except (ValueError, OverflowError):
        return _no_limit(value)


def _no_limit(value: object) -> NoReturn:
    _refuse("search_tools", f"limit is {_shown(value)}, must be a whole number from 1 to {MOST_FOUND}")


def _shown(value: object) -> str:
    """A short form of a model's value, in JSON's terms."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, str):
        return repr(value if len(value) <= 80 else f"{value[:77]}...")
    if value is None or isinstance(value, bool):
        return {None: "missing", True: "true", False: "false"}[value]
    return f"a {type(value).__name__}" if not isinstance(value, (int, float)) else "a number"


def _refuse(tool: str, problem: str) -> NoReturn:
    raise InvalidInput(f"{tool}: {problem}")
