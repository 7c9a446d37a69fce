"""The mutable, versioned, audited truth behind catalogs."""
