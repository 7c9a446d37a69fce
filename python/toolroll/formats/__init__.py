"""Reads tool definitions, writes provider schemas, repairs model output. No state, no I/O but files."""
