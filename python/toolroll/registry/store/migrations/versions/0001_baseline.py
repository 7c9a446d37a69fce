"""The schema of the first release: where every upgrade begins.

An empty database does not run these steps. `schema.upgrade` creates it from `tables.metadata` and stamps it
with the last revision, so a step describes a change once, for databases that exist already:

1. Change `tables.py`, and add `0002_name.py` with the same change as Alembic operations.
2. Add "0002" to `schema.REVISIONS`.
3. Test that a database with the tables of the release before becomes the same as a new one.

Processes of the previous release keep reading and writing during a step. So a step only adds tables, and
columns with a server default. Unneeded tables and columns are removed one release later.
"""

from __future__ import annotations

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Does nothing: a database has at least this schema."""
