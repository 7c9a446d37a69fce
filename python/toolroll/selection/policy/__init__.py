"""Rules and page mappings, compiled to sets of rows.

What a caller leaves empty is unknown, and unknown never shows a tool: a change here must keep that. The
words of an explanation and the sets come from different code, so that tests can compare them.
"""
