"""What was selected and what came of it, from the moment it is said to the moment it counts."""
