"""Keeps the records of hosts in one file of each machine, and ships them to the registry."""
