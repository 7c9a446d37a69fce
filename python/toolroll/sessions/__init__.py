"""Conversations, turn by turn. Their state is in memory; a store may keep it, too."""
