"""Where a reference inside a schema leads. Nothing is ever fetched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote


def resolve(root: Any, reference: str) -> Mapping[str, Any] | None:
    """What a reference into the same schema points to; None for any other, and for what is no object."""
    if reference != "#" and not reference.startswith("#/"):
        return None
    value = root
    for part in reference[2:].split("/") if reference != "#" else ():
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and len(key) < 10 and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value if isinstance(value, Mapping) else None
