"""The drop-in: a proxy in front of a provider, which sends on the tools that matter.

`toolroll serve --upstream URL` runs it (`docs/drop-in.md`). Needs the extra `server`.
"""
