"""What is computed once for a set of tools: texts, vectors, indexes, calibration. A catalog never changes."""
