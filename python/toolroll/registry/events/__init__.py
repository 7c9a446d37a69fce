"""Writes selections and their outcomes, and folds outcomes into the statistics that selection reads.

Only this room writes events, outcomes and `learned`. If a release changes the order of outcomes or the
arithmetic of the fold, stored statistics no longer match their outcomes.
"""
