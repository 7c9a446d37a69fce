"""How good the answers are: recall on labelled messages."""
