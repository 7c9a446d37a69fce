"""Reads events and outcomes for people: usage, tool health, experiments, off-policy evaluation, exports.

This room writes no events, outcomes or statistics. Only an export with `messages` reads users' texts.
"""
