"""Lists of tools in a provider's form: as dictionaries that the caller may change, and as JSON.

Each tool is converted once for a provider and form. Later calls copy its dictionaries in the core and reuse
its JSON. The cache is by tool and not by catalog: a refresh keeps the tools that have not changed,
organisations share theirs, and the memory has one bound.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from toolroll._core import copy_containers, values_by_identity
from toolroll.formats.providers import names_with, provider_of
from toolroll.formats.providers.form import PLAIN, Form, names_of
from toolroll.formats.schemas.conversion import check_form, converted, json_text
from toolroll.formats.schemas.names import provider_name, provider_names
from toolroll.model.errors import InvalidInput, quoted
from toolroll.model.tools import Tool

_MOST_BYTES = (
    8 << 20
)  # bytes of JSON in one of the cache's two generations; the dictionaries take about twice as much
_AT_ONCE = 500  # tools that are copied before another thread may have the interpreter
_UNKNOWN_BYTES = 4_096  # for a tool that cannot be written as JSON

_NAME, _SCHEMA, _TEXT = itemgetter(1), itemgetter(2), itemgetter(3)  # fields of a `SentTool`


class SentTool(NamedTuple):
    """One tool in a provider's form. Callers get copies only.

    Attributes:
        tool: the tool itself; None for an item of the provider's own.
        name: the name that is sent.
        schema: the definition, in dictionaries and lists of its own.
        text: `schema` as JSON; None if JSON cannot express it.
        mark: Anthropic's `cache_control`, which a deferred tool cannot have.
    """

    tool: Tool | None
    name: str
    schema: dict[str, Any]
    text: bytes | None
    mark: Any = None


class SentTools(NamedTuple):
    """A list of tools in a provider's form.

    Attributes:
        provider: the name of the provider.
        items: in the order to send.
    """

    provider: str
    items: Sequence[SentTool]

    def __bool__(self) -> bool:
        return bool(self.items)

    def schemas(self) -> list[dict[str, Any]]:
        """The list, which the caller may change. Takes about 0.6 µs a tool.

        If the provider expects an object around the list, as Gemini does, it is the list's only item.
        """
        items = self.items
        if len(items) <= _AT_ONCE:
            made = copy_containers([*map(_SCHEMA, items)])
        else:
            made = []
            for at in range(0, len(items), _AT_ONCE):
                made += copy_containers([*map(_SCHEMA, items[at : at + _AT_ONCE])])
        key = provider_of(self.provider).list_key
        return [{key: made}] if made and key else made

    def text(self) -> bytes:
        """The list as compact JSON in UTF-8.

        Raises:
            InvalidInput: a tool holds an object that JSON does not have.
        """
        texts = [*map(_TEXT, self.items)]
        if not texts:
            return b"[]"
        key = provider_of(self.provider).list_key
        begin, end = (b'[{"%b":[' % key.encode(), b"]}]") if key else (b"[", b"]")
        try:
            texts[0] = begin + texts[0]
            texts[-1] += end
            return b",".join(texts)
        except TypeError:
            name = next(item.name for item in self.items if item.text is None)
            raise InvalidInput(f"tools: cannot be written as JSON: {quoted(name)} holds an object") from None

    @property
    def names(self) -> dict[str, str]:
        """Sent name → own name."""
        return {item.name: item.name if item.tool is None else item.tool.name for item in self.items}


def convert_all(
    tools: Iterable[Tool], provider: str, form: Form = PLAIN, deferred: Collection[str] = ()
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The list to send as `tools`, and sent name → own name.

    The caller may change the dictionaries. Arguments and errors as for `sent_tools`.
    """
    sent = sent_tools(tools, provider, form, deferred)
    return sent.schemas(), sent.names


def sent_tools(
    tools: Iterable[Tool],
    provider: str,
    form: Form = PLAIN,
    deferred: Collection[str] = (),
    *,
    are_distinct: bool = False,
) -> SentTools:
    """These tools in the form of a provider.

    Each tool is converted once, so a definition that is changed in place after its first use goes out
    unchanged.

    deferred: names of tools whose definition stays out of the prompt until a search finds them. The
        definition of every other tool goes into the prompt, whatever its own dictionary says.
    are_distinct: no two tools have the same name, as in a catalog.

    Raises:
        InvalidInput: the provider is unknown, or has no such form or no deferred tools; two tools have one
            name; all of Anthropic's tools are deferred, which it refuses.
    """
    check_form(provider, form)
    if type(deferred) is not tuple or deferred:
        deferred = names_of(deferred, "deferred")
        if deferred and provider_of(provider).search is None:
            can = " and ".join(names_with(lambda one: one.search is not None))
            raise InvalidInput(f"{provider} cannot defer tools; {can} can")
    tools = tuple(tools)
    if deferred:
        return SentTools(provider, _deferring(tools, provider, form, deferred))
    items = _cache.find(tools, provider, form)
    is_checked = are_distinct and not _cache.has_replaced  # names that no provider replaces stay distinct
    if not is_checked and len({*map(_NAME, items)}) != len(items):
        items = _renamed(tools, items, provider, form)
    return SentTools(provider, items)


def _deferring(tools: Sequence[Tool], provider: str, form: Form, deferred: Collection[str]) -> list[SentTool]:
    """All tools, with the ones named in `deferred` deferred.

    A deferred tool cannot have Anthropic's mark for the cache. The last tool that is loaded gets it, so that
    everything before it is still cached.
    """
    is_deferred = [tool.name in deferred for tool in tools]
    search = provider_of(provider).search
    if tools and all(is_deferred) and search is not None and search.sends_all:
        raise InvalidInput(
            f"all {len(tools)} tools are deferred, which {provider} refuses: leave one loaded, such as the "
            "tool that searches; deliver(how='defer') adds that"
        )
    loaded = iter(_cache.find(tuple([tool for tool in tools if tool.name not in deferred]), provider, form))
    hidden = iter(
        _cache.find(
            tuple([tool for tool in tools if tool.name in deferred]), provider, form, is_deferred=True
        )
    )
    items = [next(hidden if is_out else loaded) for is_out in is_deferred]
    if len({*map(_NAME, items)}) != len(items):
        items = _renamed(tools, items, provider, form)
    marks = [item.mark for item in items if item.mark is not None]
    if marks and not any("cache_control" in item.schema for item in items):
        last = len(items) - 1 - is_deferred[::-1].index(False)
        schema = {**items[last].schema, "cache_control": marks[-1]}
        items[last] = items[last]._replace(schema=schema, text=json_text(schema))
    return items


def _renamed(tools: Sequence[Tool], items: Sequence[SentTool], provider: str, form: Form) -> list[SentTool]:
    """The tools with longer sent names for two names with one hash. Rare, and never cached."""
    names = provider_names((tool.name for tool in tools), provider)
    return [
        item if item.name == name else _made(tool, provider, form, "defer_loading" in item.schema, name)
        for tool, item, name in zip(tools, items, names, strict=True)
    ]


def _made(tool: Tool, provider: str, form: Form, is_deferred: bool, name: str | None = None) -> SentTool:
    """One tool, converted. name: the name to send; None for the usual one."""
    _, schema, text, _ = converted(tool, provider, name, form)
    mark = None
    if provider_of(provider).search is not None and (is_deferred or "defer_loading" in schema):
        schema.pop("defer_loading", None)
        if is_deferred:
            mark = schema.pop("cache_control", None) or None
            schema["defer_loading"] = True
        text = json_text(schema)
    return SentTool(tool, name or provider_name(tool.name, provider), schema, text, mark)


_Generation = dict[Hashable, dict[int, SentTool]]  # by provider and form, then by the identity of the tool
_NOTHING: dict[int, SentTool] = {}


class _Cache:
    """Converted tools. Bounded; safe to use from many threads.

    It has two generations. When the new one is full, it replaces the old one; a tool that is used moves to
    the new one. A race of two threads only costs a second conversion.
    """

    def __init__(self, most_bytes: int) -> None:
        """most_bytes: the most bytes of JSON in a generation."""
        self._most = most_bytes
        self._new: _Generation = {}
        self._old: _Generation = {}
        self._bytes = 0
        self.has_replaced = False  # whether a tool was ever sent under another name than its own

    def find(
        self, tools: tuple[Tool, ...], provider: str, form: Form, *, is_deferred: bool = False
    ) -> list[SentTool]:
        """The converted tools."""
        # The usual key is a str, which knows its hash.
        key = provider if form is PLAIN and not is_deferred else (provider, form, is_deferred)
        # An entry holds its tool, so no other has the id.
        found = values_by_identity(self._new.get(key, _NOTHING), tools)
        if found is None:
            return [self._find(key, tool, provider, form, is_deferred) for tool in tools]
        return found

    def _find(self, key: Hashable, tool: Tool, provider: str, form: Form, is_deferred: bool) -> SentTool:
        new = self._new.setdefault(key, {})
        found = new.get(id(tool))
        if found is None:
            found = self._old.get(key, _NOTHING).get(id(tool)) or _made(tool, provider, form, is_deferred)
            self.has_replaced = self.has_replaced or found.name != tool.name
            found = new.setdefault(
                id(tool), found
            )  # the first of two threads wins: no entry is ever replaced
            self._bytes += _UNKNOWN_BYTES if found.text is None else len(found.text)
            if self._bytes > self._most:
                self._new, self._old, self._bytes = {}, self._new, 0
        return found


_cache = _Cache(_MOST_BYTES)
