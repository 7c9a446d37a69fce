"""Whether answers are those that an OpenAPI description has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import jsonschema

METHODS = ("get", "put", "post", "delete")


class Description:
    """The operations of an OpenAPI description."""

    def __init__(self, openapi: Mapping[str, Any]) -> None:
        self.components = openapi["components"]
        self.operations = {
            (method.upper(), path): operation
            for path, methods in openapi["paths"].items()
            for method, operation in methods.items()
        }

    def operation(self, method: str, path: str) -> Mapping[str, Any] | None:
        """The operation of a request; of several, the one with the longest path."""
        for template in sorted({path for _, path in self.operations}, key=len, reverse=True):
            # FastAPI writes {page:path} as {page}: such a parameter has slashes.
            pattern = re.sub(
                r"\\{(\w+)\\}", lambda found: ".+" if found[1] == "page" else "[^/]+", re.escape(template)
            )
            if re.fullmatch(pattern, path):
                return self.operations.get((method, template))
        return None

    def check(self, method: str, path: str, status: int, content_type: str, answer: Any) -> None:
        """Fails unless this answer is described. Paths and methods that do not exist are not."""
        operation = self.operation(method, path)
        if operation is None:
            assert path == "/openapi.json" or status in (401, 404, 405, 421, 429, 503), (method, path, status)
            return
        described = operation["responses"].get(str(status))
        assert described is not None, (method, path, status, "is not described")
        if "content" not in described:
            assert not answer, (method, path, status, answer)
            return
        kind = content_type.partition(";")[0]
        assert kind in described["content"], (method, path, status, kind)
        schema = described["content"][kind].get("schema", {})
        jsonschema.Draft202012Validator({**schema, "components": self.components}).validate(answer)
