"""Simulated use whose truth is known: worlds drawn from a seed, a simulated model, and the metrics.

Every policy meets the same world, so nothing here may depend on a policy's selections.
"""
