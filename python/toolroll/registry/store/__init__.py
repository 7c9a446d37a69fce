"""One schema on SQLite or PostgreSQL: connections, transactions, errors and bulk inserts.

Only this package knows SQL dialects and drivers; it knows nothing of what the tables mean.
"""
