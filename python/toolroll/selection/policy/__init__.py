"""Rules and page mappings, compiled to sets of rows.

An attribute that a caller leaves empty is unknown, and unknown never shows a tool: keep it so. Explanations
and sets come from different code, so that tests can compare them.
"""
