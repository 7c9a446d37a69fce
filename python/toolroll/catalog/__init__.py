"""What is computed once for a set of tools: texts, vectors, indexes, calibration.

A catalog never changes after it is built, and equal definitions with one embedder give equal catalogs. Add
what a turn would compute again each time; what depends on who asks belongs to `selection`.
"""
