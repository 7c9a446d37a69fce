"""Everything that toolroll raises on purpose, in one tree.

    ToolrollError
    ├── InvalidInput (ValueError)      the caller's value is wrong                            422
    │   └── InvalidDefinition          ... in a tool, toolkit, rule or settings file
    ├── NotFound (LookupError)         unknown tool, toolkit, session or event                404
    ├── Denied (PermissionError)       policy forbids what was asked for by name              403
    ├── Conflict                       name taken, or the version moved on                    409
    └── Unavailable                    something outside failed; has retry_after_s            503
        ├── StoreUnavailable
        └── EmbedderUnavailable

A message says which thing, where, what it was and what is allowed:
``toolkits/crm.json:41: tool 'crm_export': timeout_s is -1, must be > 0``.
"""

from __future__ import annotations

from dataclasses import dataclass


class ToolrollError(Exception):
    """The root: catch this to catch whatever toolroll raises on purpose."""


class InvalidInput(ToolrollError, ValueError):
    """A value that the caller gave is wrong; the message says what is allowed."""


class InvalidDefinition(InvalidInput):
    """A definition is wrong: a tool, a toolkit, a route, a rule or a settings file.

    Attributes:
        problem: what is wrong and what is allowed, without the place.
        file: the file as the caller named it, or the place in the caller's own list (``tools[3]``).
        line: 1-based line in that file.
        column: 1-based column, where the text itself is malformed.
        field: the key that is wrong.
        tool: the name of the tool it was found in.
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
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        prefix = f"{place}: " if place else ""
        tool = "" if self.tool is None else f"tool {self.tool!r}: "
        return f"{prefix}{tool}{self.problem}"


class NotFound(ToolrollError, LookupError):
    """There is no tool, toolkit, session or event of that name."""


class Denied(ToolrollError, PermissionError):
    """Policy forbids what was asked for by name."""


class Conflict(ToolrollError):
    """The name is taken, or the version has moved on since it was read."""


class Unavailable(ToolrollError):
    """Something outside the process failed; trying again may help.

    Attributes:
        retry_after_s: how long to wait before the next try, or None if nobody knows.
    """

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class StoreUnavailable(Unavailable):
    """The database does not answer."""


class EmbedderUnavailable(Unavailable):
    """The embedder does not answer, or what it answered is no vector."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that failed on the way and cost its own contribution only.

    Attributes:
        where: name of the stage or dependency.
        error: what it raised.
    """

    where: str
    error: Exception

    def __str__(self) -> str:
        return f"{self.where}: {self.error or type(self.error).__name__}"


def quoted(value: object) -> str:
    """A value as a message shows it: its beginning; its type where that is too deep or long to be written."""
    try:
        return f"{value!r:.80}"
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} that is too large to be shown"
