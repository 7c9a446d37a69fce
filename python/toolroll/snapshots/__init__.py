"""Catalogs that are built once, published to a shared folder, and mapped by every process that selects.

A builder publishes (`publisher`), replicas follow (`replica`). Needs the extra `published`.
"""
