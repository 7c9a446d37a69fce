"""Everything behind a database URL: tools, rules, sync, events, sessions, analytics, and updates."""
