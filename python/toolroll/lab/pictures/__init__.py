"""Draws evaluations, simulations and usage as PNG files (extra `plot`); `drawing.py` is shared."""
