"""Service keys, accounts, and ended sessions of the page."""
