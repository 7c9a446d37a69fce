"""Turns an HTTP service into an MCP server within this process."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from mcp import MCPError
from mcp.shared.memory import create_client_server_memory_streams

from toolroll import __version__
from toolroll.formats.strict_json import decode, parse
from toolroll.gateway.openapi.operations import Operation, operations_of
from toolroll.gateway.openapi.requests import request_of
from toolroll.gateway.protocol import (
    HTTP_ERRORS,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    Json,
    Streams,
    httpx_client,
    text_result,
)
from toolroll.gateway.server_side import Incoming, ServerSide
from toolroll.model.errors import InvalidDefinition, InvalidInput

LARGEST_DOCUMENT = 32_000_000  # bytes
LARGEST_ANSWER = 4_000_000  # bytes
_MOST_TOLD = 50  # operations that were left out, in the log
_LONGEST_TOLD = 500  # characters of one


@asynccontextmanager
async def open_openapi(
    url: str, document: str, folder: Path, headers: Mapping[str, str], tell: Callable[[str], None]
) -> AsyncIterator[Streams]:
    """Yields streams to an MCP server for the service at the URL.

    document: a file of the folder, or a URL. headers: of all requests to the service. tell: gets a line for
        each omitted operation, in a thread.

    Raises:
        InvalidInput: the URL cannot belong to a service.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InvalidInput("its url must be http:// or https://, a host and maybe a path")
    async with (
        httpx_client(headers) as client,
        create_client_server_memory_streams() as (ours, theirs),
        anyio.create_task_group() as tasks,
    ):
        # It follows no redirects: they could lead to other services.
        service = _Service(client, url.rstrip("/"), document, folder, headers, tell)
        answers = {"tools/list": service.list_tools, "tools/call": service.call_tool}
        tasks.start_soon(ServerSide("openapi", __version__, "", answers).run, theirs)
        yield ours
        tasks.cancel_scope.cancel()


class _Service:
    """Answers the gateway's requests."""

    def __init__(
        self,
        client: Any,
        url: str,
        document: str,
        folder: Path,
        headers: Mapping[str, str],
        tell: Callable[[str], None],
    ) -> None:
        self._client, self._url, self._document = client, url, document
        self._folder, self._headers, self._tell = folder, headers, tell
        self._operations: Mapping[str, Operation] = {}
        self._problems: list[str] = []

    async def list_tools(self, incoming: Incoming) -> Json:
        """Reads the document again, since it may have changed."""
        try:
            content = await self._content()
            operations, problems = await anyio.to_thread.run_sync(_read, content, self._document)
        except Exception as error:  # the transport's errors are the package's own
            told = str(error) or type(error).__name__
            raise MCPError(INTERNAL_ERROR, f"its OpenAPI document: {told}") from error
        self._operations = operations
        if problems != self._problems:
            self._problems = problems
            lines = [problem[:_LONGEST_TOLD] for problem in problems[:_MOST_TOLD]]
            if len(problems) > _MOST_TOLD:
                lines.append(f"and {len(problems) - _MOST_TOLD:,} more")
            await anyio.to_thread.run_sync(self._tell, "".join(f"{line}\n" for line in lines))
        return {"tools": [one.tool for one in operations.values()]}

    async def call_tool(self, incoming: Incoming) -> Json:
        """Calls an operation."""
        operation = self._operations.get(incoming.params.get("name", ""))
        if operation is None:
            raise MCPError(INVALID_PARAMS, "there is no such operation")
        try:
            request = request_of(operation, incoming.params.get("arguments") or {})
        except InvalidInput as error:
            return text_result(str(error), is_error=True)
        own = {name.lower() for name in self._headers}
        stream = self._client.stream(
            request.method,
            f"{self._url}{request.target}",
            headers={name: value for name, value in request.headers.items() if name.lower() not in own},
            content=request.content,
        )
        try:
            async with stream as response:
                body = await _bounded(response, LARGEST_ANSWER)
        except InvalidInput as error:
            return text_result(str(error), is_error=True)
        except HTTP_ERRORS as error:
            told = str(error) or type(error).__name__
            raise MCPError(INTERNAL_ERROR, f"the service fails: {told}") from error
        return _answer(response, body)

    async def _content(self) -> bytes:
        if urlsplit(self._document).scheme not in ("http", "https"):
            path = self._folder / self._document
            return await anyio.to_thread.run_sync(_file, path)
        # Secrets go only to the service, not to another host of its document.
        is_own = urlsplit(self._document)[:2] == urlsplit(self._url)[:2]
        async with (
            httpx_client(self._headers if is_own else None) as client,
            client.stream("GET", self._document) as response,
        ):
            if response.status_code != 200:
                raise InvalidDefinition(f"{self._document}: is answered with {response.status_code}")
            return await _bounded(response, LARGEST_DOCUMENT)


def _file(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST_DOCUMENT + 1)
    except OSError as error:
        raise InvalidDefinition(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > LARGEST_DOCUMENT:
        raise InvalidDefinition(f"{path}: has more than {LARGEST_DOCUMENT:,} bytes")
    return content


def _read(content: bytes, name: str) -> tuple[dict[str, Operation], list[str]]:
    return operations_of(parse(decode(content, name), name))


async def _bounded(response: Any, most: int) -> bytes:
    """The body of a response.

    Raises:
        InvalidInput: it is too long.
    """
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > most:
            raise InvalidInput(f"the answer of the service has more than {most:,} bytes: ask for less")
    return bytes(body)


def _answer(response: Any, body: bytes) -> Json:
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    status = response.status_code
    if 300 <= status < 400:
        location = response.headers.get("location", "")
        return text_result(
            f"{status}: the service redirects to {location:.500}, which is not followed", is_error=True
        )
    if kind.startswith("image/") and status < 300:
        data = base64.b64encode(body).decode()
        return {"content": [{"type": "image", "mimeType": kind, "data": data}], "isError": False}
    try:
        text = body.decode(response.charset_encoding or "utf-8", "replace")
    except LookupError:
        text = body.decode("utf-8", "replace")
    if "\0" in text:
        text = f"{len(body):,} bytes of {kind or 'an unknown type'}"
    if status >= 400:
        return text_result(f"{status} {response.reason_phrase}: {text}".rstrip(": "), is_error=True)
    return text_result(text or f"{status} {response.reason_phrase}".strip(), is_error=False)
