"""Writes selections and their outcomes, and folds outcomes into the statistics that selection reads.

Only this room writes events, outcomes and `learned`. If the order of outcomes or the arithmetic of the fold
changes, stored statistics no longer equal their outcomes.
"""
