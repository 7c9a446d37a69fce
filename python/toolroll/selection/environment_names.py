"""The names of all environment variables that are read, and a warning about those that nothing reads.

A misspelt variable changes nothing, and nobody would know. Nothing here reads a value.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import fields
from difflib import get_close_matches

from toolroll.selection.profiles import Profile

_log = logging.getLogger("toolroll")

PREFIX = "TOOLROLL_"
SERVER_PREFIX = PREFIX + "SERVER_"  # the service's settings; `server/setting_sources.py` refuses unknown ones
OTHERS = frozenset(
    PREFIX + name
    for name in (
        "CATALOG",
        "READ_REPLICA",
        "PROFILE",
        "EMBEDDER",
        "EMBEDDER_KEY",
        "LLM_KEY",
        "CACHE",
        "ISA",
        "COMPLETE",
        "CATALOG_KEY",
    )
)
NAMES = OTHERS | {PREFIX + field.name.upper() for field in fields(Profile)}
_MOST_WARNINGS = 20

warned: set[str] = set()  # names that this process has warned of


def warn_of_unknown(names: Iterable[str] = os.environ) -> None:
    """Logs each variable that begins as ours do and is none of ours, once, with the nearest name."""
    unknown = [
        name
        for name in names
        if name[: len(PREFIX)].upper() == PREFIX
        and name not in NAMES
        and not name.upper().startswith(SERVER_PREFIX)
    ]
    for name in [name for name in unknown if name not in warned][:_MOST_WARNINGS]:
        warned.add(name)
        known = [other.removeprefix(PREFIX) for other in sorted(NAMES)]  # all begin alike
        near = get_close_matches(name[len(PREFIX) :].upper()[:100], known, n=1)
        hint = (
            f"did you mean {PREFIX}{near[0]}?" if near else "docs/parameters.md has the names of all of them"
        )
        _log.warning("environment variable %.100s: is not read by toolroll; %s", name, hint)
