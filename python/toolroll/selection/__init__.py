"""One turn, from a message to a `Selection`.

Decisions are pure functions of a catalog and a turn; `engine.py` alone has state. A stage may be added or
changed freely (see `stages`), and `profiles.compose` alone says which stages run and in which order. What
must not change: only hard stages forbid, and a hard stage that fails leaves public tools alone.
"""
