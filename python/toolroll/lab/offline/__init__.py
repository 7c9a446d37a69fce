"""Processes more data than a database should serve: events in Parquet, on this machine or on Ray.

`work` runs independent tasks, `lake` finds events, `judging` and `redeciding` evaluate with them. Needs the
extra `offline` (DuckDB), and `ray` for a cluster.
"""
