"""Writes the arguments of a call as path, query, headers and body of an HTTP request."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from toolroll.gateway.openapi.operations import BODY, FORM, TEXT, Operation, Parameter
from toolroll.model.errors import InvalidInput

_DELIMITERS = {"spaceDelimited": " ", "pipeDelimited": "|"}


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    """A request. `target` begins with "/" and is relative to the address of the service."""

    method: str
    target: str
    headers: Mapping[str, str]
    content: bytes | None


def request_of(operation: Operation, arguments: Mapping[str, Any]) -> ServiceRequest:
    """Returns the request of a call. No argument can change the operation's path.

    Raises:
        InvalidInput: an argument is missing, unknown or cannot be written.
    """
    known = {one.argument for one in operation.parameters} | ({BODY} if operation.media_type else set())
    if unknown := arguments.keys() - known:
        raise InvalidInput(
            f"argument {min(unknown)!r:.100} is unknown; there are {', '.join(sorted(known)) or 'none'}"
        )
    path, query, headers = operation.path, list[tuple[str, str]](), dict[str, str]()
    for one in operation.parameters:
        value = arguments.get(one.argument)
        if value is None:
            if one.is_required:
                raise InvalidInput(f"argument {one.argument!r:.100} is missing")
        elif one.place == "query":
            query += _query(one, value)
        elif one.place == "header":
            headers[one.name] = _header(one, value)
        else:
            path = path.replace(f"{{{one.name}}}", _segment(one, value))
    if any(part in (".", "..") for part in path.split("/")):
        raise InvalidInput("the arguments lead to another path")
    content = None
    if operation.media_type and BODY in arguments:
        content = _content(operation.media_type, arguments[BODY])
        headers["content-type"] = operation.media_type
    elif BODY in operation.tool["inputSchema"].get("required", ()):
        raise InvalidInput(f"argument {BODY!r} is missing")
    target = quote(path, safe="/%:@!$&'()*+,;=~-._")
    if query:
        target += f"?{urlencode(query, quote_via=quote, safe='')}"
    return ServiceRequest(
        operation.method, target if target.startswith("/") else f"/{target}", headers, content
    )


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _segment(parameter: Parameter, value: Any) -> str:
    """Writes a part of the path, without a slash and without a step to the folder above."""
    if isinstance(value, dict):
        raise InvalidInput(f"argument {parameter.argument!r:.100} is an object, must be a text or a number")
    texts = [_text(each) for each in value] if isinstance(value, list) else [_text(value)]
    # Many services take the escapes out before they look at the path.
    if any(part in (".", "..") for text in texts for part in text.replace("\\", "/").split("/")):
        raise InvalidInput(f"argument {parameter.argument!r:.100} leads to another path")
    written = ",".join(quote(text, safe="", errors="replace") for text in texts)
    if not written:
        raise InvalidInput(f"argument {parameter.argument!r:.100} is empty, must be a part of a path")
    return written


def _query(parameter: Parameter, value: Any) -> Iterator[tuple[str, str]]:
    name = parameter.name
    if isinstance(value, list):
        if parameter.style == "form" and parameter.explode:
            yield from ((name, _text(each)) for each in value)
        else:
            yield name, _DELIMITERS.get(parameter.style, ",").join(map(_text, value))
    elif isinstance(value, dict):
        if parameter.style == "deepObject":
            yield from ((f"{name}[{key}]", _text(each)) for key, each in value.items())
        elif parameter.explode:
            yield from ((key, _text(each)) for key, each in value.items())
        else:
            yield name, ",".join(f"{key},{_text(each)}" for key, each in value.items())
    else:
        yield name, _text(value)


def _header(parameter: Parameter, value: Any) -> str:
    text = ",".join(map(_text, value)) if isinstance(value, list) else _text(value)
    if not text.isascii() or not text.isprintable():
        raise InvalidInput(f"argument {parameter.argument!r:.100} must be printable ASCII: it is a header")
    return text


def _content(media_type: str, value: Any) -> bytes:
    kind = media_type.partition(";")[0].strip().lower()
    if kind == TEXT and isinstance(value, str):
        return value.encode("utf-8", "replace")
    if kind == FORM:
        if not isinstance(value, dict):
            raise InvalidInput(f"argument {BODY!r} must be an object")
        pairs = [
            (key, _text(one))
            for key, each in value.items()
            for one in (each if isinstance(each, list) else [each])
        ]
        return urlencode(pairs, errors="replace").encode()
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
