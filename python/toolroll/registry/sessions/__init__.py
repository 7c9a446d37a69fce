"""Stores conversations in the database, so that they survive restarts and move between processes."""
