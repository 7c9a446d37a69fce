"""One schema on SQLite or PostgreSQL: connections, transactions, errors and bulk inserts.

There are two databases and no interface for a third: queries of other rooms also ask for the dialect.
"""
