"""Keeps conversations in the store, so that they survive restarts and move between processes."""
