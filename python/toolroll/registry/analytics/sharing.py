"""Releases priors for the platform's tools: counts of organisations that agreed, with noise.

Off by default: an organisation agrees with the setting `share_learning`, and only `share` releases anything.
The audit log, which cannot be edited, records the releases and the spent privacy budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from toolroll.model.errors import Denied
from toolroll.model.identity import tool_key
from toolroll.registry.analytics.privacy import MOST, Release, ToolCounts, release
from toolroll.registry.events.learned_rows import arm_statistics as _arms
from toolroll.registry.events.priors import ACTION, SUBJECT, shared_tool
from toolroll.registry.events.row_fold import EVERYWHERE
from toolroll.registry.follow.replica import Replica, catch_up
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

AGREES = "share_learning"  # an organisation's setting
GREATEST_TOTAL = 10.0  # default limit of epsilon over all releases


@dataclass(frozen=True, slots=True)
class PriorsRelease:
    """A release, and the epsilon of all releases so far."""

    release: Release
    spent: float

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        released = self.release
        return {
            "organisations": released.organisations,
            "epsilon": released.epsilon,
            "spent": self.spent,
            "most": released.most,
            "noise": released.noise,
            "tools": {name: counts._asdict() for name, counts in sorted(released.counts.items())},
        }


def share(
    database: Database,
    *,
    epsilon: float,
    actor: str,
    most: int = MOST,
    greatest_total: float = GREATEST_TOTAL,
    reason: str = "",
) -> PriorsRelease:
    """Releases shared priors, for organisations without outcomes of their own.

    Reads one row for each tool of each organisation that agreed. The noise is drawn before the transaction,
    which takes milliseconds.

    Raises:
        Denied: fewer than 20 organisations agreed, or it would spend more than `greatest_total` in all.
    """
    with database.reading() as connection:
        _check_budget(connection, epsilon, greatest_total)  # again below: another release may come between
        contributions = _contributions(connection)
    platform = catch_up(database, Replica(followed=frozenset())).tools.get("", {})
    keys = {tool.name: tool_key(tool) for tool in platform.values()}
    released = release(contributions, [*keys], epsilon=epsilon, most=most)
    with database.writing(actor) as write:
        spent = _check_budget(write.connection, epsilon, greatest_total)
        tools = {name: shared_tool(keys[name], counts._asdict()) for name, counts in released.counts.items()}
        details = {"epsilon": epsilon, "most": most, "organisations": released.organisations, "tools": tools}
        write.log(ACTION, SUBJECT, details, reason)
    return PriorsRelease(released, spent)


def _check_budget(connection: sa.Connection, epsilon: float, greatest_total: float) -> float:
    """Epsilon of all releases including this one. Raises Denied if it is above `greatest_total`."""
    spent = spent_so_far(connection) + epsilon
    if spent > greatest_total:
        raise Denied(
            f"sharing: would bring the total to epsilon {spent:g}, must be at most {greatest_total:g}"
        )
    return spent


def spent_so_far(connection: sa.Connection) -> float:
    """Epsilon of all releases."""
    log = tables.changes
    details = connection.execute(sa.select(log.c.details).where(log.c.action == ACTION)).scalars()
    return float(sum(each["epsilon"] for each in details))


def _contributions(connection: sa.Connection) -> list[dict[str, ToolCounts]]:
    """The counts of each organisation that agreed; empty for one without outcomes."""
    agreed = sa.select(tables.settings.c.org).where(
        tables.settings.c.key == AGREES, tables.settings.c.is_set, tables.settings.c.org != ""
    )
    found: dict[str, dict[str, ToolCounts]] = {org: {} for org in connection.execute(agreed).scalars()}
    rows = connection.execute(
        sa.select(_arms.c.org, _arms.c.tool, *(_arms.c[name] for name in ToolCounts._fields)).where(
            _arms.c.level == EVERYWHERE, _arms.c.org.in_(agreed)
        )
    )
    for org, tool, *counts in rows:
        if org in found:  # one that has agreed since is in the next release
            found[org][tool] = ToolCounts(*(max(0.0, count) for count in counts))
    return list(found.values())
