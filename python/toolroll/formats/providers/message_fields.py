"""Reads and copies messages that are dictionaries or objects of a provider's SDK, by one set of functions.

The SDKs of OpenAI, Anthropic and Google return pydantic models. This file imports none of them: it reads
attributes, and knows a pydantic model by its `model_validate`.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence, Set
from typing import Any, TypeAlias

# A dictionary, or an object with the same names as attributes.
Message: TypeAlias = Any


def is_object(value: object) -> bool:
    """Whether a value has named fields: a mapping, or an object that is neither a number nor a collection."""
    if type(value) is dict or isinstance(value, Mapping):  # the first is by far the fastest
        return True
    if type(value).__module__ == "builtins" or isinstance(value, type):
        return False
    return not isinstance(value, (str, numbers.Number, Sequence, Set))


def field(value: object, name: str) -> Any:
    """A field of a mapping or an object; None if it has no such field."""
    if type(value) is dict:
        return value.get(name)
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def text_field(value: object, name: str) -> str:
    """A field that is text; "" if it is missing or something else."""
    found = field(value, name)
    return found if isinstance(found, str) else ""


def list_field(value: object, name: str) -> Sequence[Any]:
    """A field that is a list; an empty one if it is missing or something else."""
    found = field(value, name)
    return found if isinstance(found, (list, tuple)) else ()


def fields(value: object) -> dict[str, Any]:
    """All fields of a mapping or an object; for a pydantic model, only the fields that were set."""
    if isinstance(value, Mapping):
        return dict(value)
    declared = list(getattr(type(value), "model_fields", ()))
    if not declared:
        return dict(getattr(value, "__dict__", {}))
    given: set[str] = getattr(value, "model_fields_set", set())
    names = [name for name in declared if name in given] + sorted(given.difference(declared))
    return {name: getattr(value, name) for name in names}


def with_field(value: object, name: str, changed: object) -> Any:
    """A copy with one field changed; `like` chooses its type."""
    return like(value, {**fields(value), name: changed})


def without_field(value: object, name: str) -> Any:
    """A copy without one field; `like` chooses its type."""
    return like(value, {key: kept for key, kept in fields(value).items() if key != name})


def like(value: object, wanted: dict[str, Any]) -> Any:
    """The fields `wanted` as a pydantic model of the class of `value`, or of its next base that accepts them.

    They stay a dictionary if no class does. Models within it are not copied.
    """
    for model in () if isinstance(value, Mapping) else type(value).__mro__:
        if not getattr(model, "model_fields", None):
            break
        try:
            return model.model_validate(wanted)  # type: ignore[attr-defined]
        except (ValueError, TypeError):  # a ValidationError, or a class with an `__init__` of its own
            continue
    return wanted
