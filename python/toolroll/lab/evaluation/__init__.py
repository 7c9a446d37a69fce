"""Measures selections: how good they are on labelled messages, how fast, what learning adds.

Only the command line and benchmarks call it. What toolroll itself wants to reach stands in `bench/`.
"""
