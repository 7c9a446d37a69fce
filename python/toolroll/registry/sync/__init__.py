"""Syncs and imports definitions: checks them, plans the steps as a value, applies all of them or none.

`payload`, `planner` and `trust` are pure; only `registry_state` and `sync` use a database.
"""
