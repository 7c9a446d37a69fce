"""Watches the registry and builds the next catalog off the hot path."""
