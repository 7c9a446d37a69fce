"""The statistics of outcomes: the additions of each outcome, and the reporters. Pure functions and values.

Nothing here reads a clock, a store or a catalog. Only `memory.py`, which folds outcomes, holds a lock.
"""
