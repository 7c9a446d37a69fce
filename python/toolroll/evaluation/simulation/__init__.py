"""Simulated worlds that show what learning does. Everything is drawn from a seed."""
