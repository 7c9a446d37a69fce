"""Checks who asks: a `Context` that a caller passes, or that a function of the caller's makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolroll.model.context import Context
from toolroll.model.errors import InvalidInput, quoted

ContextOf = Callable[..., Context]
_Reader = Callable[..., "Context | None"]


def checked_context(context: object, argument: str = "context") -> Context | None:
    """The context, where there is one.

    argument: its name.

    Raises:
        InvalidInput: it is something else. Rules for a user would not apply.
    """
    if context is not None and not isinstance(context, Context):
        raise InvalidInput(f"{argument}: is {quoted(context)}, must be toolroll.Context or None")
    return context


def context_reader(
    context: Context | ContextOf | None, called_with: str, *, argument: str = "context"
) -> _Reader:
    """A function that says who asks, made of an adapter's argument: a `Context`, such a function, or None.

    called_with: what the function gets, in words. argument: its name.

    Raises:
        InvalidInput: it is something else, or, when it is called, the function returns no context. None is no
            context either: who forgot to return one must not select as anybody.
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
