"""Judges selection: how fast it is, how good it is."""
