"""Who may use a registry: service keys, accounts, and page sessions that have ended."""
