"""Syncs and imports definitions: checks them, makes a plan, and applies all of it or nothing.

`payload`, `planner` and `trust` are pure; only `registry_state` and `sync` use a database.
"""
