"""Measures selections: their quality on labelled messages, their speed, and the effect of learning.

Only the command line and benchmarks call it. toolroll's own goals are in `bench/`.
"""
