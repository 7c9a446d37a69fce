"""Writes everything that is derived from events and outcomes, in a thread of a host or in its own process."""
