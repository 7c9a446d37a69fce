"""Picks the few tools that a message needs, out of a catalog of ten to a million."""

from __future__ import annotations
