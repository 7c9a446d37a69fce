"""Keeps conversations in the store, so that they survive restarts and move between processes.

Only this room writes the table `sessions`.
"""
