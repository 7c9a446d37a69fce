"""The service: selections from a registry over HTTP.

`toolroll serve --catalog URL` runs it (`docs/service.md`). Needs the extra `server`.
"""
