"""Limits in front of every HTTP server of ours. They hold before anything of a request is kept.

`connections` limits what a connection may send, for how long, and how many there may be. `bodies` limits the
bytes of all bodies that are in flight. `docs/budgets.md` has all limits in one table.
"""
