"""Work over more data than a database should be asked for: events in Parquet, on this machine or on Ray.

`work` runs tasks in order-independent pieces, `lake` finds events, `judging` and `redeciding` judge by them.
Needs the extra `offline` (DuckDB), and `ray` for a cluster.
"""
