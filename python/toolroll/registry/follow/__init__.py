"""Keeps a process up to date with its registry. Runs in the background and swaps whole snapshots."""
