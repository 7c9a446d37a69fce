"""A conversation as its caller drives it, turn by turn. Its state is in memory."""
