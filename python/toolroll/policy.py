"""Rules, compiled to sets of rows."""
