"""What a new organisation begins with, where organisations share what they learnt of the platform's tools.

The shared counts stand for a few observations of the organisation's own, so that a dozen outcomes outweigh
them. Without a release (`toolroll events learning share`) there are none.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from toolroll.identity import NONE, scopes, tool_key
from toolroll.learning.effects import DELTA
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.tools import Tool

MOST_CALLS, MOST_EXPECTED = 10.0, 5.0  # observations that the counts of one tool stand for


def shared_priors(database: Database, tools: Mapping[str, Tool]) -> npt.NDArray[np.void]:
    """DELTA[n]: of the platform's tools that something is shared of; empty for none.

    tools: the platform's, by their names.

    Raises:
        StoreUnavailable: the store cannot be read.
    """
    table = tables.shared_priors
    with database.reading() as connection:
        rows = connection.execute(sa.select(table).order_by(table.c.tool)).all()
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
