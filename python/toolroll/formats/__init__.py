"""Everything about written forms: reads tool definitions, writes provider schemas, repairs model output.

Pure functions on plain values; nothing here knows a catalog or a session, and only `sources` reads files.
"""
