"""Charts of figures that were measured elsewhere. Draws, and computes nothing."""
