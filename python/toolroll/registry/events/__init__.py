"""Writes what was selected and what came of it, and folds it into the statistics that selection reads.

Only this room writes events, outcomes and `learned`; the order of outcomes and the arithmetic of the
fold must not change, or stored statistics no longer equal their outcomes.
"""
