"""Simulates use with a known truth: worlds drawn from a seed, a simulated model, and metrics.

Every policy meets the same world, so nothing here may depend on a policy's selections.
"""
