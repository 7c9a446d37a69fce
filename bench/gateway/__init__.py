"""What the gateway costs: `python -m bench.gateway` (`docs/gateway.md`, Figures). Needs the extra `mcp`."""
