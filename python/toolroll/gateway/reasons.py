"""Says why a server is down, and how to fix it."""

from __future__ import annotations

import json
import os
import re
import signal
from contextlib import suppress
from http import HTTPStatus

from mcp import MCPError

from toolroll.formats.visible_text import one_line
from toolroll.gateway.protocol import CONNECT_ERRORS, host_of, is_closed

_LONGEST = 500  # characters of an error
_LONGEST_QUOTED = 200  # of a server's own words; in quotes they may take twice as many
# Lines that npx writes after the real error.
_SAYS_NOTHING = re.compile(r"npm notice|npm (error|ERR!)\s*(A complete log of this run|$)")
_ADVICE = {
    401: "it does not accept the header Authorization that is configured",
    403: "whoever is signed in, or the configured key, may not use it",
    404: "there is no MCP server at this url",
    405: "there is no MCP server at this url, or it has the other type of http and sse",
}


def quoted(words: str) -> str:
    """Quotes a server's own words as a JSON string, so that a reader sees where they end."""
    return json.dumps(one_line(words, _LONGEST_QUOTED), ensure_ascii=False)


def last_line(text: bytes, longest: int = _LONGEST_QUOTED) -> str:
    """Returns the last line with words; "" if there is none."""
    lines = text.decode("utf-8", "replace").split("\n")
    found = (line.strip() for line in reversed(lines))
    return next((line[:longest] for line in found if line and not _SAYS_NOTHING.match(line)), "")


def exit_reason(exit_code: int) -> str:
    """Describes the end of a process."""
    if exit_code >= 0:
        return f"it ended with exit code {exit_code}"
    with suppress(ValueError):
        return f"it was killed by {signal.Signals(-exit_code).name}"
    return f"it was killed by signal {-exit_code}"


def status_reason(status: int) -> str:
    """Explains an HTTP status that is no MCP answer."""
    with suppress(ValueError):
        told = f"its answer has the HTTP status {status} {HTTPStatus(status).phrase}"
        return f"{told}: {_ADVICE[status]}" if status in _ADVICE else told
    return f"its answer has the HTTP status {status}"


def reason_of(error: BaseException) -> str:
    """Describes an error in one line; for a group of errors the first one."""
    error = first_error(error)
    if isinstance(error, TimeoutError):
        return str(error) or "it did not answer in time"
    if isinstance(error, CONNECT_ERRORS):
        return f"it cannot be reached{host_of(error)}: {_cause(error)}"
    if isinstance(error, MCPError):
        if is_closed(error):
            return "it closed the connection"
        return f"it says {quoted(error.message)}"
    return one_line(str(error), _LONGEST) or type(error).__name__


def first_error(error: BaseException) -> BaseException:
    """Returns the error itself, or the first error of a group."""
    while inner := getattr(error, "exceptions", ()):
        error = inner[0]
    return error


def _cause(error: BaseException) -> str:
    """Returns the operating system's reason behind an error of a library."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)
    told = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return told or type(error).__name__
