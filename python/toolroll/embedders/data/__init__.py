"""Model files that the wheel carries, and the scripts that make them."""
