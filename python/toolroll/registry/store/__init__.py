"""Where the registry is kept: one schema, SQLite or PostgreSQL."""
