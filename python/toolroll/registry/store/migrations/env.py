"""What Alembic runs: the steps, on the connection and in the transaction that `Database` gives it."""

from __future__ import annotations

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    version_table=context.config.attributes["version_table"],
)
context.run_migrations()
