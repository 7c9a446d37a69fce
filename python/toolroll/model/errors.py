"""The tree of all errors that toolroll raises on purpose.

    ToolrollError
    ├── InvalidInput (ValueError)      the caller's value is wrong                            422
    │   └── InvalidDefinition          ... in a tool, toolkit, rule or settings file
    ├── NotFound (LookupError)         unknown tool, toolkit, session or event                404
    ├── Denied (PermissionError)       policy forbids what was asked for by name              403
    ├── Conflict                       name taken, or the version moved on                    409
    └── Unavailable                    a retry may succeed; has retry_after_s                 503
        ├── StoreUnavailable
        ├── EmbedderUnavailable
        └── Overloaded                 too many calls wait in this process

A message names the thing, its place, its value and the allowed values:
``toolkits/crm.json:41: tool 'crm_export': timeout_s is -1, must be > 0``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

_LONGEST_PLACE = 500  # characters of a file's name in a message


class ToolrollError(Exception):
    """The root of all errors that toolroll raises on purpose."""


class InvalidInput(ToolrollError, ValueError):
    """A value from the caller is invalid; the message says what is allowed."""


class InvalidDefinition(InvalidInput):
    """A definition is invalid: a tool, a toolkit, a route, a rule or a settings file.

    Attributes:
        problem: the error and the allowed values, without the place.
        file: the file as the caller named it, or the place in the caller's own list (``tools[3]``).
        line: 1-based line in that file.
        column: 1-based column of malformed text.
        field: the invalid key.
        tool: the name of the tool.
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
        field: str | None = None,
        tool: str | None = None,
    ) -> None:
        super().__init__(problem)  # args stay (problem,): a pickled error is rebuilt from them and __dict__
        self.problem = problem
        self.file = file
        self.line = line
        self.column = column
        self.field = field
        self.tool = tool

    def __str__(self) -> str:
        file = self.file
        if file is not None and (len(file) > _LONGEST_PLACE or not file.isprintable()):
            file = f"{file!r:.{_LONGEST_PLACE}}"
        place = ":".join(str(part) for part in (file, self.line, self.column) if part is not None)
        prefix = f"{place}: " if place else ""
        tool = "" if self.tool is None else f"tool {self.tool!r:.300}: "
        return f"{prefix}{tool}{self.problem}"


class NotFound(ToolrollError, LookupError):
    """There is no tool, toolkit, session or event of that name."""


class Denied(ToolrollError, PermissionError):
    """Policy forbids something that was requested by name."""


class Conflict(ToolrollError):
    """The name is taken, or the version has changed since it was read."""


class Unavailable(ToolrollError):
    """Something outside the process failed, or the process has too much to do; a retry may succeed.

    Attributes:
        retry_after_s: seconds to wait before a retry; None if unknown.
    """

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class StoreUnavailable(Unavailable):
    """The database does not answer."""


class EmbedderUnavailable(Unavailable):
    """The embedder does not answer, or its answer is invalid."""


class Overloaded(Unavailable):
    """Too many calls of event loops wait for a thread. This call has not begun: nothing has happened."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that failed in a selection, which continued without it.

    Attributes:
        where: name of the stage or dependency.
        error: the exception.
    """

    where: str
    error: Exception

    def __str__(self) -> str:
        return f"{self.where}: {self.error or type(self.error).__name__}"


def quoted(value: object) -> str:
    """A value for a message: its beginning on one line, or its type if it cannot be written."""
    try:
        text = repr(value)
    except Exception:  # too deep, too many digits, or an object whose `__repr__` fails
        return f"a {type(value).__name__} that cannot be shown"
    return text[:80] if text.isprintable() else " ".join(text[:1_000].split())[:80]


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """The end of a message, "did you mean …?", with the most similar name; "" if none is similar."""
    folded = {each.lower(): each for each in names}
    near = get_close_matches(name[:100].lower(), folded, 1, cutoff)
    return f"; did you mean {folded[near[0]]!r}?" if near else ""
