"""Who may see which tool: rules, conditions, page mappings. Pure functions of a context."""
