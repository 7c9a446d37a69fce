"""Requests with hostile values at every place of every body, path, query and header of an OpenAPI description.

No values of a kind are spared: halves of surrogate pairs, NUL, numbers beyond what anything holds, NaN, deep nesting,
long texts, wrong types, missing and unknown members. The same seed makes the same requests.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

_TEXTS = (
    *("", " ", "\ud800", "a\udfffb", "\x00", "a\x00b", "\n## forged", "\u202e\u200b", "\ufeff", "é" * 300),
    *(
        "a" * 600,
        "a" * 70_000,
        "../../etc",
        "%00",
        "%ed%a0%80",
        "' OR 1=1 --",
        "null",
        "-1",
        "1e999",
        "🙂",
        "\\ud800",
    ),
    *(
        "*",
        "a*b*c",
        "(" * 200,
        "[",
        "{}",
        "2026-13-45",
        "9" * 5_000,
        "trr1.aa.bb",
        "tr.éé",
        "x" * 32,
        "0" * 24,
    ),
)
_NUMBERS = (
    *(0, -1, 1, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 2**200, 10**399, 1.5, 1e308, -0.0, 5e-324),
    *(float("nan"), float("inf"), float("-inf")),
)
_OTHERS = (None, True, False, [], {}, [[]], {"": ""}, [None], {"a": None}, {"\ud800": 1}, {"\x00": 1})
_KNOWN = {  # what leads a request deeper
    "effect": ["allow", "deny"],
    "kind": ["org", "user", "page", "role", "tier", "composite"],
    "status": ["active", "retired", "disabled"],
    "per": ["day", "hour"],
    "profile": ["default", ""],
    "schemas": ["openai", "anthropic", "gemini", "mcp"],
    "level": ["everywhere", "page", "context", "plain"],
}


class HostileRequests:
    """Makes requests from an OpenAPI description."""

    def __init__(self, openapi: Mapping[str, Any], names: list[str], seed: int) -> None:
        """names: of rows that there are; a part of the requests have them."""
        self._schemas = openapi["components"]["schemas"]
        self._names, self._random = names, random.Random(seed)
        self._operations = [
            (method.upper(), path, operation)
            for path, methods in openapi["paths"].items()
            for method, operation in methods.items()
        ]

    def __iter__(self) -> Iterator[tuple[str, str, bytes | None, dict[str, str]]]:
        """Method, path with query, body and headers, without end; all operations in turn."""
        while True:
            for method, path, operation in self._operations:
                yield self._request(method, path, operation)

    def _request(
        self, method: str, path: str, operation: Mapping[str, Any]
    ) -> tuple[str, str, bytes | None, dict[str, str]]:
        query, headers = [], {"If-Match": self._one("*", '"1"', "", "x", '"' + "9" * 9 + '"', "*")}
        for parameter in operation.get("parameters", ()):
            name, place = parameter["name"], parameter["in"]
            value = self._text_of(self._value(parameter.get("schema", {}), name, 0))
            if place == "path":
                path = path.replace("{" + name + "}", quote(value, safe="", errors="surrogatepass") or "x")
            elif place == "query" and self._random.random() < 0.3:
                query.append(f"{quote(name)}={quote(value, errors='surrogatepass')}")
        if self._random.random() < 0.03:
            query.append(self._one("zz=1", "org=%ff", "limit=%00", "&&&=", "org=acme&org=beta"))
        body = None
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            body = self._bytes(schema)
            headers["Content-Type"] = self._one(
                *["application/json"] * 30, "text/plain", "application/x+json", ""
            )
        return method, path + (f"?{'&'.join(query)}" if query else ""), body, headers

    def _bytes(self, schema: Mapping[str, Any]) -> bytes:
        chance = self._random.random()
        if chance < 0.04:
            deep = self._random.choice((100, 900, 5_000, 100_000))
            return self._one(
                b"",
                b"{",
                b"\xff\xfe{}",
                b"\xed\xa0\x80",
                b"nul",
                b"[" * deep,
                b'{"a":' * deep + b"1" + b"}" * deep,
            )
        value = self._value(schema, "", 0)
        if chance < 0.5 and isinstance(value, (dict, list)):
            value = self._damaged(value)
        text = json.dumps(value)  # with \ud800 as such, and NaN, as many clients write it
        if chance < 0.06:
            text = text.replace(": 1", ": " + "9" * self._random.choice((400, 4_000, 5_000)))
        return text.encode()

    def _damaged(self, value: Any) -> Any:
        """The value with one part replaced, removed or added."""
        if isinstance(value, dict) and value and self._random.random() < 0.8:
            key = self._random.choice([*value])
            chance = self._random.random()
            if chance < 0.15:
                return {name: item for name, item in value.items() if name != key}
            if chance < 0.3:
                return {**value, self._one("zz", key + "s", key.upper(), "\ud800", "", "__proto__"): 1}
            return {**value, key: self._damaged(value[key])}
        if isinstance(value, list) and value and self._random.random() < 0.7:
            at = self._random.randrange(len(value))
            return [*value[:at], self._damaged(value[at]), *value[at + 1 :]]
        return self._hostile()

    def _hostile(self) -> Any:
        chance = self._random.random()
        if chance < 0.5:
            return self._one(*_TEXTS)
        if chance < 0.75:
            return self._one(*_NUMBERS)
        if chance < 0.95:
            return self._one(*_OTHERS)
        deep: Any = self._one(*_TEXTS)
        for _ in range(self._random.choice((5, 70, 300))):
            deep = [deep] if self._random.random() < 0.5 else {self._one(*_TEXTS[:9], "a"): deep}
        return deep

    def _value(self, schema: Mapping[str, Any], name: str, depth: int) -> Any:
        """A value that the schema allows, or nearly."""
        if "$ref" in schema:
            schema = self._schemas[schema["$ref"].rpartition("/")[2]]
        if "examples" in schema and self._random.random() < 0.4:
            return self._random.choice(schema["examples"])
        if "anyOf" in schema:
            return self._value(self._random.choice(schema["anyOf"]), name, depth)
        if "enum" in schema or "const" in schema:
            return self._random.choice(schema.get("enum", [schema.get("const")]))
        kind = schema.get("type", "")
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            count = 0 if depth > 5 else self._random.choice((0, 1, 1, 2))
            return [self._value(schema.get("items", {}), name, depth + 1) for _ in range(count)]
        if kind == "boolean":
            return self._random.random() < 0.5
        if kind in ("integer", "number"):
            return self._one(*_NUMBERS[:8], 1, 2, 5, 10, 100)
        if kind == "null":
            return None
        if self._random.random() < 0.5:
            return self._random.choice(_KNOWN.get(name) or self._names)
        return self._one(*_TEXTS)

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        required = schema.get("required", ())
        made = {
            name: self._value(part, name, depth + 1)
            for name, part in schema.get("properties", {}).items()
            if name in required or (depth < 6 and self._random.random() < 0.5)
        }
        more = schema.get("additionalProperties")
        if (more or not schema.get("properties")) and depth < 6:
            part = more if isinstance(more, dict) else {}
            for _ in range(self._random.choice((0, 1, 2))):
                key = self._random.choice((*self._names, *_TEXTS[:12], *_FIELDS))
                made[key] = self._value(part, "", depth + 1) if part else self._hostile()
        return made

    def _text_of(self, value: Any) -> str:
        return value if isinstance(value, str) else json.dumps(value)

    def _one(self, *values: Any) -> Any:
        return self._random.choice(values)


# Of bodies that the description calls an object.
_FIELDS = (
    *(
        "name",
        "description",
        "parameters",
        "toolkit",
        "tags",
        "examples",
        "status",
        "pinned",
        "pin_weight",
        "version",
    ),
    *(
        "annotations",
        "icons",
        "returns",
        "summary",
        "execution_config",
        "interchangeable",
        "semantic_version",
    ),
    *(
        "pattern",
        "categories",
        "priority",
        "effect",
        "condition",
        "tool",
        "active",
        "inputSchema",
        "function",
        "type",
    ),
)
