"""Folds an organisation's outcomes into rows, the only statistics that selections read.

The keeper folds outcomes in the transaction that writes them (`add`): it reads the rows of their tools and
writes the changed rows. Other processes only read rows (`read`). However outcomes were batched, the rows
equal, to the last bit, a fold of all outcomes in order (`refold`).

The core (`Learned`) keeps sums, detectors and vectors. Counts in whole numbers never decay, and include
outcomes without weight.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import islice

import sqlalchemy as sa

from toolroll._core import Learned
from toolroll.registry.events import priors
from toolroll.registry.events.fold import Space, outcomes_of
from toolroll.registry.events.row_fold import FOR_CORE, LEVELS, SUBJECT, TOOL, VECTOR, RowFold, for_core
from toolroll.registry.events.rows import OutcomeRow
from toolroll.registry.store import tables
from toolroll.runtime.gil import GilYielder

_CHUNK = 2_000  # outcomes in one fold
_READ = 500  # rows that are put in place at once
_log = logging.getLogger("toolroll")
_state = tables.learning_state


def _statistics() -> sa.Subquery:
    tool, wanted = tables.learned, tables.learned.alias("wanted")
    is_theirs = sa.and_(
        wanted.c.org == tool.c.org,
        wanted.c.key == tool.c.subject,
        wanted.c.kind == SUBJECT,
        wanted.c.scope == tool.c.scope,
    )
    none = sa.literal(0.0)
    return (
        sa.select(
            *(tool.c[name] for name in ("org", "tool", "level", "context_key")),
            *(sa.func.coalesce(tool.c[name], none).label(name) for name in ("successes", "failures")),
            *(sa.func.coalesce(wanted.c[name], none).label(name) for name in ("calls", "expected")),
            *(tool.c[name] for name in ("shown", "called", "succeeded", "updated_at", "at")),
            wanted.c.at.label("wanted_at"),
        )
        .select_from(tool.outerjoin(wanted, is_theirs))
        .where(tool.c.kind == TOOL, tool.c.level.in_(LEVELS))
        .subquery("arm_statistics")
    )


# A row for each tool in each context. Sums have decayed to `at`, sums of calls to `wanted_at`.
arm_statistics = _statistics()


# Reading.


def read(connection: sa.Connection, org: str, above: int, space: Space, known: Learned) -> Learned:
    """The state after all rows above this number; its revision is still the old one.

    known: the state of the rows up to `above`, or the organisation's initial state.

    Raises:
        ValueError: a row is damaged.
    """
    table, yielder = tables.learned, GilYielder()
    query = (
        sa.select(*FOR_CORE)
        .where(
            table.c.org == org,
            table.c.revision > above,
            table.c.kind.in_((TOOL, SUBJECT)),
            sa.or_(table.c.level != VECTOR, table.c.scope == space.scope),
        )
        .order_by(table.c.key)
    )
    for some in connection.execute(query).partitions(_READ):
        known = known.with_rows(*for_core(some), known.revision)
        yielder()
    return known


# Folding.


def add(connection: sa.Connection, org: str, outcomes: Sequence[OutcomeRow]) -> None:
    """Adds outcomes after all earlier ones, and stores the number of the last. Needs `lease.lock`.

    Reads and writes only the rows of the outcomes' tools. If one is damaged, all outcomes are folded again.
    """
    query = sa.select(_state.c.deltas, _state.c.priors).where(_state.c.org == org)
    count, release = connection.execute(query).one()
    if outcomes[0].seq == 1:
        release = priors.latest_release(connection)
    fold = RowFold(connection, org, release)
    try:
        fold.read(outcomes, count)
    except (ValueError, TypeError, LookupError) as error:
        _log.warning("learning: what %r has learnt is folded again: %s", org, error)
        refold(connection, org, outcomes_of(connection, org))
        return
    fold.add(outcomes)
    fold.write(outcomes[-1].seq)


def refold(connection: sa.Connection, org: str, outcomes: Iterable[OutcomeRow]) -> int:
    """Folds all outcomes of an organisation, in their order. Needs `lease.lock`.

    Returns the number of rows that differed. If any did, the epoch rises, so that hosts read all rows.
    """
    seq, epoch, release = connection.execute(
        sa.select(_state.c.seq, _state.c.epoch, _state.c.priors).where(_state.c.org == org)
    ).one()
    fold, rest = RowFold(connection, org, release), iter(outcomes)
    while some := list(islice(rest, _CHUNK)):
        fold.add(some)
        seq = max(seq, some[-1].seq)
    wrong = fold.differing()
    if wrong:
        connection.execute(sa.delete(tables.learned).where(tables.learned.c.org == org))
        fold.write(seq)
    connection.execute(
        sa.update(_state).where(_state.c.org == org).values(seq=seq, epoch=epoch + bool(wrong))
    )
    return wrong
