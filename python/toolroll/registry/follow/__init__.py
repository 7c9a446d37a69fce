"""Keeps a running process up to date with its registry.

It replaces whole snapshots of the engine and never changes a snapshot in use.
"""
