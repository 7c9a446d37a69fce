"""The registry as it began: twelve tables, and the two that only grow."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from toolroll.registry.store.tables import Id, Instant, Json, Number, Vector, Words

revision = "0001"
down_revision = None

ALIVE = sa.text("deleted_at IS NULL")
APPEND_ONLY = ("tool_versions", "changes")


def upgrade() -> None:
    """Makes everything."""
    op.create_table(
        "arm_statistics",
        sa.Column("tool_id", Id, nullable=False),
        sa.Column("context_key", Words, nullable=False),
        sa.Column("alpha", sa.Double, nullable=False),
        sa.Column("beta", sa.Double, nullable=False),
        sa.Column("selections", Number, nullable=False),
        sa.Column("successes", Number, nullable=False),
        sa.Column("updated_at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("tool_id", "context_key", name=op.f("pk_arm_statistics")),
    )
    op.create_table(
        "changes",
        sa.Column("seq", Number, autoincrement=True, nullable=False),
        sa.Column("revision", Number, nullable=False),
        sa.Column("org", Words, nullable=False),
        sa.Column("at", Instant, nullable=False),
        sa.Column("actor", Words, nullable=False),
        sa.Column("action", Words, nullable=False),
        sa.Column("subject", Words, nullable=False),
        sa.Column("reason", Words, nullable=False),
        sa.Column("details", Json, nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_changes")),
    )
    op.create_index(op.f("ix_changes_org_subject"), "changes", ["org", "subject"])
    op.create_index(op.f("ix_changes_revision"), "changes", ["revision"])
    op.create_table(
        "embeddings",
        sa.Column("identity", Words, nullable=False),
        sa.Column("content_hash", Words, nullable=False),
        sa.Column("vector", Vector, nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("identity", "content_hash", name=op.f("pk_embeddings")),
    )
    op.create_table(
        "page_mappings",
        sa.Column("page_id", Id, nullable=False),
        sa.Column("org", Words, nullable=False),
        sa.Column("pattern", Words, nullable=False),
        sa.Column("toolkits", Json, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("plugin", Words, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("updated_at", Instant, nullable=False),
        sa.Column("updated_by", Words, nullable=False),
        sa.Column("deleted_at", Instant),
        sa.Column("revision", Number, nullable=False),
        sa.PrimaryKeyConstraint("page_id", name=op.f("pk_page_mappings")),
    )
    op.create_index(op.f("ix_page_mappings_org_revision"), "page_mappings", ["org", "revision"])
    op.create_table(
        "plugins",
        sa.Column("org", Words, nullable=False),
        sa.Column("name", Words, nullable=False),
        sa.Column("version", Words, nullable=False),
        sa.Column("payload_hash", Words, nullable=False),
        sa.Column("review", Words, nullable=False),
        sa.Column("tools", sa.Integer, nullable=False),
        sa.Column("synced_at", Instant, nullable=False),
        sa.Column("synced_by", Words, nullable=False),
        sa.Column("revision", Number, nullable=False),
        sa.PrimaryKeyConstraint("org", "name", name=op.f("pk_plugins")),
    )
    op.create_table(
        "registry_state",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("revision", Number, nullable=False),
        sa.Column("tiers", Json, nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_registry_state_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_registry_state")),
    )
    op.create_table(
        "selection_events",
        sa.Column("event_id", Id, nullable=False),
        sa.Column("org", Words, nullable=False),
        sa.Column("at", Instant, nullable=False),
        sa.Column("session", Words, nullable=False),
        sa.Column("message", Words, nullable=False),
        sa.Column("page", Words, nullable=False),
        sa.Column("tier", Words, nullable=False),
        sa.Column("selected", Json, nullable=False),
        sa.Column("candidates", sa.Integer, nullable=False),
        sa.Column("profile", Words, nullable=False),
        sa.Column("latency_us", sa.Double, nullable=False),
        sa.Column("tokens_saved", sa.Integer, nullable=False),
        sa.Column("called", Json),
        sa.Column("outcome", Words),
        sa.Column("recorded_at", Instant),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_selection_events")),
    )
    op.create_index(op.f("ix_selection_events_org_at"), "selection_events", ["org", "at"])
    op.create_table(
        "settings",
        sa.Column("org", Words, nullable=False),
        sa.Column("key", Words, nullable=False),
        sa.Column("is_set", sa.Boolean, nullable=False),
        sa.Column("updated_at", Instant, nullable=False),
        sa.Column("updated_by", Words, nullable=False),
        sa.Column("revision", Number, nullable=False),
        sa.PrimaryKeyConstraint("org", "key", name=op.f("pk_settings")),
    )
    op.create_table(
        "toolkits",
        sa.Column("toolkit_id", Id, nullable=False),
        sa.Column("org", Words, nullable=False),
        sa.Column("name", Words, nullable=False),
        sa.Column("plugin", Words, nullable=False),
        sa.Column("description", Words, nullable=False),
        sa.Column("parent", Words),
        sa.Column("settings_keys", Json, nullable=False),
        sa.Column("base", sa.Boolean, nullable=False),
        sa.Column("tier", Words),
        sa.Column("keywords", Json, nullable=False),
        sa.Column("patterns", Json, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("updated_at", Instant, nullable=False),
        sa.Column("updated_by", Words, nullable=False),
        sa.Column("deleted_at", Instant),
        sa.Column("revision", Number, nullable=False),
        sa.PrimaryKeyConstraint("toolkit_id", name=op.f("pk_toolkits")),
    )
    op.create_index(op.f("ix_toolkits_org_revision"), "toolkits", ["org", "revision"])
    op.create_index(
        "uq_toolkits_org_name_alive",
        "toolkits",
        ["org", "name"],
        unique=True,
        sqlite_where=ALIVE,
        postgresql_where=ALIVE,
    )
    op.create_table(
        "tools",
        sa.Column("tool_id", Id, nullable=False),
        sa.Column("org", Words, nullable=False),
        sa.Column("name", Words, nullable=False),
        sa.Column("plugin", Words, nullable=False),
        sa.Column("toolkit", Words, nullable=False),
        sa.Column("display_name", Words, nullable=False),
        sa.Column("description", Words, nullable=False),
        sa.Column("parameters", Json),
        sa.Column("returns", Json),
        sa.Column("summary", Words, nullable=False),
        sa.Column("when_to_use", Words, nullable=False),
        sa.Column("limitations", Words, nullable=False),
        sa.Column("tags", Json, nullable=False),
        sa.Column("examples", Json, nullable=False),
        sa.Column("execution_type", Words, nullable=False),
        sa.Column("execution_config", Json),
        sa.Column("semantic_version", Words, nullable=False),
        sa.Column("status", Words, nullable=False),
        sa.Column("public", sa.Boolean, nullable=False),
        sa.Column("pinned", sa.Boolean, nullable=False),
        sa.Column("pin_weight", sa.Integer, nullable=False),
        sa.Column("content_hash", Words, nullable=False),
        sa.Column("source_hash", Words),
        sa.Column("review", Words, nullable=False),
        sa.Column("approved_version", sa.Integer),
        sa.Column("rejected_hash", Words),
        sa.Column("flags", Json, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("updated_at", Instant, nullable=False),
        sa.Column("updated_by", Words, nullable=False),
        sa.Column("deleted_at", Instant),
        sa.Column("revision", Number, nullable=False),
        sa.PrimaryKeyConstraint("tool_id", name=op.f("pk_tools")),
    )
    op.create_index(op.f("ix_tools_org_revision"), "tools", ["org", "revision"])
    op.create_index(op.f("ix_tools_plugin"), "tools", ["plugin"])
    op.create_index(
        "uq_tools_org_name_alive",
        "tools",
        ["org", "name"],
        unique=True,
        sqlite_where=ALIVE,
        postgresql_where=ALIVE,
    )
    op.create_table(
        "visibility_rules",
        sa.Column("rule_id", Id, nullable=False),
        sa.Column("org", Words, nullable=False),
        sa.Column("name", Words, nullable=False),
        sa.Column("effect", Words, nullable=False),
        sa.Column("kind", Words, nullable=False),
        sa.Column("condition", Json, nullable=False),
        sa.Column("tool", Words, nullable=False),
        sa.Column("toolkit", Words, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("active", sa.Boolean, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("updated_at", Instant, nullable=False),
        sa.Column("updated_by", Words, nullable=False),
        sa.Column("deleted_at", Instant),
        sa.Column("revision", Number, nullable=False),
        sa.PrimaryKeyConstraint("rule_id", name=op.f("pk_visibility_rules")),
    )
    op.create_index(op.f("ix_visibility_rules_org_revision"), "visibility_rules", ["org", "revision"])
    op.create_index(
        "uq_visibility_rules_org_name_alive",
        "visibility_rules",
        ["org", "name"],
        unique=True,
        sqlite_where=ALIVE,
        postgresql_where=ALIVE,
    )
    op.create_table(
        "tool_versions",
        sa.Column("tool_id", Id, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("snapshot", Json, nullable=False),
        sa.Column("changed", Json, nullable=False),
        sa.Column("reason", Words, nullable=False),
        sa.Column("actor", Words, nullable=False),
        sa.Column("at", Instant, nullable=False),
        sa.Column("content_hash", Words, nullable=False),
        sa.Column("semantic_version", Words, nullable=False),
        sa.Column("revision", Number, nullable=False),
        sa.ForeignKeyConstraint(["tool_id"], ["tools.tool_id"], name="fk_tool_versions_tool_id"),
        sa.PrimaryKeyConstraint("tool_id", "version", name=op.f("pk_tool_versions")),
    )
    if op.get_bind().dialect.name == "postgresql":
        _only_grow_on_postgresql()
    else:
        _only_grow_on_sqlite()


def _only_grow_on_postgresql() -> None:
    op.execute(
        """
        CREATE FUNCTION toolroll_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION '% only grows: its rows are neither changed nor deleted', TG_TABLE_NAME;
        END $$
        """
    )
    for table in APPEND_ONLY:
        op.execute(
            f"CREATE TRIGGER {table}_only_grow BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION toolroll_append_only()"
        )


def _only_grow_on_sqlite() -> None:
    for table in APPEND_ONLY:
        for event in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{event.lower()} BEFORE {event} ON {table} BEGIN "
                f"SELECT RAISE(ABORT, '{table} only grows: its rows are neither changed nor deleted'); END"
            )
    # INSERT OR REPLACE deletes without asking the triggers above
    for table, same in (
        ("tool_versions", "tool_id = NEW.tool_id AND version = NEW.version"),
        ("changes", "seq = NEW.seq"),
    ):
        op.execute(
            f"CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} "
            f"WHEN EXISTS (SELECT 1 FROM {table} WHERE {same}) BEGIN "
            f"SELECT RAISE(ABORT, '{table} only grows: its rows are neither changed nor deleted'); END"
        )
