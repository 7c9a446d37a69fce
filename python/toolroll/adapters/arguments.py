"""Arguments that all adapters share: tools, caller and conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypedDict

from toolroll.model.context import Context
from toolroll.model.errors import InvalidInput, quoted
from toolroll.roll import LONGEST_SESSION

ContextOf = Callable[..., Context]
ContextReader = Callable[..., "Context | None"]


class SelectionOptions(TypedDict, total=False):
    """The number of tools in each turn, and tools that every turn has: arguments of `ToolSelector`.

    Attributes:
        max_tools: how many tools are sent at most, beside `always_include`, hosted tools, and tools that
            the framework itself adds. Left out, or None: no limit.
        always_include: names of tools that every turn has. Unknown names are ignored.
        k: how many tools retrieval finds, as in `Toolroll.select`.
    """

    max_tools: int | None
    always_include: Iterable[str]
    k: int | None


def checked_context(context: object, argument: str = "context") -> Context | None:
    """The context, or None.

    argument: its name, for the error.

    Raises:
        InvalidInput: it has another type, so rules for a user would not apply.
    """
    if context is not None and not isinstance(context, Context):
        raise InvalidInput(f"{argument}: is {quoted(context)}, must be toolroll.Context or None")
    return context


def context_reader(
    context: Context | ContextOf | None, called_with: str, *, argument: str = "context"
) -> ContextReader:
    """A function that returns the caller. Adapters take a `Context`, a function that makes one, or None.

    called_with: the function's argument, in words. argument: the name of `context` in the adapter, for the
        error.

    Raises:
        InvalidInput: `context` has another type. The returned function raises it if the caller's function
            returns no context, so that a forgotten `return` does not select for an anonymous caller.
    """
    if context is None or isinstance(context, Context):
        return lambda *_: context
    if not callable(context):
        raise InvalidInput(
            f"{argument}: is {quoted(context)}, must be toolroll.Context, a function of {called_with}, "
            "or None"
        )
    made_by = context

    def read(*arguments: Any) -> Context:
        made: object = made_by(*arguments)
        if not isinstance(made, Context):
            raise InvalidInput(
                f"{argument}: its function returned {quoted(made)}, must return toolroll.Context; Context() "
                "is a caller of whom nothing is known"
            )
        return made

    return read


def check_conversation(name: object, argument: str = "conversation") -> None:
    """Checks the name of a conversation. None means that each turn stands alone.

    argument: its name, for the error.

    Raises:
        InvalidInput: it is empty, too long, or no text.
    """
    if name is not None and not (isinstance(name, str) and 0 < len(name) <= LONGEST_SESSION):
        raise InvalidInput(
            f"{argument}: is {quoted(name)}, must be a name of 1 to {LONGEST_SESSION:,} characters"
        )
