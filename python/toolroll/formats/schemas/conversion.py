"""Converts a tool to a provider's form, and lists the losses.

A tool that cannot be converted is sent as one that takes any object, so that the other tools of the turn are
still sent. The log says so once for each tool and provider, and so does `losses`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from toolroll.formats.providers import provider_of
from toolroll.formats.providers.form import PLAIN, Form, Loss
from toolroll.formats.providers.original import SHARED, marks, mcp_fields
from toolroll.formats.providers.references import Notes, TooLargeError
from toolroll.model.errors import InvalidInput
from toolroll.model.tools import Tool

log = logging.getLogger(__name__)

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_LEAVES = frozenset({str, int, float, bool, type(None)})
_MOST_LEVELS = 140  # nested dictionaries and lists: 64 nested objects, and some more
_MOST_LOGGED = 1_000  # tools and providers whose failure is remembered as logged

_logged: set[tuple[str, str]] = set()


def convert(tool: Tool, provider: str, form: Form = PLAIN) -> dict[str, Any]:
    """One tool in the form of `provider`; for Gemini one function declaration.

    If the tool's `original` has that form already, it is returned without a copy.
    """
    check_form(provider, form)
    return converted(tool, provider, None, form).made


def losses(tools: Iterable[Tool], provider: str, form: Form = PLAIN) -> tuple[Loss, ...]:
    """The keywords, annotations and marks of these tools that the provider does not receive.

    A tool that is sent as its original object loses nothing. O(size of the schemas): call it before the
    first request, not for each turn. Raises InvalidInput for an unknown provider or form.
    """
    check_form(provider, form)
    lost: list[Loss] = []
    for tool in tools:
        dropped = Notes()
        found = converted(tool, provider, None, form, dropped)
        if found.problem:
            what = f"cannot be converted ({found.problem}): sent as a tool that takes any object"
            lost.append(Loss(tool.name, "parameters", what))
        elif tool.original is None or found.made is not tool.original:
            all_dropped = dict.fromkeys((*_lost_fields(tool, provider, found.made), *dropped))
            lost += [Loss(tool.name, where, what) for where, what in all_dropped]
    return tuple(lost)


def check_form(provider: str, form: Form) -> None:
    """Raises InvalidInput for an unknown provider, and for a choice that the provider does not have."""
    target = provider_of(provider)
    if form.strict and not target.takes_strict:
        raise InvalidInput(f"strict is True, must be False for {provider}: strict mode is OpenAI's")
    if form.json_schema and not target.takes_json_schema:
        raise InvalidInput(
            f"json_schema is True, must be False for {provider}: only Gemini has a form of its own beside it"
        )


class Converted(NamedTuple):
    """A tool in a provider's form.

    Attributes:
        made: the definition, which may be the tool's own `original`.
        copy: a copy of `made` in new dictionaries and lists; values of other classes are shared.
        text: `made` as compact JSON in UTF-8; None if it holds an object that JSON does not have.
        problem: why the parameters could not be converted; "" if they were.
    """

    made: dict[str, Any]
    copy: dict[str, Any]
    text: bytes | None
    problem: str


def converted(
    tool: Tool, provider: str, name: str | None, form: Form, lost: Notes | None = None
) -> Converted:
    """One tool under this sent name; None for the usual one.

    lost: the losses of the parameters are added to it.
    """
    target = provider_of(provider)
    name = name or target.sent_name(tool.name)
    unexpected = None
    try:
        made = target.write(tool, name, form, Notes() if lost is None else lost)
        if not _is_deeper(made, _MOST_LEVELS):
            copy = plain_copy(made)
            return Converted(made, copy, json_text(copy), "")
        problem = f"nested deeper than {_MOST_LEVELS} levels"
    except (TooLargeError, RecursionError):
        problem = "takes too many steps"
    except Exception as error:  # a schema from outside may hold anything, and the other tools still go out
        problem, unexpected = f"{type(error).__name__}: {error}"[:200], error
    if (tool.name, provider) not in _logged:
        if len(_logged) >= _MOST_LOGGED:
            _logged.clear()
        _logged.add((tool.name, provider))
        log.warning(
            "tool %r: its parameters cannot be converted for %s (%s), so it is sent as a tool that takes any "
            "object", tool.name, provider, problem, exc_info=unexpected,
        )  # fmt: skip
    bare = replace(tool, parameters={"type": "object"}, returns=None, original=None)
    made = target.write(bare, name, PLAIN, Notes())
    return Converted(made, made, json_text(made), problem)


def json_text(value: Any) -> bytes | None:
    """Compact JSON in UTF-8, or None for a value that holds an object of some other kind.

    A lone surrogate, which UTF-8 does not have, is written as its escape.

    Raises:
        ValueError: it holds NaN or an infinite number, for which a provider refuses the whole request.
    """
    try:
        return _ENCODER.encode(value).encode("utf-8", "backslashreplace")
    except TypeError:
        return None


def plain_copy(value: Any) -> Any:
    """A copy in dictionaries and lists; the value is JSON, with any kind of mapping and sequence."""
    if type(value) is dict or isinstance(value, Mapping):
        return {key: part if type(part) in _LEAVES else plain_copy(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        if _LEAVES.issuperset(map(type, value)):  # such as a long enum, in a fifth of the time
            return list(value)
        return [part if type(part) in _LEAVES else plain_copy(part) for part in value]
    return value


def _is_deeper(value: Any, most: int) -> bool:
    """Whether dictionaries and lists are nested deeper than `most`.

    Goes level by level, so an object in many places is read once for each level.
    """
    level = [value]
    for _ in range(most + 1):
        below: dict[int, Any] = {}
        for holder in level:
            for part in holder if isinstance(holder, (list, tuple)) else holder.values():
                kind = type(part)
                if kind is dict or (kind not in _LEAVES and isinstance(part, (list, tuple, Mapping))):
                    below[id(part)] = part
        if not below:
            return False
        level = list(below.values())
    return True


def _lost_fields(tool: Tool, provider: str, made: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The fields and marks of a tool that are not in its definition."""
    target = provider_of(provider)
    own, lost = marks(tool, target.dialect), []
    for key in (*marks(tool), *mcp_fields(tool)):
        if key not in target.carries or (key in SHARED and key not in own):
            lost.append((key, f"{provider} has no place for it"))
        elif key == "outputSchema" and all(value is not tool.returns for value in made.values()):
            lost.append((key, "is sent with returns=True only, since the model reads it in each prompt"))
    return lost
