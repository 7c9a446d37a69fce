"""A gateway: many MCP servers behind one, with selection, one decision and learning in between.

`toolroll mcp --config mcp.json` runs it (`docs/gateway.md`). Needs the extra `mcp`. Everything that differs
between the versions of the package `mcp` is in `mcp_versions.py`.
"""
