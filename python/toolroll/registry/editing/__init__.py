"""Everything that changes the tools, rules and settings of a registry, one subject a file."""
