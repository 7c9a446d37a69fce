"""Page patterns, compiled to toolkits."""
