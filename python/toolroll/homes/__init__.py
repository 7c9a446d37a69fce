"""What a `Toolroll` works on: tools in memory, a registry, published catalogs."""
