"""Model files that the wheel carries; `tools/train/` makes them."""
