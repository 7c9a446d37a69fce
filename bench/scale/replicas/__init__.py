"""Many replicas of one registry, each a process with the real code, on a PostgreSQL with faults."""
