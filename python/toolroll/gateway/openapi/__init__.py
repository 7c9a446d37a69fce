"""HTTP services with an OpenAPI document as servers: each operation is a tool."""
