"""Random decisions of all entry points, against an oracle that shares no code with the package."""
