"""What outcomes teach: which statistics a decision reads, and what one outcome adds to them."""
