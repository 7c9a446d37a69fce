"""Names and tools as a caller gives them, looked at where they enter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from toolroll.errors import InvalidInput
from toolroll.tools import Tool


def names_of(value: object, what: str) -> frozenset[str]:
    """The names in a collection; InvalidInput for anything else, one text among it, which is letters."""
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping)):
        raise InvalidInput(f"{what} is {value!r:.80}, must be a list of tool names")
    names = list(value)
    for name in names:
        if not isinstance(name, str):
            raise InvalidInput(f"{what} holds {name!r:.80}, must hold tool names")
    return frozenset(names)


def tools_of(value: object, what: str) -> tuple[Tool, ...]:
    """The tools in a collection, in its order; InvalidInput for anything else."""
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping)):
        raise InvalidInput(f"{what} is {value!r:.80}, must be a list of Tool objects")
    tools = tuple(value)
    for tool in tools:
        if not isinstance(tool, Tool):
            raise InvalidInput(
                f"{what} holds {tool!r:.80}, must hold Tool objects, such as a selection's `definitions`"
            )
    return tools
