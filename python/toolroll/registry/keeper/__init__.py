"""The one writer of all that is derived from events and outcomes, in a thread of a host or in a process."""
