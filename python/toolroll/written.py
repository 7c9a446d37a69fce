"""Values of parameters as people write them, on a command line or in a variable of the environment."""

from __future__ import annotations

import json
from collections.abc import Callable

_WORDS: dict[str, object] = {"on": True, "off": False, "none": None, "inf": float("inf")}


def value_of(text: str, read: Callable[[str], object] = json.loads) -> object:
    """JSON is read as such (7, 0.5, null, ["search"]), so are on, off, none and inf; all else is text.

    read: reads JSON; what is none makes it raise ValueError or RecursionError.
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return read(text)
    except (ValueError, RecursionError):
        return text
