"""What use teaches: events, outcomes, and what is counted from them.

The two tables of the first step that were to hold events and statistics were never written to: they make way.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from toolroll.registry.store.tables import Id, Instant, Json, Number, Words

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Makes the tables of learning."""
    op.add_column("tools", sa.Column("interchangeable", Words, nullable=False, server_default=""))
    op.drop_table("arm_statistics")
    op.drop_table("selection_events")
    op.create_table(
        "selection_events",
        sa.Column("event_id", Id, nullable=False),
        sa.Column("org", Words, nullable=False),
        sa.Column("at", Instant, nullable=False),
        sa.Column("reporter", Words, nullable=False),
        sa.Column("session", Words, nullable=False),
        sa.Column("message", Words, nullable=False),
        sa.Column("message_form", Words, nullable=False),
        sa.Column("page", Words, nullable=False),
        sa.Column("tier", Words, nullable=False),
        sa.Column("category", Words, nullable=False),
        sa.Column("context", Json, nullable=False),
        sa.Column("limits", Json, nullable=False),
        sa.Column("candidates", Json, nullable=False),
        sa.Column("propensity_error", sa.Double),
        sa.Column("selected", Json, nullable=False),
        sa.Column("shown", Json, nullable=False),
        sa.Column("profile", Words, nullable=False),
        sa.Column("experiment", Words, nullable=False),
        sa.Column("variant", Words, nullable=False),
        sa.Column("seed", Number, nullable=False),
        sa.Column("latency_us", sa.Double, nullable=False),
        sa.Column("timings", Json, nullable=False),
        sa.Column("tokens_selected", sa.Integer, nullable=False),
        sa.Column("tokens_total", sa.Integer, nullable=False),
        sa.Column("confidence", sa.Double),
        sa.Column("catalog_revision", Words, nullable=False),
        sa.Column("registry_revision", Number, nullable=False),
        sa.Column("learned_revision", Number, nullable=False),
        sa.Column("degraded", Json, nullable=False),
        sa.Column("space", Words, nullable=False),
        sa.Column("vector", sa.LargeBinary),
        sa.Column("called", Json),
        sa.Column("outcome", Words),
        sa.Column("recorded_at", Instant),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_selection_events")),
    )
    op.create_index(op.f("ix_selection_events_org_at"), "selection_events", ["org", "at"])
    op.create_index(op.f("ix_selection_events_at"), "selection_events", ["at"])
    op.create_table(
        "outcomes",
        sa.Column("org", Words, nullable=False),
        sa.Column("seq", Number, nullable=False),
        sa.Column("event_id", Id, nullable=False),
        sa.Column("step", sa.Integer, nullable=False),
        sa.Column("at", Instant, nullable=False),
        sa.Column("received_at", Instant, nullable=False),
        sa.Column("reporter", Words, nullable=False),
        sa.Column("page", Words, nullable=False),
        sa.Column("tier", Words, nullable=False),
        sa.Column("category", Words, nullable=False),
        sa.Column("entries", Json, nullable=False),
        sa.Column("closes", sa.Boolean, nullable=False),
        sa.Column("closing_weight", sa.Double, nullable=False),
        sa.Column("vector", sa.LargeBinary),
        sa.Column("space", Words, nullable=False),
        sa.Column("voided_at", Instant),
        sa.PrimaryKeyConstraint("org", "seq", name=op.f("pk_outcomes")),
        sa.UniqueConstraint("event_id", "step", name=op.f("uq_outcomes_event_id_step")),
    )
    op.create_index(op.f("ix_outcomes_org_reporter"), "outcomes", ["org", "reporter"])
    op.create_table(
        "open_events",
        sa.Column("event_id", Id, nullable=False),
        sa.Column("org", Words, nullable=False),
        sa.Column("closes_at", Instant, nullable=False),
        sa.Column("exposure", Json, nullable=False),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_open_events")),
    )
    op.create_index(op.f("ix_open_events_closes_at"), "open_events", ["closes_at"])
    op.create_table(
        "learning_state",
        sa.Column("org", Words, nullable=False),
        sa.Column("seq", Number, nullable=False),
        sa.Column("epoch", Number, nullable=False),
        sa.PrimaryKeyConstraint("org", name=op.f("pk_learning_state")),
    )
    op.create_table(
        "learned_checkpoints",
        sa.Column("org", Words, nullable=False),
        sa.Column("rates", Words, nullable=False),
        sa.Column("seq", Number, nullable=False),
        sa.Column("epoch", Number, nullable=False),
        sa.Column("learned", sa.LargeBinary, nullable=False),
        sa.Column("at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("org", "rates", "seq", name=op.f("pk_learned_checkpoints")),
    )
    op.create_table(
        "arm_statistics",
        sa.Column("org", Words, nullable=False),
        sa.Column("tool", Words, nullable=False),
        sa.Column("level", Words, nullable=False),
        sa.Column("context_key", Words, nullable=False),
        sa.Column("successes", sa.Double, nullable=False),
        sa.Column("failures", sa.Double, nullable=False),
        sa.Column("calls", sa.Double, nullable=False),
        sa.Column("expected", sa.Double, nullable=False),
        sa.Column("shown", Number, nullable=False),
        sa.Column("called", Number, nullable=False),
        sa.Column("succeeded", Number, nullable=False),
        sa.Column("updated_at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("org", "tool", "level", "context_key", name=op.f("pk_arm_statistics")),
    )
    op.create_table(
        "reporter_counts",
        sa.Column("org", Words, nullable=False),
        sa.Column("tool", Words, nullable=False),
        sa.Column("reporter", Words, nullable=False),
        sa.Column("day", sa.Date, nullable=False),
        sa.Column("counted", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("org", "tool", "reporter", "day", name=op.f("pk_reporter_counts")),
    )
    op.create_index(op.f("ix_reporter_counts_day"), "reporter_counts", ["day"])
    op.create_table(
        "shared_priors",
        sa.Column("tool", Words, nullable=False),
        sa.Column("successes", sa.Double, nullable=False),
        sa.Column("failures", sa.Double, nullable=False),
        sa.Column("calls", sa.Double, nullable=False),
        sa.Column("expected", sa.Double, nullable=False),
        sa.Column("organisations", sa.Integer, nullable=False),
        sa.Column("epsilon", sa.Double, nullable=False),
        sa.Column("at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("tool", name=op.f("pk_shared_priors")),
    )
    op.create_table(
        "experiments",
        sa.Column("name", Words, nullable=False),
        sa.Column("org", Words, nullable=False),
        sa.Column("variants", Json, nullable=False),
        sa.Column("unit", Words, nullable=False),
        sa.Column("salt", Words, nullable=False),
        sa.Column("active", sa.Boolean, nullable=False),
        sa.Column("begun_at", Instant, nullable=False),
        sa.Column("ended_at", Instant),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_experiments")),
    )
    op.create_table(
        "receipt_keys",
        sa.Column("key_id", Words, nullable=False),
        sa.Column("secret", sa.LargeBinary, nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("retired_at", Instant),
        sa.PrimaryKeyConstraint("key_id", name=op.f("pk_receipt_keys")),
    )
