"""What an outcome adds to the statistics, and what statistics say: pure functions and values.

Nothing here reads a clock, a store or a catalog. Only `memory.py`, which folds outcomes, holds a lock.
"""
