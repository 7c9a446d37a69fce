"""The homes of a `Toolroll`: tools in memory, a registry, published catalogs."""
