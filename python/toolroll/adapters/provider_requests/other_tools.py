"""Checks tools outside a request's list and requests of unknown form, which could bypass rules.

A request that cannot be checked is refused, but only if rules apply to the caller. The operator can allow
paths and members by name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import is_
from typing import Any

from toolroll.formats.providers.request_form import RequestForm
from toolroll.formats.sources.labels import LISTS, plain_name
from toolroll.model.context import Context
from toolroll.model.errors import Denied
from toolroll.roll import Toolroll

# Members of a body that bring tools: lists, and tools that a provider has stored.
_LISTS = LISTS | {"mcpservers", "plugins"}
_STORED = frozenset({"cachedcontent", "prompt"})
# Members in which a name such as "tools" is the caller's own: schemas of answers, notes.
_OTHERS = frozenset(
    {"responseformat", "text", "generationconfig", "outputformat", "outputconfig", "metadata", "labels"}
)
# Members that nearly all messages and their parts have; the others are looked at.
_OF_MESSAGES = frozenset(
    {
        *("role", "content", "name", "text", "type", "tool_calls", "tool_call_id", "function_call", "parts"),
        *("id", "call_id", "output", "arguments", "status", "tool_use_id", "is_error", "input", "summary"),
        *("cache_control", "image_url", "annotations", "refusal"),
    }
)
_MOST_VALUES = 100_000  # of the other members that are looked through
_NO_TOOLS = re.compile(
    r"(/openai)?(/v\d+\w*)?(/deployments/[^/]+)?"
    r"/(embeddings|moderations|rerank|audio/(speech|transcriptions|translations)|images/(generations|edits|variations)"
    r"|models/[^/:]+:(embedContent|batchEmbedContents))/?"
)
_PLAIN = re.compile(r"(/[A-Za-z0-9_~@:+-][A-Za-z0-9_~@:+.-]*)+/?")


def check_path(form: RequestForm | None, path: str, allowed: Collection[str]) -> None:
    """Checks a request with a body if rules apply to its caller.

    Args:
        form: of the request, by its decoded path.
        path: as it is sent, before any decoding.
        allowed: paths that pass; those below them, too.

    Raises:
        Denied: it may contain tools that are not checked.
    """
    is_plain = _PLAIN.fullmatch(path) is not None and not any(part.endswith(".") for part in path.split("/"))
    if is_plain and (form is not None or _NO_TOOLS.fullmatch(path)):
        return
    if is_plain and any(path == one or path.startswith(one.rstrip("/") + "/") for one in allowed):
        return
    raise Denied(
        "requests to this path may have tools that nobody looks at, and there are rules for this caller: use "
        "chat completions, responses, messages or generateContent; the operator can allow the path "
        "(upstream_allowed)"
    )


def tools_beside(form: RequestForm, values: Mapping[str, Any], allowed: Collection[str]) -> list[Any]:
    """The definitions of tools in a body, outside its list.

    values: the members of the body. allowed: members that are ignored.

    Raises:
        ValueError: a provider might take a member for the list.
        Denied: the tools of a member are stored at the provider.
    """
    found: list[Any] = []
    known = {plain_name(name) for name in form.tools}
    for name, value in values.items():
        plain = plain_name(name)
        if value is None or name in form.tools or name in form.choice or name in allowed or plain in _OTHERS:
            continue
        if plain in known:
            raise ValueError(f"its member {name!r:.80} may be taken for {form.tools[0]!r}")
        if (plain in _STORED and not isinstance(value, (str, list))) or plain == "cachedcontent":
            raise Denied(
                f"the member {name!r:.80} may bring tools that are stored at the provider, and there are "
                "rules for this caller; the operator can allow it (upstream_allowed)"
            )
        if plain == "websearchoptions":
            found.append({"type": "web_search"})
        elif name in form.messages:
            for item in value if isinstance(value, list) else [value]:
                content = item.get("content") if isinstance(item, dict) else None
                for part in (item, *content) if isinstance(content, list) else (item,):
                    if isinstance(part, dict) and not part.keys() <= _OF_MESSAGES:
                        for key in part:
                            if plain_name(key) in _LISTS:
                                found += _items(part[key], key)
        elif not isinstance(value, str):
            for key, inner in _lists_in({name: value}):
                found += _items(inner, key)
    return found


def check_beside(over: Toolroll, tools: Sequence[Any], context: Context) -> None:
    """Checks the tools outside a request's list. Such tools are refused, never removed.

    over: the roll over these tools.

    Raises:
        Denied: the caller may not have one of them.
    """
    allowed = over.visible(context).tools
    if len(allowed) != len(tools) or not all(map(is_, allowed, tools)):
        raise Denied(
            "the request has tools beside its list which rules do not allow, or which they cannot name"
        )


def _lists_in(value: Any) -> Iterator[tuple[str, Any]]:
    """Members that hold tools, at any depth."""
    waiting, seen = [value], 0
    while waiting:
        value = waiting.pop()
        seen += 1
        if seen > _MOST_VALUES:
            raise ValueError("it has too many values beside its list")
        if isinstance(value, Mapping):
            for key, inner in value.items():
                if plain_name(key) in _LISTS:
                    yield key, inner
                else:
                    waiting.append(inner)
        elif isinstance(value, list):
            waiting += value


def _items(value: Any, name: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"its member {name!r:.80} is no list")
    return value
