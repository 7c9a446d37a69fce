"""Everything behind a database URL: tools, toolkits and rules, sync, events, sessions, analytics, following.

The files directly here edit and read what people govern. They use `store` for SQL and never import `events`,
`sessions`, `analytics` or `home`.
"""
