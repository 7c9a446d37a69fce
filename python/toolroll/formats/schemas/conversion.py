"""Converts tools for a provider: one, a list to send, and what is lost of them.

A tool that cannot be converted goes out as one that takes any object, so that it costs no other tool of the
turn its place. That is logged once for each tool and provider, and `losses` names it.
"""

from __future__ import annotations

import logging
import marshal
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from toolroll.errors import InvalidInput
from toolroll.formats.providers import PROVIDERS as _PROVIDERS
from toolroll.formats.providers import provider_of
from toolroll.formats.schemas.anthropic import to_anthropic
from toolroll.formats.schemas.form import PLAIN, Form, Loss, names_of
from toolroll.formats.schemas.gemini import to_gemini
from toolroll.formats.schemas.gemini_schema import gemini_schema
from toolroll.formats.schemas.mcp import to_mcp
from toolroll.formats.schemas.names import provider_name, provider_names
from toolroll.formats.schemas.openai import to_openai, to_openai_responses
from toolroll.formats.schemas.original import additional_fields
from toolroll.formats.schemas.references import Notes, TooLargeError, rooted
from toolroll.formats.schemas.strict import NotStrictError, strict_schema
from toolroll.tools import Tool

log = logging.getLogger(__name__)

PROVIDERS = tuple(_PROVIDERS)
_CONVERTERS: Mapping[str, Callable[[Tool, str | None, Form], dict[str, Any]]] = {
    "openai": to_openai,
    "openai_responses": to_openai_responses,
    "anthropic": to_anthropic,
    "gemini": to_gemini,
    "mcp": to_mcp,
}
_DEFERRING = ("openai_responses", "anthropic")
# Which of what is known of a tool beside name, description and parameters each provider has a place for.
_CARRIED: Mapping[str, tuple[str, ...]] = {
    "openai": ("strict",),
    "openai_responses": ("strict", "outputSchema", "allowed_callers"),
    "anthropic": ("strict", "cache_control", "input_examples", "allowed_callers", "eager_input_streaming"),
    "gemini": ("outputSchema", "behavior"),
    "mcp": ("title", "outputSchema", "annotations", "icons", "_meta", "execution"),
}
_ONLY_OWN = ("strict", "allowed_callers")  # several providers have these, with different meanings
_LEAVES = frozenset({str, int, float, bool, type(None)})
_MOST_LEVELS = 140  # of dictionaries and lists: 64 objects within objects, and some
_MOST_CACHED = 2_048  # conversions of one tool for one provider and form
_MOST_LOGGED = 1_000  # tools and providers whose failure is remembered as logged

_logged: set[tuple[str, str]] = set()


def convert(tool: Tool, provider: str, form: Form = PLAIN) -> dict[str, Any]:
    """One tool in the form of `provider`; for Gemini one function declaration.

    The tool's own `original` comes back, not copied, where it already is in that form.
    """
    _check_form(provider, form)
    return _converted(tool, provider, None, form).made


def convert_all(
    tools: Iterable[Tool], provider: str, form: Form = PLAIN, deferred: Collection[str] = ()
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The list to send as `tools`, and the way back from the names in it to the tools' own.

    The dictionaries are the caller's to change. Gemini's declarations are wrapped in the one
    ``{"function_declarations": [...]}`` that it expects. Each tool is converted once and copied after that,
    so a definition that is changed in place after its first use goes out unchanged.

    deferred: names of tools whose definition stays out of the prompt until a search finds them. The
        definition of every other tool goes into the prompt, whatever its own dictionary says.

    Raises:
        InvalidInput: the provider is unknown, or has no such form or no deferred tools; two tools have one
            name; all of Anthropic's tools are deferred, which it refuses.
    """
    _check_form(provider, form)
    if type(deferred) is not tuple or deferred:
        deferred = names_of(deferred, "deferred")
    tools = list(tools)
    names = provider_names((tool.name for tool in tools), provider)
    schemas = [_copy_of(tool, provider, name, form) for tool, name in zip(tools, names, strict=True)]
    if provider in _DEFERRING:
        schemas = _deferring(schemas, [tool.name in deferred for tool in tools], provider)
    elif deferred:
        raise InvalidInput(f"{provider} cannot defer tools; {' and '.join(_DEFERRING)} can")
    if provider == "gemini" and schemas:
        return [{"function_declarations": schemas}], names
    return schemas, names


def losses(tools: Iterable[Tool], provider: str, form: Form = PLAIN) -> tuple[Loss, ...]:
    """What the provider does not receive of these tools: keywords, annotations and marks without a place.

    A tool that goes out as the very object it came as loses nothing. O(size of the schemas): for a look
    before the first request, not for each turn. Raises InvalidInput for an unknown provider or form.
    """
    _check_form(provider, form)
    lost: list[Loss] = []
    for tool in tools:
        found = _converted(tool, provider, None, form)
        if found.problem:
            what = f"cannot be converted ({found.problem}): sent as a tool that takes any object"
            lost.append(Loss(tool.name, "parameters", what))
        elif tool.original is None or found.made is not tool.original:
            lost += _losses_of(tool, provider, form)
    return tuple(lost)


def _check_form(provider: str, form: Form) -> None:
    """Raises InvalidInput for an unknown provider, and for a choice that the provider does not have."""
    target = provider_of(provider)
    if form.strict and not target.takes_strict:
        raise InvalidInput(f"strict is True, must be False for {provider}: strict mode is OpenAI's")
    if form.json_schema and provider != "gemini":
        raise InvalidInput(
            f"json_schema is True, must be False for {provider}: only Gemini has a form of its own beside it"
        )


class _Converted(NamedTuple):
    """A tool as it is sent: `made`, which may be its own `original`, and a copy of that.

    `problem` says why the parameters could not be converted; "" if they were.
    """

    made: dict[str, Any]
    copy: dict[str, Any]
    problem: str


def _converted(tool: Tool, provider: str, name: str | None, form: Form) -> _Converted:
    unexpected = None
    try:
        made = _CONVERTERS[provider](tool, name, form)
        if not _is_deeper(made, _MOST_LEVELS):
            return _Converted(made, _copied(made), "")
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
    made = _CONVERTERS[provider](bare, name, PLAIN)
    return _Converted(made, made, problem)


class _ByIdentity:
    """A tool as a key: tools hold dictionaries, so they have no hash of their own."""

    __slots__ = ("tool",)

    def __init__(self, tool: Tool) -> None:
        self.tool = tool

    def __hash__(self) -> int:
        return id(self.tool)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and other.tool is self.tool


def _copy_of(tool: Tool, provider: str, name: str, form: Form) -> dict[str, Any]:
    """The tool as it is sent under this name, as a copy of its own."""
    if name != provider_name(tool.name, provider):  # two names had one hash: rare, and never cached
        return _converted(tool, provider, name, form).copy
    content = _packed(_ByIdentity(tool), provider, form)
    return marshal.loads(content) if isinstance(content, bytes) else _copied(content)  # type: ignore[no-any-return]


@lru_cache(maxsize=_MOST_CACHED)
def _packed(tool: _ByIdentity, provider: str, form: Form) -> bytes | dict[str, Any]:
    """The converted tool as bytes that `marshal` reads, three times as fast as a copy in Python."""
    copy = _converted(tool.tool, provider, None, form).copy
    try:
        return marshal.dumps(copy)
    except ValueError:  # a value of some class, which a caller's own dictionary may hold
        return copy


def _copied(value: Any) -> Any:
    """A copy that is the caller's to change; what is in it is JSON, or an author's own mapping of it."""
    if type(value) is dict or isinstance(value, Mapping):
        return {key: part if type(part) in _LEAVES else _copied(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [part if type(part) in _LEAVES else _copied(part) for part in value]
    return value


def _is_deeper(value: Any, most: int) -> bool:
    """Whether dictionaries and lists lie within each other more often than that.

    Level by level, so that one object in many places is looked at once for each level.
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


def _deferring(schemas: list[dict[str, Any]], deferred: list[bool], provider: str) -> list[dict[str, Any]]:
    """Marks the deferred tools and no others.

    A deferred tool cannot carry Anthropic's mark for the cache. The last tool that is loaded gets it, so
    that everything before it is still cached.
    """
    if schemas and all(deferred) and provider == "anthropic":
        raise InvalidInput(
            f"all {len(schemas)} tools are deferred, which Anthropic refuses: leave one loaded, such as the "
            "tool that searches; deliver(how='defer') adds that"
        )
    mark = None
    for schema, is_deferred in zip(schemas, deferred, strict=True):
        schema.pop("defer_loading", None)
        if is_deferred:
            mark = schema.pop("cache_control", None) or mark
            schema["defer_loading"] = True
    if mark is not None and not any("cache_control" in schema for schema in schemas):
        last = len(deferred) - 1 - deferred[::-1].index(False)
        schemas[last]["cache_control"] = mark
    return schemas


def _losses_of(tool: Tool, provider: str, form: Form) -> list[Loss]:
    """What a tool loses that does not go out as its own original."""
    notes = Notes()
    from_anthropic = isinstance(tool.original, Mapping) and "input_schema" in tool.original
    for key in additional_fields(tool):
        if key not in _CARRIED[provider] or (
            key in _ONLY_OWN and from_anthropic != (provider == "anthropic")
        ):
            notes.append((key, f"{provider} has no place for it"))
        elif key == "outputSchema" and provider != "mcp" and not form.returns:
            notes.append((key, "is sent with returns=True only, since the model reads it in each prompt"))
    if provider == "gemini" and not form.json_schema:
        gemini_schema(tool.parameters or {}, notes)
    elif form.strict:
        try:
            notes += strict_schema(tool.parameters)[1]
        except NotStrictError as error:
            notes.append((error.where, f"{error.why}: sent without strict mode"))
            rooted(tool.parameters or {}, again := Notes())
            notes += again
    elif provider != "mcp":
        rooted(tool.parameters or {}, notes)
    return [Loss(tool.name, where, what) for where, what in dict.fromkeys(notes)]
