"""The schema, the same on SQLite and PostgreSQL.

The types hide the differences of the two databases: text is compared by its bytes, an instant is UTC, JSON
keeps the order of its keys (models read them in that order), and a vector is an array or packed float32.
`schema.upgrade` creates the tables; migrations/versions/0001_baseline.py says how to change them.

Types and constraints restrict a column to values of its kind. On SQLite the tables are STRICT.

Rows of catalogs and policy have a `revision`: the registry's revision at their last change. Deleting such a
row sets `deleted_at`, so a replica reads all changes as the rows with a revision above its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.types import TypeDecorator, TypeEngine, UserDefinedType

from toolroll.model.rules import EFFECTS, KINDS
from toolroll.model.tools import STATUSES

SESSION_PARTS = 8  # tables of sessions on PostgreSQL, so that autovacuum cleans them side by side


def json_text(value: Any) -> str:
    """The stored form of JSON: compact, with the keys in their order."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=dict)


def _stored_as(name: str) -> Callable[[type[Any]], type[Any]]:
    """Names the type's storage in SQLite's STRICT tables: INTEGER, REAL, TEXT or BLOB."""

    def register(type_: type[Any]) -> type[Any]:
        compiles(type_, "sqlite")(lambda *_, **__: name)
        return type_

    return register


@_stored_as("INTEGER")
class Bool(sa.Boolean):
    """True or False."""


@_stored_as("REAL")
class Real(sa.Double[float]):
    """A number."""


class Share(Real):
    """A number above 0 and at most 1."""


@_stored_as("TEXT")
class Day(sa.Date):
    """A date."""


@_stored_as("TEXT")
class AnyJson(sa.JSON):
    """JSON: json, not jsonb, which sorts keys."""

    kind: str  # as both databases name it


class ObjectJson(AnyJson):
    """A JSON object."""

    kind = "object"


class ListJson(AnyJson):
    """A JSON list."""

    kind = "array"


class NameList(ListJson):
    """A JSON list of texts."""


class NameMap(ObjectJson):
    """A JSON object whose values are texts."""


class DurationMap(ObjectJson):
    """A JSON object whose values are milliseconds, from 0 to a day."""


# PostgreSQL would compare by the database's language; SQLite and Python compare by code points.
Words = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
# uuid4, as hex
Id = sa.String(32).with_variant(sa.String(32, collation="C"), "postgresql").with_variant(sa.Text(), "sqlite")
# SQLite numbers rows automatically only if the key is an INTEGER.
Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


@_stored_as("TEXT")
class _SqliteInstant(sqlite.DATETIME):
    """UTC, without its zone."""


_SQLITE_INSTANT = _SqliteInstant()  # type: ignore[no-untyped-call]


class Instant(TypeDecorator[datetime]):
    """An aware datetime in UTC. SQLite has no such type and stores it without its zone."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> TypeEngine[Any]:
        """Chooses the column's type by dialect."""
        return dialect.type_descriptor(_SQLITE_INSTANT if dialect.name == "sqlite" else self.impl_instance)

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        """Converts to UTC."""
        if value is None or dialect.name != "sqlite":
            return value
        return value.astimezone(timezone.utc).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        """Restores the zone."""
        if value is None:
            return None
        return value.replace(tzinfo=timezone.utc) if value.tzinfo is None else value.astimezone(timezone.utc)


class _Reals(UserDefinedType[Any]):
    """real[]; PostgreSQL converts it to pgvector's type."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "real[]"


class Vector(TypeDecorator[npt.NDArray[np.float32]]):
    """float32[dim], of any width: real[] or pgvector's on PostgreSQL, packed little-endian on SQLite."""

    impl = sa.LargeBinary
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> TypeEngine[Any]:
        """Chooses the column's type by dialect."""
        return dialect.type_descriptor(_Reals() if dialect.name == "postgresql" else sa.LargeBinary())

    def process_bind_param(self, value: npt.NDArray[np.float32] | None, dialect: sa.Dialect) -> Any:
        """Packs the vector, or lists its numbers."""
        if value is None:
            return None
        numbers = np.ascontiguousarray(value, "<f4")
        return numbers.tobytes() if dialect.name != "postgresql" else numbers.tolist()

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> npt.NDArray[np.float32] | None:
        """Reads the vector back."""
        if value is None:
            return None
        if dialect.name != "postgresql":
            return np.frombuffer(value, "<f4")
        if isinstance(value, str):  # pgvector's text
            return np.fromstring(value[1:-1], np.float32, sep=",")
        return np.array(value, np.float32)


metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)


def _governed() -> tuple[sa.Column[Any], ...]:
    """The columns that all editable rows share; see `GovernedRow`."""
    return (
        _counted("version"),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("updated_at", Instant, nullable=False),
        sa.Column("updated_by", Words, nullable=False),
        sa.Column("deleted_at", Instant),
        _counted("revision", Number),
    )


def _one_of(name: str, words: Iterable[str]) -> sa.Column[Any]:
    """A column that holds one of these words."""
    known = ", ".join(f"'{word}'" for word in sorted(words))
    return sa.Column(name, Words, sa.CheckConstraint(f"{name} IN ({known})", name=name), nullable=False)


def _required(type_: Any, *names: str) -> tuple[sa.Column[Any], ...]:
    """NOT NULL columns of this type."""
    return tuple(sa.Column(name, type_, nullable=False) for name in names)


def _word(name: str) -> sa.Column[Any]:
    return sa.Column(name, Words, nullable=False)


def _words(*names: str) -> tuple[sa.Column[Any], ...]:
    return _required(Words, *names)


def _counted(name: str, type_: TypeEngine[Any] = sa.Integer()) -> sa.Column[Any]:  # noqa: B008
    """A column of numbers from 1 on."""
    return sa.Column(name, type_, sa.CheckConstraint(f"{name} > 0", name=name), nullable=False)


_ALIVE = sa.text("deleted_at IS NULL")


def _unique(table: str, column: str) -> sa.Index:
    """Makes a column unique among an organisation's rows that are not deleted."""
    name = f"uq_{table}_org_{column}_alive"
    return sa.Index(name, "org", column, unique=True, sqlite_where=_ALIVE, postgresql_where=_ALIVE)


def _also_run(
    statement: str, target: sa.MetaData | sa.Table, event: str = "after_create", dialect: str = "postgresql"
) -> None:
    """Adds a statement to the creation of a table, or of all tables, on one dialect."""
    ddl = sa.DDL(statement)  # type: ignore[no-untyped-call]
    sa.event.listen(target, event, ddl.execute_if(dialect=dialect))


def _make_append_only(table: sa.Table, same_key: str) -> None:
    """Adds triggers that refuse to change or delete rows. same_key: the condition for rows with NEW's key."""
    problem = f"{table.name} only grows: its rows are neither changed nor deleted"
    refuse = f"BEGIN SELECT RAISE(ABORT, '{problem}'); END"
    sqlite = [
        f"CREATE TRIGGER {table.name}_no_{event.lower()} BEFORE {event} ON {table.name} {refuse}"
        for event in ("UPDATE", "DELETE")
    ]
    # INSERT OR REPLACE deletes without firing the triggers above
    sqlite.append(
        f"CREATE TRIGGER {table.name}_no_replace BEFORE INSERT ON {table.name} "
        f"WHEN EXISTS (SELECT 1 FROM {table.name} WHERE {same_key}) {refuse}"
    )
    for statement in sqlite:
        _also_run(statement, table, dialect="sqlite")
    _also_run(
        f"CREATE TRIGGER {table.name}_only_grow BEFORE UPDATE OR DELETE OR TRUNCATE ON {table.name} "
        "FOR EACH STATEMENT EXECUTE FUNCTION toolroll_append_only()",
        table,
    )


_APPEND_ONLY_FUNCTION = """
CREATE FUNCTION toolroll_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%% only grows: its rows are neither changed nor deleted', TG_TABLE_NAME;
END $$
"""
_also_run(_APPEND_ONLY_FUNCTION, metadata, "before_create")


tools = sa.Table(
    "tools",
    metadata,
    sa.Column("tool_id", Id, primary_key=True),
    *_words("org", "name", "plugin", "toolkit", "display_name", "description"),
    sa.Column("parameters", ObjectJson(none_as_null=True)),
    sa.Column("returns", ObjectJson(none_as_null=True)),
    sa.Column("annotations", ObjectJson(none_as_null=True)),
    sa.Column("icons", ListJson, nullable=False),
    sa.Column("meta", ObjectJson(none_as_null=True)),
    sa.Column("execution", ObjectJson(none_as_null=True)),
    *_words("summary", "when_to_use", "limitations"),
    *_required(NameList, "tags", "examples"),
    _word("execution_type"),
    sa.Column("execution_config", ObjectJson(none_as_null=True)),
    _word("semantic_version"),
    _one_of("status", STATUSES),
    *_required(Bool, "public", "pinned"),
    sa.Column("pin_weight", sa.Integer, nullable=False),
    *_words("interchangeable", "content_hash"),
    sa.Column("source_hash", Words),  # of the plugin's last payload; NULL if people wrote the tool
    sa.Column("source_values", ObjectJson, nullable=False, default=dict),  # see `field_owners`
    _one_of("review", ("approved", "pending", "changed")),
    sa.Column("approved_version", sa.Integer),
    sa.Column("served_version", sa.Integer),  # serves while the content of this row waits for approval
    sa.Column("rejected_hash", Words),  # rejected content, which a sync must not offer again
    sa.Column("flags", ListJson, nullable=False),
    *_governed(),
    _unique("tools", "name"),
    sa.Index(None, "org", "revision"),
    sa.Index(None, "plugin"),
)

# Append-only, by triggers.
tool_versions = sa.Table(
    "tool_versions",
    metadata,
    sa.Column("tool_id", Id, sa.ForeignKey("tools.tool_id", name="fk_tool_versions_tool_id"), nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("snapshot", ObjectJson, nullable=False),
    sa.Column("changed", NameList, nullable=False),
    *_words("reason", "actor"),
    sa.Column("at", Instant, nullable=False),
    *_words("content_hash", "semantic_version"),
    sa.Column("revision", Number, nullable=False),
    sa.PrimaryKeyConstraint("tool_id", "version"),
)
_make_append_only(tool_versions, "tool_id = NEW.tool_id AND version = NEW.version")

toolkits = sa.Table(
    "toolkits",
    metadata,
    sa.Column("toolkit_id", Id, primary_key=True),
    *_words("org", "name", "plugin", "description"),
    sa.Column("parent", Words),
    sa.Column("settings_keys", NameList, nullable=False),
    sa.Column("base", Bool, nullable=False),
    sa.Column("tier", Words),
    sa.Column("keywords", ListJson, nullable=False),  # [{"keyword", "mode"}]
    sa.Column("patterns", NameList, nullable=False),
    sa.Column("members", NameList, nullable=False),  # tools of other toolkits, by name or glob
    *_governed(),
    _unique("toolkits", "name"),
    sa.Index(None, "org", "revision"),
)

page_mappings = sa.Table(
    "page_mappings",
    metadata,
    sa.Column("page_id", Id, primary_key=True),
    *_words("org", "pattern"),
    sa.Column("toolkits", NameList, nullable=False),
    sa.Column("priority", sa.Integer, nullable=False),
    _word("plugin"),
    *_governed(),
    sa.Index(None, "org", "revision"),
)

visibility_rules = sa.Table(
    "visibility_rules",
    metadata,
    sa.Column("rule_id", Id, primary_key=True),
    *_words("org", "name"),
    _one_of("effect", EFFECTS),
    _one_of("kind", KINDS),
    sa.Column("condition", ObjectJson, nullable=False),
    *_words("tool", "toolkit"),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("active", Bool, nullable=False),
    *_governed(),
    sa.CheckConstraint("(tool = '') <> (toolkit = '')", name="target"),
    _unique("visibility_rules", "name"),
    sa.Index(None, "org", "revision"),
)

# An organisation's values in place of `pinned` and `pin_weight` of the platform's tools.
pins = sa.Table(
    "pins",
    metadata,
    sa.Column("pin_id", Id, primary_key=True),
    _word("org"),
    sa.Column("tool_id", Id, sa.ForeignKey("tools.tool_id", name="fk_pins_tool_id"), nullable=False),
    sa.Column("pinned", Bool, nullable=False),
    sa.Column("pin_weight", sa.Integer, nullable=False),
    *_governed(),
    _unique("pins", "tool_id"),
    sa.Index(None, "org", "revision"),
)

plugins = sa.Table(
    "plugins",
    metadata,
    *_words("org", "name", "version", "payload_hash"),
    _one_of("review", ("auto", "changed", "all")),
    _one_of("while_waiting", ("hidden", "approved")),  # the serving content of a tool whose change waits
    sa.Column("tools", sa.Integer, nullable=False),
    sa.Column("synced_at", Instant, nullable=False),
    _word("synced_by"),
    sa.Column("revision", Number, nullable=False),
    sa.PrimaryKeyConstraint("org", "name"),
)

# Whether a setting has a value; the value itself is never stored.
settings = sa.Table(
    "settings",
    metadata,
    *_words("org", "key"),
    sa.Column("is_set", Bool, nullable=False),
    sa.Column("updated_at", Instant, nullable=False),
    _word("updated_by"),
    sa.Column("revision", Number, nullable=False),
    sa.PrimaryKeyConstraint("org", "key"),
)

# The digests of an organisation's policy rows: {part: 32 hex digits}; see policy_digests.py.
policy_digests = sa.Table(
    "policy_digests",
    metadata,
    sa.Column("org", Words, primary_key=True),
    sa.Column("digests", ObjectJson, nullable=False),
)

embeddings = sa.Table(
    "embeddings",
    metadata,
    *_words("identity", "content_hash"),
    sa.Column("vector", Vector, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.PrimaryKeyConstraint("identity", "content_hash"),
)

# The tools that events and outcomes name, with a number for each text of a tool; keys are the same 64 bits,
# signed. Outcomes are kept forever, so rows are only added.
logged_tools = sa.Table(
    "logged_tools",
    metadata,
    sa.Column("number", Number, primary_key=True, autoincrement=True),
    _word("name"),
    *_required(Number, "arm", "intent", "tool_group"),
    sa.Column("stamp", Number, nullable=False),  # random: distinguishes two histories with the same numbers
    sa.UniqueConstraint("intent", "name", "arm", "tool_group"),
)

# Each selection, with a short result. Old rows are pruned: learning reads only `outcomes`.
selection_events = sa.Table(
    "selection_events",
    metadata,
    _word("org"),
    sa.Column("event_id", Id, nullable=False),
    sa.Column("at", Instant, nullable=False),
    *_words("reporter", "session", "message"),
    sa.Column("message_form", Words, nullable=False),  # kept, hashed or dropped
    *_words("page", "tier", "category"),
    sa.Column("propensity_error", Real),  # 0 is exact; NULL without propensities
    sa.Column("selected", NameList, nullable=False),  # in the order in which the model saw them
    *_words("profile", "experiment", "variant"),
    _word("unit"),  # of the experiment: a digest of the user, session or organisation
    sa.Column("seed", Number, nullable=False),  # the same 64 bits, signed
    sa.Column("latency_us", Real, nullable=False),
    sa.Column("tokens_selected", sa.Integer, nullable=False),
    sa.Column("tokens_total", sa.Integer, nullable=False),
    sa.Column("confidence", Real),
    _word("catalog_revision"),
    sa.Column("registry_revision", Number, nullable=False),
    sa.Column("learned_revision", Number, nullable=False),  # the organisation's last counted outcome
    sa.Column("degraded", NameList, nullable=False),
    sa.Column("space", Words, nullable=False),  # identity of the embedder
    sa.Column("share", Share, nullable=False),  # the probability with which such an event is logged
    # context, limits, timings, candidates, shown tools and vector, as `events.details` packs them
    sa.Column("details", sa.LargeBinary, nullable=False),
    sa.Column("called", NameMap(none_as_null=True)),  # tool → outcome
    sa.Column("outcome", Words),
    sa.Column("recorded_at", Instant),
    sa.Column("durations_ms", DurationMap(none_as_null=True)),  # tool → how long its call took; NULL: unknown
    sa.PrimaryKeyConstraint("org", "event_id", "at"),  # a key has the column of its partitions
    sa.Index(None, "org", "at"),
    sa.Index(None, "at"),
    sa.Index(None, "event_id"),  # for people who know no organisation
    postgresql_partition_by="RANGE (at)",
)
_also_run("CREATE TABLE selection_events_default PARTITION OF selection_events DEFAULT", selection_events)


def _sums(table: str, key: tuple[sa.Column[Any], ...], numbers: tuple[str, ...]) -> sa.Table:
    """Sums of an organisation's events by hour and by day, as `keeper.hours` makes them, in thousandths.

    key: further columns of the key, after the hour.
    """
    return sa.Table(
        table,
        metadata,
        sa.Column("org", Words, nullable=False),
        sa.Column("hours", sa.Integer, nullable=False, autoincrement=False),  # 1 or 24
        sa.Column("at", Instant, nullable=False),  # when they begin, in UTC
        *key,
        *(sa.Column(name, Number, nullable=False) for name in numbers),
        sa.PrimaryKeyConstraint("org", "hours", "at", *(column.name for column in key)),
        sa.Index(None, "hours", "at"),
        sqlite_with_rowid=False,  # in the order of the key, as reports read them
    )


def _bucket() -> sa.Column[Any]:
    return sa.Column("bucket", sa.Integer, nullable=False, autoincrement=False)


# A row without events (`logged` is 0) marks an hour whose events have changed since they were summed.
selection_sums = _sums(
    "selection_sums",
    _words("profile", "experiment", "variant", "degraded"),  # degraded: a JSON list
    (
        *("logged", "selections", "succeeded", "failed", "corrected", "wanted", "called", "unused"),
        *("latency_us", "tokens_selected", "tokens_total", "tools"),
    ),
)
for _name in ("first_at", "last_at"):  # of its events; without events: the end of the sums of the hour
    selection_sums.append_column(sa.Column(_name, Instant, nullable=False))
_CHANGED = sa.text("logged = 0")
sa.Index(
    "ix_selection_sums_changed",
    selection_sums.c.at,
    selection_sums.c.org,
    sqlite_where=_CHANGED,
    postgresql_where=_CHANGED,
)
latency_sums = _sums("latency_sums", (_bucket(),), ("selections",))
tool_sums = _sums(
    "tool_sums",
    (_word("page"), _word("tool"), _bucket()),  # of how long calls took; a constant for all other numbers
    # Events that showed the tool, have an outcome of it, have calls of it, have successful or failed calls,
    # needed it, needed and showed it; calls with a duration, and the sum of durations.
    (*("selected", "reported", "called", "succeeded", "failed", "needed", "hits"), *("timed", "duration_ms")),
)
# Selections without a known outcome, events with an outcome, and events with a success.
unit_sums = _sums("unit_sums", _words("experiment", "unit", "variant"), ("unknown", "answered", "succeeded"))
sa.Index("ix_unit_sums_experiment", unit_sums.c.experiment)

# One row for each report that changed something, in the order in which reports count. Rows are only added; a
# voided row no longer counts.
outcomes = sa.Table(
    "outcomes",
    metadata,
    _word("org"),
    sa.Column("seq", Number, nullable=False),  # per organisation, without gaps, in commit order
    sa.Column("event_id", Id, nullable=False),
    sa.Column("step", sa.Integer, nullable=False),  # within the event: its first report is 1
    sa.Column("at", Instant, nullable=False),  # of the event
    sa.Column("received_at", Instant, nullable=False),  # of the report
    *_words("reporter", "page", "tier", "category"),
    # the reported tools, or every shown tool if the row closes its event; and the message's vector, if it
    # counts; as `events.details` packs them
    sa.Column("details", sa.LargeBinary, nullable=False),
    sa.Column("closes", Bool, nullable=False),  # the event's first final row
    sa.Column("closing_weight", Real, nullable=False),  # the weight of the whole event
    _word("space"),
    sa.Column("voided_at", Instant),
    sa.Column("durations_ms", DurationMap(none_as_null=True)),  # of the tools that changed, as in events
    sa.PrimaryKeyConstraint("org", "seq", "at"),
    sa.UniqueConstraint("org", "event_id", "step", "at"),
    sa.Index(None, "org", "reporter"),
    postgresql_partition_by="RANGE (at)",
)
_also_run("CREATE TABLE outcomes_default PARTITION OF outcomes DEFAULT", outcomes)

# Records from the outboxes of hosts, until the keeper has counted them. The id makes each record count once.
inbox = sa.Table(
    "inbox",
    metadata,
    sa.Column("id", Id, primary_key=True),
    _word("org"),
    sa.Column("at", Real, nullable=False),  # of the event or the report; seconds since the epoch
    sa.Column("record", sa.LargeBinary, nullable=False),
    sa.Index(None, "at", "id"),  # the order in which they count
)

# One row: the process that writes statistics of events and outcomes; see `events.lease`.
keeper = sa.Table(
    "keeper",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    _word("holder"),
    sa.Column("until", Real, nullable=False),  # seconds since the epoch, by the database's clock
    sa.Column("figures", ObjectJson, nullable=False),  # of the keeper's work, for people
    sa.CheckConstraint("id = 1", name="one_row"),
)

# Events that have partial reports and are not closed yet.
open_events = sa.Table(
    "open_events",
    metadata,
    _word("org"),
    sa.Column("event_id", Id, nullable=False),
    sa.Column("closes_at", Instant, nullable=False),
    sa.Column("record", sa.LargeBinary, nullable=False),  # the report that closes it
    sa.PrimaryKeyConstraint("org", "event_id"),
    sa.Index(None, "closes_at"),
)

# One row for each organisation. It changes with the outcomes; hosts poll it.
learning_state = sa.Table(
    "learning_state",
    metadata,
    sa.Column("org", Words, primary_key=True),
    sa.Column("seq", Number, nullable=False),
    sa.Column("epoch", Number, nullable=False),  # raised when all is folded again: hosts then read all rows
    sa.Column("deltas", Number, nullable=False, server_default="0"),  # how many the fold has added
    sa.Column("priors", Number, nullable=False, server_default="0"),  # the release it began with; 0: none
    sa.Column("events_since", Instant),  # the first hour without deleted events; NULL: none was deleted
)

# Statistics of outcomes: the result of the fold (`registry.events.learned_rows`). `revision` is the number of
# the last outcome that changed the row; a host reads the rows above its own number.
#   kind "tool": by its name. Successes and failures at the levels everywhere, page, context and plain, with
#     whole numbers; at the level "state", the reporters and the change detector.
#   kind "subject": by name and text, or by group. Calls and expected calls at the first three levels; at the
#     level "state", the reporters; at the level "vector", the messages of one embedder.
#   kind "break": a time at which a tool broke; "run": the outcomes that may lead to a break.
learned = sa.Table(
    "learned",
    metadata,
    *_words("org", "kind"),
    sa.Column("key", Number, nullable=False, autoincrement=False),  # of `identity.ToolKey`, signed
    sa.Column("scope", Number, nullable=False, autoincrement=False),  # of the context or embedder, signed
    _word("level"),
    sa.Column("tool", Words, nullable=False),  # "" for a group
    sa.Column("context_key", Words, nullable=False),  # "", page, tier:page:category, or the embedder
    sa.Column("subject", Number),  # of a tool: the present key of its calls
    sa.Column("successes", Real),  # these four decay; values at `at`
    sa.Column("failures", Real),
    sa.Column("calls", Real),
    sa.Column("expected", Real),
    sa.Column("at", Real),  # seconds since the epoch, to the last bit; NULL: no sums yet
    sa.Column("shown", Number, nullable=False),  # these three never decay
    *_required(Number, "called", "succeeded"),
    sa.Column("state", sa.LargeBinary),
    sa.Column("revision", Number, nullable=False),
    sa.Column("updated_at", Instant),  # of whole numbers: the time of their newest event
    sa.PrimaryKeyConstraint("org", "key", "scope", "kind"),
    sa.Index(None, "org", "revision"),
    sa.Index(None, "kind", "level"),
)

# The number of outcomes of one reporter that counted for one tool on one day, which is limited. An empty tool
# stands for events without a call.
reporter_counts = sa.Table(
    "reporter_counts",
    metadata,
    *_words("org", "tool", "reporter"),
    sa.Column("day", Day, nullable=False),
    sa.Column("counted", sa.Integer, nullable=False),
    sa.PrimaryKeyConstraint("org", "tool", "reporter", "day"),
    sa.Index(None, "day"),
)

experiments = sa.Table(
    "experiments",
    metadata,
    sa.Column("name", Words, primary_key=True),
    _word("org"),
    sa.Column("variants", ObjectJson, nullable=False),  # {name: share}
    _one_of("unit", ("user", "session", "org")),
    _word("salt"),
    sa.Column("active", Bool, nullable=False),
    sa.Column("begun_at", Instant, nullable=False),
    sa.Column("ended_at", Instant),
)

# Keys that sign receipts. An old key stays as long as its receipts may arrive.
receipt_keys = sa.Table(
    "receipt_keys",
    metadata,
    sa.Column("key_id", Words, primary_key=True),
    sa.Column(
        "secret", sa.LargeBinary, sa.CheckConstraint("length(secret) >= 32", name="secret"), nullable=False
    ),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("retired_at", Instant),
)

# Keys of the service's callers. `digest` covers the secret and the rights of the key: neither changes alone.
service_keys = sa.Table(
    "service_keys",
    metadata,
    sa.Column("key_id", Id, primary_key=True),
    _word("name"),
    sa.Column("org", Words),  # NULL: any
    sa.Column("roles", NameList, nullable=False),
    _word("plugin"),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    _word("created_by"),
    sa.Column("expires_at", Instant),  # NULL: never
)

# People who sign in at the service with a password. Its hash also covers the rights of the account.
accounts = sa.Table(
    "accounts",
    metadata,
    sa.Column("name", Words, primary_key=True),
    sa.Column("org", Words),  # NULL: any
    sa.Column("roles", NameList, nullable=False),
    sa.Column("password", Words, nullable=False),  # Argon2id, as a PHC string
    sa.Column("created_at", Instant, nullable=False),
    _word("created_by"),
    sa.Column("changed_at", Instant, nullable=False),  # the password
)

# The state of a conversation between turns, such as the tools that it has loaded and used.
sessions = sa.Table(
    "sessions",
    metadata,
    *_words("org", "session"),
    sa.Column("turn", sa.Integer, nullable=False),
    sa.Column("record", ObjectJson, nullable=False),
    # Changes with each write and never repeats, so a process notices if another process deleted the session
    # and created it again.
    sa.Column("version", Number, nullable=False),
    *_required(Instant, "created_at", "updated_at"),
    sa.Column("expires_at", Instant),  # NULL: never
    sa.PrimaryKeyConstraint("org", "session"),
    sa.Index(None, "updated_at"),
    sa.Index(None, "expires_at"),
    # Not by month: a session is written again and again, and its key must stay unique.
    postgresql_partition_by="HASH (org)",
)
for _part in range(SESSION_PARTS):
    _values = f"WITH (MODULUS {SESSION_PARTS}, REMAINDER {_part})"
    _also_run(f"CREATE TABLE sessions_{_part} PARTITION OF sessions FOR VALUES {_values}", sessions)

# The audit log. Append-only, by triggers.
changes = sa.Table(
    "changes",
    metadata,
    sa.Column("seq", Number, primary_key=True, autoincrement=True),
    sa.Column("revision", Number, nullable=False),
    _word("org"),
    sa.Column("at", Instant, nullable=False),
    *_words("actor", "action", "subject", "reason"),
    sa.Column("details", ObjectJson, nullable=False),
    sa.Index(None, "revision"),
    sa.Index(None, "org", "subject"),
)
_make_append_only(changes, "seq = NEW.seq")

# One row. Writers lock it; replicas poll it.
registry_state = sa.Table(
    "registry_state",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("revision", Number, nullable=False),
    sa.Column("tiers", NameList, nullable=False),
    sa.Column(
        "policy_digest",
        Words,
        sa.CheckConstraint("length(policy_digest) = 32", name="policy_digest"),
        nullable=False,
    ),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("events_since", Instant),  # as in `learning_state`, for all organisations
    sa.CheckConstraint("id = 1", name="one_row"),
    sa.CheckConstraint("revision >= 0", name="revision"),
)


def _checks(column: sa.Column[Any]) -> Iterator[tuple[str, str]]:
    """The constraints of the column's kind: (dialect, condition)."""
    name, type_ = f'"{column.name}"', column.type
    if isinstance(type_, Bool):
        yield "sqlite", f"{name} IN (0, 1)"
    elif isinstance(type_, Instant):  # SQLite takes February 31 for March 3
        yield "sqlite", f"datetime({name}, '+0 days') IS substr({name}, 1, 19)"
    elif isinstance(type_, Day):
        yield "sqlite", f"date({name}, '+0 days') IS {name}"
    elif isinstance(type_, AnyJson):
        # before SQLite 3.45, json_valid(NULL) is 0
        yield "sqlite", f"{name} IS NULL OR (json_valid({name}) AND json_type({name}) = '{type_.kind}')"
        yield "postgresql", f"json_typeof({name}) = '{type_.kind}'"
    elif isinstance(type_, Share):
        for dialect in ("sqlite", "postgresql"):
            yield dialect, f"{name} > 0 AND {name} <= 1"


for _table in metadata.tables.values():
    _table.dialect_options["sqlite"]["strict"] = True
    for _column in _table.c:
        for _dialect, _check in _checks(_column):
            _table.append_constraint(
                sa.CheckConstraint(_check, name=f"{_column.name}_kind").ddl_if(dialect=_dialect)
            )
