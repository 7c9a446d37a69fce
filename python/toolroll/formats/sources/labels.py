"""The names by which a tool from outside may be called, so that rules about a name hold for each of them.

A stranger writes the list of a request. A name may have other capitals or a client's prefix. It may be in a
kind of tool that is no function, or in a member that only some providers read.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from toolroll.formats.sources.hosted import snake_case
from toolroll.formats.sources.lenient import name_in

_MOST_VALUES = 2_000  # values in an item that is no function; an item with more cannot be read
_LONGEST = 256  # characters of a name
_VERSION = re.compile(r"(?:_preview|_\d{6,8}|_\d{4}_\d\d_\d\d)+\Z")
_BETWEEN = re.compile(r"[\W_]+")
_PREFIX = re.compile(r"functions[.:/]|mcp__.")
# Members that hold tools, as `plain_name` has them.
LISTS = frozenset({"tools", "functions", "functiondeclarations"})
# Members of an item that brings the tools of a server, perhaps without their names.
_SERVERS = frozenset({"serverurl", "connectorid", "mcpservername", "mcpservers"})


class Labels(NamedTuple):
    """The possible names of an item of a list.

    Attributes:
        own: its name, or its type if it has no name. An allow rule applies to this label.
        others: all texts in it that may be names. A deny rule applies to any of them.
        is_unseen: whether it may bring tools without naming them.
    """

    own: str
    others: tuple[str, ...] = ()
    is_unseen: bool = False


def labels_of(item: Any) -> Labels:
    """The labels of a hosted tool, a custom tool, or an object of no known shape."""
    texts, is_whole = _texts(item)
    if not isinstance(item, Mapping):
        name = getattr(item, "name", None)
        own = name[:_LONGEST] if isinstance(name, str) and name else type(item).__name__
        return Labels(own, tuple(texts), not is_whole)
    kind = item.get("type")
    named = (value for value in item.values() if isinstance(value, Mapping))
    own = (name_in(item) or next(filter(None, map(name_in, named)), ""))[:_LONGEST]
    if not own:
        own = kind if isinstance(kind, str) and kind else next((snake_case(key) for key in item), "")
        own = own[:_LONGEST]
    return Labels(own, tuple(texts), not is_whole or (_is_server(item) and not _lists_all(item)))


def names_of_function(item: Any, name: str) -> tuple[str, ...]:
    """The name of a function, and further texts in it that another program may read as its name."""
    if not isinstance(item, Mapping):
        return (name,)
    found = {name: None}
    for key, value in item.items():
        if isinstance(value, str):
            found |= {value[:_LONGEST]: None} if plain_name(key) == "name" else {}
        elif plain_name(key) in LISTS:
            found |= _texts(value)[0]
        elif isinstance(value, Mapping):
            named = (one for at, one in value.items() if type(one) is str and plain_name(at) == "name")
            found |= dict.fromkeys([one[:_LONGEST] for one in named])
    return tuple(found)


@lru_cache(maxsize=16_384)
def folded(name: str) -> str:
    """The words of the name. Case, Unicode form, invisible characters and separators do not count."""
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name)
        name = "".join(
            [one for one in name if unicodedata.category(one)[0] != "C" and not "\ufe00" <= one <= "\ufe0f"]
        )
    return _BETWEEN.sub("_", unicodedata.normalize("NFKC", name.casefold())).strip("_")


@lru_cache(maxsize=16_384)
def alike(name: str) -> tuple[str, ...]:
    """The folded name, also without a client's prefix: `functions.NAME`, `mcp__SERVER__NAME`."""
    found = {folded(name): None}
    lower = name.lower()
    if _PREFIX.match(lower):
        if lower.startswith("mcp__"):
            parts = lower.split("__")
            found |= {folded("__".join(parts[at:])): None for at in range(2, len(parts))}
        else:
            found[folded(lower[len("functions.") :])] = None
    return tuple([one for one in found if one])


def plain_name(key: object) -> str:
    """A member's name for programs that ignore case and underscores."""
    key = str(key)[:_LONGEST]
    return key if key.isascii() and key.isalpha() and key.islower() else folded(key).replace("_", "")


def _texts(item: Any) -> tuple[dict[str, None], bool]:
    """The short texts in a value, with names of members and stems of types; whether these are all."""
    waiting, found, seen = [item], dict[str, None](), 0
    while waiting and seen < _MOST_VALUES:
        value = waiting.pop()
        seen += 1
        if isinstance(value, str):
            if value and len(value) <= _LONGEST:
                found[value] = found[_VERSION.sub("", value)] = None
        elif isinstance(value, Mapping):
            found |= {snake_case(key)[:_LONGEST]: None for key in value}
            waiting += value.values()
        elif isinstance(value, (list, tuple)):
            waiting += value
    return found, not waiting


def _is_server(item: Mapping[str, Any]) -> bool:
    kind = item.get("type")
    return (isinstance(kind, str) and folded(kind).startswith(("mcp", "url"))) or any(
        plain_name(key) in _SERVERS for key in item
    )


def _lists_all(item: Mapping[str, Any]) -> bool:
    """Whether a server's item lists by name the tools that may be called."""
    default = item.get("default_config")
    if isinstance(default, Mapping) and default.get("enabled") is False:
        return isinstance(item.get("configs", {}), Mapping)
    configured = item.get("tool_configuration")
    allowed = (configured if isinstance(configured, Mapping) else item).get("allowed_tools")
    if isinstance(allowed, Mapping):
        allowed = allowed.get("tool_names")
    return isinstance(allowed, list) and all(isinstance(name, str) for name in allowed)
