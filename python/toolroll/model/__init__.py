"""The nouns of every room: tools, rules, context, identity, errors. Standard library and numpy only."""
