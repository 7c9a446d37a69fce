"""Attackers with a budget: each file is one front that a stranger faces.

Every attack says in its docstring what it took before there was a limit, and asserts what it may take now. It is
bounded itself, in seconds and megabytes. `TOOLROLL_ATTACKS=long` runs the long forms (`tools/long_tier.sh attacks`).
"""

from __future__ import annotations

import os
from typing import TypeVar

_T = TypeVar("_T")
LONG = os.environ.get("TOOLROLL_ATTACKS") == "long"


def bounded(short: _T, long: _T) -> _T:
    """The size of an attack: the short one in the gate, the long one in the long tier."""
    return long if LONG else short
