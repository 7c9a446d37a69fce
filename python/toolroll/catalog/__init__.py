"""The values that are computed once for a set of tools: texts, vectors, indexes, calibration.

A catalog never changes after it is built, and equal definitions with one embedder give equal catalogs. A
value that every turn would compute belongs here, unless it depends on the caller.
"""
