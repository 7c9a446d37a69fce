"""The values that are computed once for a set of tools: texts, vectors, indexes, calibration.

A catalog never changes after it is built, and equal definitions with one embedder give equal catalogs. Add
values that each turn would compute again. Values that depend on the caller belong to `selection`.
"""
