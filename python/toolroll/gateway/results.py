"""Results of calls: splits long ones into pages, and finds failures caused by wrong arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolroll.formats.repair.validation import Validator
from toolroll.gateway.clients import Clients
from toolroll.gateway.hooks import CallHook, PlannedCall
from toolroll.gateway.protocol import Json
from toolroll.gateway.tool_names import READ_RESULT
from toolroll.model.errors import InvalidInput
from toolroll.model.tools import Tool

_LARGEST_KEPT = 8_000_000  # of one
# A server's text that imitates the end of one of our pages, which tells a model the next call.
_FORGED_END = re.compile(r"\[(?=\s*(?i:page)\b[^\[\]]{0,80}\b" + READ_RESULT + r"\b)")

READ_RESULT_TOOL = Tool(
    READ_RESULT,
    "Reads on in a result that was too long to be shown at once.",
    {
        "type": "object",
        "properties": {
            "result_id": {"type": "string", "description": "As the end of the shortened result says."},
            "page": {
                "type": "integer",
                "minimum": 2,
                "description": "Which page; the result began with page 1.",
            },
        },
        "required": ["result_id", "page"],
        "additionalProperties": False,
    },
    annotations={"readOnlyHint": True},
)


class LimitResults(CallHook):
    """A hook that shows the first page of long results.

    The other pages stay in memory, for the same conversation only.
    """

    def __init__(self, limit: int, clients: Clients) -> None:
        """limit: characters of text in a result."""
        self._limit, self._clients = limit, clients

    async def after(self, call: PlannedCall, result: Json) -> Json:
        """Shortens the texts of a result. Structured content and images stay as they are.

        If a server's text imitates the end of one of our pages, its "[" becomes "(".
        """
        content = result.get("content")
        if not isinstance(content, list):
            return result
        if any(map(_has_end, content)):
            content = [_without_end(part) for part in content]
            result = {**result, "content": content}
        texts = [
            part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"
        ]
        size = sum(len(text) for text in texts if isinstance(text, str))
        if size <= self._limit:
            return result
        whole = "\n".join(text for text in texts if isinstance(text, str))[:_LARGEST_KEPT]
        others = [part for part in content if not (isinstance(part, dict) and part.get("type") == "text")]
        result_id = self._clients.keep_result(call.caller.client_key, whole)
        return {**result, "content": [{"type": "text", "text": self._page(result_id, whole, 1)}, *others]}

    def read(self, client_key: str, arguments: Json) -> str:
        """Returns a page of a result.

        Raises:
            InvalidInput: there is no such result or page; the text is for the model.
        """
        result_id, page = arguments.get("result_id"), arguments.get("page")
        if not isinstance(result_id, str) or not result_id:
            raise InvalidInput(
                "read_result: result_id is missing, must be the one at the end of a long result"
            )
        if (whole := self._clients.result(client_key, result_id)) is None:
            raise InvalidInput("read_result: there is no such result any more; call the tool again")
        last = -(-len(whole) // self._limit)
        try:
            number = int(page)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            number = 0
        if not 1 <= number <= last:
            raise InvalidInput(f"read_result: page is {page!r:.40}, must be from 1 to {last}")
        return self._page(result_id, whole, number)

    def _page(self, result_id: str, whole: str, page: int) -> str:
        last = -(-len(whole) // self._limit)
        text = whole[(page - 1) * self._limit : page * self._limit]
        if page == last:
            return text
        more = f'call {READ_RESULT} with {{"result_id": "{result_id}", "page": {page + 1}}} for the next page'
        return f"{text}\n\n[page {page} of {last}: {more}, or ask for less]"


def _has_end(part: object) -> bool:
    return any(READ_RESULT in text and _FORGED_END.search(text) for text in _texts(part))


def _texts(part: object) -> tuple[str, ...]:
    """Returns the texts that a model reads in a part: its own text, and the text of a resource in it."""
    if not isinstance(part, dict):
        return ()
    resource = part.get("resource")
    found = (part.get("text"), resource.get("text") if isinstance(resource, dict) else None)
    return tuple(text for text in found if isinstance(text, str))


def _without_end(part: Any) -> Any:
    if not _has_end(part):
        return part
    part = {key: _without_end(value) if key == "resource" else value for key, value in part.items()}
    return {**part, "text": _FORGED_END.sub("(", part["text"])} if isinstance(part.get("text"), str) else part


_READ = 2_000  # characters of a result
# Answers of servers made with the Python and TypeScript packages, if their own check refuses arguments.
_REFUSED = re.compile(r"-32602|[Ii]nput validation error|validation errors? for (?:\w+Arguments\b|call\[)")


def are_wrong(tool: Tool, arguments: Mapping[str, Any], result: Json) -> bool:
    """Whether a call failed because of its arguments: the result says so, or they break the schema.

    It takes half a second at most.
    """
    content = result.get("content")
    for part in content if isinstance(content, list) else ():
        text = part.get("text") if isinstance(part, dict) else None
        if isinstance(text, str) and _REFUSED.search(text[:_READ]):
            return True
    schema = tool.parameters or {}
    try:
        return not Validator(schema).accepts(arguments, schema)
    except Exception:  # too large to check, or an invalid schema: the cause is unknown
        return True
