"""The conclusion of a health check: whether requests may come, and which parts fail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from toolroll.model.errors import Failure


def readiness(is_closed: bool, failures: Iterable[Failure], passing: Mapping[str, str]) -> dict[str, Any]:
    """The entries `ready`, `degraded` and `why` of `Toolroll.health`.

    A part that fails does not make a process unready: it selects from the catalog that it has.

    passing: where → why, for failures of the last selection.
    """
    found = list(failures)
    why = [*map(str, found), *passing.values()]
    return {
        "ready": not is_closed,
        "degraded": list(dict.fromkeys((*[failure.where for failure in found], *passing))),
        "why": ["this Toolroll is closed; open another one", *why] if is_closed else why,
    }
