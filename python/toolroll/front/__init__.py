"""Limits in front of all our HTTP servers, applied before a request uses memory.

`connections` limits the number of connections, and the bytes and the time of each. `bodies` limits the bytes
of all bodies that are in flight. `docs/budgets.md` has all limits in one table.
"""
