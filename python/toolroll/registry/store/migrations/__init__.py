"""Alembic's environment: its script, and one step for each change of the schema."""
