"""A server for MCP whose tool shows secrets: for trying the hook."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("vault")


@server.tool()
def show(name: str) -> str:
    """Shows how to reach a database."""
    return f"{name}: postgres://app:hunter2@db/x, key AKIAIOSFODNN7EXAMPLE"


if __name__ == "__main__":
    server.run()
