"""One turn, from message to `Selection`. Decisions are pure; only `engine.py` has state."""
