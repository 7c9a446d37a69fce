"""Measures how good and how fast selections are: evaluation, simulation, examples, offline judging."""
