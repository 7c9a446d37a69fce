"""Context and Turn: the facts besides the catalog that a decision may depend on.

A `Context` comes from the caller. A `Turn` is the engine's form of one call. A decision reads only a turn
and a catalog, so the same two always give the same selection.
"""

from __future__ import annotations

import copyreg
import json
import math
from collections.abc import Collection, Mapping
from dataclasses import InitVar, dataclass, field, fields
from typing import Any

from toolroll._core import Learned, Reading
from toolroll.model.arrays import Part, Vector
from toolroll.model.conversation import Conversation
from toolroll.model.errors import InvalidInput, quoted
from toolroll.model.tool_list import ToolList


@dataclass(frozen=True, slots=True)
class Context:
    """The caller of a selection: who asks, from where, with which limits.

    Its texts come from requests, so any text is accepted: a value that no rule names does not fail a turn.

    Attributes:
        org: organisation, whose own tools and rules count beside the platform's.
        user, roles, tier, page: read by rules and page mappings. An empty or blank one is unknown, and an
            unknown value never shows a tool.
        settings: settings that have a value (a mapping, or just their names), beside a registry's; only
            presence is read. None, False, blank text and empty collections are no value.
        provider: sets limits, such as "openai"; "" for none.
        session: the conversation of the turn.
        required: names of tools that form the selection, without retrieval. JSON text works too, for
            values from a database: '["get_mails", "list_contacts"]'.
        exclude: names of tools that must not be selected.
        only: names of the only tools that may be selected. Empty for no such limit.
        everything: selects all tools that rules, status, `exclude` and `only` allow, for clients that get
            every toolkit (MCP): settings, the message, the page, the profile and k do not count. The call's
            `max_tools` and `budget_tokens` and the provider's limit do.
    """

    org: str = ""
    user: str = ""
    roles: tuple[str, ...] = ()
    tier: str = ""
    page: str = ""
    settings: Mapping[str, object] | Collection[str] = field(default=(), repr=False)  # may hold secrets
    provider: str = ""
    session: str = ""
    required: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    everything: bool = False

    def __post_init__(self) -> None:
        for name in ("org", "user", "tier", "page", "provider", "session"):
            if not isinstance(value := getattr(self, name), str):
                raise InvalidInput(f"context: {name} is {quoted(value)}, must be a str")
        if isinstance(self.required, str):
            object.__setattr__(self, "required", names_of_json(self.required, "context: required"))
        for name in ("roles", "required", "exclude", "only"):
            if type(value := getattr(self, name)) is not tuple or value:
                object.__setattr__(self, name, names(value, f"context: {name}"))
        if isinstance(self.settings, (str, bytes)) or not isinstance(self.settings, Collection):
            raise InvalidInput(
                f"context: settings is {type(self.settings).__name__}, must be a mapping or names"
            )
        if not isinstance(self.everything, bool):
            raise InvalidInput(f"context: everything is {quoted(self.everything)}, must be True or False")

    def has_setting(self, key: str) -> bool:
        """Whether the setting is present and, if its value is known, not empty."""
        if not isinstance(self.settings, Mapping):
            return key in self.settings
        return has_value(self.settings.get(key))

    @property
    def has_fixed_settings(self) -> bool:
        """Whether the settings are an immutable collection."""
        return isinstance(self.settings, (tuple, frozenset))

    def present(self, keys: frozenset[str]) -> frozenset[str]:
        """The settings among these that are present and have a value."""
        if isinstance(self.settings, Mapping):
            return frozenset([key for key in keys if self.has_setting(key)])
        return keys.intersection(self.settings)  # one step, whatever the number of keys


_OF_READING = frozenset(("vector", "clauses", "earlier"))


@dataclass(slots=True, eq=False)  # not frozen: that sets each field by a call, 3 µs of every selection
class Turn:
    """One call with all data for its decision. Immutable.

    Attributes:
        text: the message for patterns: valid Unicode, of bounded length.
        vector: float32[dim], unit length; None without an embedding.
        k: how many tools retrieval may add; None leaves it to the profile.
        max_tools: how many tools at most, core tools included; None leaves it to the provider.
        budget_tokens: how many tokens the selected schemas may cost; None for no budget.
        always_include: names of tools to select whatever the message, if the caller may have them.
        sent: names already in the conversation's tool list, in their order.
        seed: of every random draw of this turn.
        query: the message for keywords and retrieval, with corrected spelling; "" for `text` itself.
        trust: in [0, 1]: the weight of the vector; less if the embedder does not know the language.
        clauses: parts of the query, each perhaps a request of its own.
        earlier: earlier messages that count.
        stored: settings with a stored value.
        revision: the registry's revision of the rules; 0 without a registry.
        at: the time, seconds since the epoch: statistics fade.
        learned: the statistics of outcomes so far; None for nothing.
        category: the category of the message ("read", "write", …); "" if the decision did not need it.
        conversation: the state in this turn; None for a message by itself.
        shown: names of tools that the same turn has shown before; only these are selected again. None for
            the first step of a turn.
        is_search: whether the text is a query of a search: core tools get no preference.
        room: retrieval may add `room` times k tools.
        loading: whether the model may be sent `manage_tools`.
        variant: the experiment's variant for this turn; "" for none.
        steps: names of the caller's own steps.
        engine_id: the engine of the turn, which takes its outcomes.
        tool_list: the tools that came with the request, if the catalog is made of these.
        public_only: whether the policy is too old to show any other tools than public ones.
        taken: the core's reading, in an engine's turn; a changed turn has none.
        reading: the value of `taken`.
    """

    text: str
    context: Context
    vector: Vector | None = None
    k: int | None = None
    max_tools: int | None = None
    budget_tokens: int | None = None
    always_include: tuple[str, ...] = ()
    sent: tuple[str, ...] = ()
    seed: int = 0
    query: str = ""
    trust: float = 1.0
    clauses: tuple[Part, ...] = ()
    earlier: tuple[Part, ...] = ()
    stored: frozenset[str] = frozenset()
    revision: int = 0
    at: float = 0.0
    learned: Learned | None = None
    category: str = ""
    conversation: Conversation | None = None
    shown: tuple[str, ...] | None = None
    is_search: bool = False
    room: float = 1.0
    loading: bool = True
    variant: str = ""
    steps: tuple[str, ...] = ()
    engine_id: str = ""
    tool_list: ToolList | None = None
    public_only: bool = False
    taken: InitVar[Reading | None] = None
    reading: Reading | None = field(default=None, init=False, repr=False)

    def __post_init__(self, taken: Reading | None) -> None:
        if not self.query:
            self.query = self.text
        if taken is not None:
            # Vector, clauses and earlier turns are read from the core when somebody first asks for them: the
            # core selects from its own copies, so most turns never make these arrays.
            self.reading = taken
            del self.vector, self.clauses, self.earlier

    def __getattr__(self, name: str) -> Any:
        """Makes a field from `reading` at its first use; two threads may make equal values."""
        if name not in _OF_READING:
            raise AttributeError(name)
        value = getattr(self.reading, name)
        setattr(self, name, value)
        return value

    def __reduce__(self) -> tuple[type[Turn], tuple[object, ...]]:
        return Turn, tuple([getattr(self, one.name) for one in fields(self) if one.init])

    @property
    def texts(self) -> Reading:
        """Query, clauses and earlier turns with their vectors, in the core's form."""
        if self.reading is not None:
            return self.reading
        return Reading(self.query, self.vector, self.trust, self.clauses, self.earlier)

    def places(self, k: int | None) -> int | None:
        """How many tools retrieval may add. k: the profile's, None for any number."""
        k = self.k if self.k is not None else k
        return k if k is None or self.room == 1.0 else math.ceil(k * self.room)

    def present(self, keys: frozenset[str]) -> frozenset[str]:
        """The settings among these for which the caller or storage has a value."""
        present = self.context.present(keys)
        return present | (keys & self.stored) if self.stored else present


def has_value(value: object) -> bool:
    """Whether this is a setting's value: None, False, blank text and empty collections are none."""
    if value is None or value is False:
        return False
    if isinstance(value, str):
        return bool(value.strip())
    return bool(value) if isinstance(value, Collection) else True


def names(value: object, what: str) -> tuple[str, ...]:
    """The names as a tuple. Raises InvalidInput if it is one str, or no collection of str."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Collection):
        raise InvalidInput(f"{what} is {quoted(value)}, must be a list, tuple or set of names")
    for name in value:
        if not isinstance(name, str):
            raise InvalidInput(f"{what} holds {quoted(name)}, must hold names")
    return tuple(value)


def names_of_json(text: str, what: str) -> tuple[str, ...]:
    """The names of a JSON list; blank text and null are none.

    Raises InvalidInput if it is no JSON list of names.
    """
    try:
        value = json.loads(text) if text.strip() else None
        if value is not None and not isinstance(value, list):
            raise ValueError
    except (ValueError, RecursionError):
        raise InvalidInput(
            f"{what} is {quoted(text)}, must be a list of names, or the list as JSON"
        ) from None
    return () if value is None else names(value, what)


def _learned_of(content: bytes) -> Learned:
    return Learned.from_bytes(content)


# A turn can be pickled, and its statistics with it.
copyreg.pickle(Learned, lambda learned: (_learned_of, (learned.to_bytes(),)))
