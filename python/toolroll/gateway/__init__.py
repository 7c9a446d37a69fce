"""A gateway: many MCP servers behind one, with selection, policy and learning in between.

`toolroll mcp --config mcp.json` runs it (`docs/gateway.md`). Needs the extra `mcp`.
"""
