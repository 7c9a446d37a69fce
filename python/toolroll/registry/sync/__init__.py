"""Syncs and imports: definitions are checked, planned as a value, then applied completely or not at all.

`payload`, `planner` and `trust` are pure functions; only `state` and `sync` use a database.
"""
