"""Simulated use whose truth is known: worlds drawn from a seed, a simulated model, and what it measures.

Every policy meets the same world, so nothing here may depend on what a policy selected.
"""
