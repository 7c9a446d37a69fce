"""The statistics that a new organisation starts with, if organisations share theirs.

The shared counts weigh as much as a few observations, so a dozen outcomes of the organisation's own outweigh
them. Without a release (`toolroll events learning share`) there are none.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt

from toolroll._core import DELTA
from toolroll.identity import NONE, scopes, tool_key
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.registry.store.row_reader import read_rows
from toolroll.tools import Tool

MOST_CALLS, MOST_EXPECTED = 10.0, 5.0  # observations that the counts of one tool weigh at most


def shared_priors(database: Database, tools: Mapping[str, Tool]) -> npt.NDArray[np.void]:
    """DELTA[n]: the shared counts of the platform's tools.

    tools: the platform's tools by name.

    Raises:
        StoreUnavailable: the store cannot be read.
    """
    table = tables.shared_priors
    with database.reading() as connection:
        found_rows = read_rows(connection, list(table.c), order_by=(table.c.tool,))
        rows = [SimpleNamespace(**row) for row in found_rows]
    everywhere = scopes("", "", "").everywhere
    found = []
    for row in rows:
        tool = tools.get(row.tool)
        if tool is None:
            continue
        calls = min(1.0, MOST_CALLS / max(row.successes + row.failures, 1e-9))
        expected = min(1.0, MOST_EXPECTED / max(row.expected, 1e-9))
        counts = (calls * row.successes, calls * row.failures, expected * row.calls, expected * row.expected)
        where = (row.at.timestamp(), everywhere, NONE, NONE, NONE)
        found.append((*where, *tool_key(tool), *counts, -1, 0, 0.0, NONE))
    return np.array(found, DELTA)
