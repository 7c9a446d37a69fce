"""Keeps hosts' records in one file for each machine, and ships them to the registry."""
