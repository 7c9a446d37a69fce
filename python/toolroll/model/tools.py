"""Tool, Toolkit, Route and Definitions: the values from which a catalog is built.

Frozen, without IO, and cheap to create by the hundred thousand. A source checks the values that it reads,
since it knows file and line; this file checks the types of values that a caller writes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import Any, Literal, get_args

from toolroll.model.argument_checks import LONE_SURROGATE, is_unicode, items_of
from toolroll.model.errors import InvalidDefinition, quoted
from toolroll.model.rules import PageMapping, Rule

Status = Literal["draft", "active", "deprecated", "retired"]
STATUSES: frozenset[str] = frozenset(get_args(Status))

Mode = Literal["substring", "word", "prefix"]
MODES: frozenset[str] = frozenset(get_args(Mode))

MAX_NAME = 256  # characters of the name of a tool, a toolkit or a group
MAX_TEXT = 65_536  # characters of one text: more than any description needs
MOST_MEMBERS = 1_000  # members of one toolkit, names and patterns; each is looked up in every catalog

# The hints of MCP's ToolAnnotations, each with the value that MCP assumes where a tool does not give it: the
# one that calls for more care.
HINTS: Mapping[str, bool] = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}
_OF_READING = {"destructiveHint": False, "idempotentHint": True}  # the hints of a tool that changes nothing


@dataclass(frozen=True, slots=True)
class Tool:
    """One function that a model can call, with the texts to find it by.

    Attributes:
        name: as the model sees and calls it; unique within a catalog.
        description: for the model.
        parameters: JSON Schema of the arguments object; None if the tool takes no arguments.
        toolkit: the toolkit it belongs to; "" for none.
        summary: one line for lists and hints.
        when_to_use: read by retrieval, not sent to the model.
        limitations: for people who read the catalog.
        tags: words to find it by.
        examples: messages that this tool answers; retrieval learns the tool's vector from them.
        status: only "active" tools are selected.
        public: may be shown even if no policy can be read.
        pinned: always selected if policy and settings allow it.
        pin_weight: pinned tools with a higher weight come first.
        original: the caller's own object, returned unchanged; not part of equality.
        version: of the definition, by its author; a registry requires MAJOR.MINOR.PATCH.
        tool_id: its id in storage, stable across renames; "" outside a registry.
        display_name: for people; "" for the name.
        returns: JSON Schema of the result, if its author gives one.
        annotations: MCP's hints about the tool's behaviour, such as {"readOnlyHint": True}, as its author
            wrote them; rules can read them (see `hints`).
        icons: MCP's icons, for clients.
        meta: MCP's `_meta`, for clients.
        execution: MCP's `execution`: how clients may run the tool, such as {"taskSupport": "optional"}.
        execution_type: how the caller runs it ("rest", "dispatch", "internal"); not read here.
        execution_config: parameters for running it, such as a URL; passed through, sent to no model.
        interchangeable: name of a group of equivalent tools, of which the most reliable is shown; "" for
            none.
        keys: the fields that its author wrote; None for all. A sync does not change the others.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] | None = field(default=None, hash=False)
    toolkit: str = ""
    summary: str = ""
    when_to_use: str = ""
    limitations: str = ""
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    status: Status = "active"
    public: bool = False
    pinned: bool = False
    pin_weight: int = 0
    original: object = field(default=None, compare=False, repr=False)
    version: str = "1.0.0"
    tool_id: str = ""
    display_name: str = ""
    returns: Mapping[str, Any] | None = field(default=None, hash=False)
    annotations: Mapping[str, Any] | None = field(default=None, hash=False)
    icons: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    meta: Mapping[str, Any] | None = field(default=None, hash=False, repr=False)
    execution: Mapping[str, Any] | None = field(default=None, hash=False)
    execution_type: str = ""
    execution_config: Mapping[str, Any] | None = field(default=None, hash=False, repr=False)
    interchangeable: str = ""
    keys: frozenset[str] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if problem := _name_problem(self.name):
            raise InvalidDefinition(f"name {problem}", field="name")
        parameters = self.parameters
        if type(parameters) is not dict and parameters is not None and not isinstance(parameters, Mapping):
            raise _wrong(self, "parameters", "a JSON Schema object or None")
        if not isinstance(self.status, str) or self.status not in STATUSES:
            raise _wrong(self, "status", "one of draft, active, deprecated, retired")
        if type(self.tags) is not tuple:
            object.__setattr__(self, "tags", _strings(self, "tags", self.tags))
        if type(self.examples) is not tuple:
            object.__setattr__(self, "examples", _strings(self, "examples", self.examples))
        _check_texts(self)
        if self.returns is not None and not isinstance(self.returns, Mapping):
            raise _wrong(self, "returns", "a JSON Schema object or None")
        if self.execution_config is not None and not isinstance(self.execution_config, Mapping):
            raise _wrong(self, "execution_config", "a mapping or None")
        if type(self.public) is not bool or type(self.pinned) is not bool:
            raise _wrong(self, "pinned" if type(self.public) is bool else "public", "True or False")
        if type(self.pin_weight) is not int:
            raise _wrong(self, "pin_weight", "a whole number")
        if (
            self.annotations is not None
            or self.meta is not None
            or self.execution is not None
            or type(self.icons) is not tuple
            or self.icons
        ):
            _check_metadata(self)

    @property
    def hints(self) -> dict[str, bool | str]:
        """The annotations that rules can read, by name; a missing name is unknown.

        A hint of MCP must be true or false, another annotation may also be a string; any other value is
        unknown. MCP defines `destructiveHint` and `idempotentHint` only for tools that change something, so a
        tool with readOnlyHint true that omits them is not destructive, and idempotent.
        """
        annotations = self.annotations
        if not annotations:
            return {}
        found: dict[str, bool | str] = {
            name: value
            for name, value in annotations.items()
            if type(value) is bool or (type(value) is str and name not in HINTS)
        }
        if found.get("readOnlyHint") is True:
            found |= {name: value for name, value in _OF_READING.items() if annotations.get(name) is None}
        return found


@dataclass(frozen=True, slots=True)
class Toolkit:
    """A named group of tools that are activated together.

    Attributes:
        name: unique within a catalog.
        description: retrieval at toolkit level reads it.
        parent: the toolkit above it; a rule that names a toolkit reaches its descendants.
        settings_keys: on only if one of these settings has a value; empty means always on.
        base: its tools are part of every selection that policy and settings allow.
        tier: the lowest tier that gets it, in the order that the configuration gives; None for all.
        members: tools of other toolkits that are activated with its own: names, or patterns in which `*`
            stands for any text (`memory_*`). A build looks them up, for a platform's toolkit among the
            platform's tools; an unknown name is no error. A member's own toolkit decides who gets it: rules,
            tiers, settings and pages that name this toolkit do not reach it.
    """

    name: str
    description: str = ""
    parent: str | None = None
    settings_keys: tuple[str, ...] = ()
    base: bool = False
    tier: str | None = None
    members: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if problem := _name_problem(self.name):
            raise InvalidDefinition(f"toolkit name {problem}", field="name")
        if type(self.base) is not bool:
            raise self._wrong("base", f"is {quoted(self.base)}, must be True or False")
        if problem := _text_problem(self.description):
            raise self._wrong("description", problem)
        for name in ("parent", "tier"):
            value = getattr(self, name)
            if value is not None and (problem := _name_problem(value)):
                raise self._wrong(name, f"{problem}, or None")
        if not _are_strings(self.settings_keys):
            raise self._wrong("settings_keys", f"is {quoted(self.settings_keys)}, must be strings")
        for name in ("settings_keys", "members"):
            texts = getattr(self, name)
            for text in texts if _are_strings(texts) else ():
                if not is_unicode(text):
                    raise InvalidDefinition(
                        f"toolkit {self.name!r}: {name}: {quoted(text)} {LONE_SURROGATE}", field=name
                    )
        members: object = self.members
        if isinstance(members, list):
            object.__setattr__(self, "members", tuple(members))
        if not isinstance(self.members, tuple) or not _are_strings(members) or "" in self.members:
            wanted = "must be a tuple of tool names and patterns such as 'memory_*'"
            raise self._wrong("members", f"is {quoted(self.members)}, {wanted}")
        if len(self.members) > MOST_MEMBERS:
            raise InvalidDefinition(
                f"toolkit {self.name!r}: has {len(self.members):,} members, must be at most "
                f"{MOST_MEMBERS:,}; a pattern such as 'memory_*' stands for many",
                field="members",
            )

    def _wrong(self, name: str, problem: str) -> InvalidDefinition:
        return InvalidDefinition(f"toolkit {self.name!r}: {name} {problem}", field=name)


@dataclass(frozen=True, slots=True)
class Route:
    """Keywords and patterns that activate toolkits.

    Attributes:
        toolkits: activated by any hit.
        keywords: searched for in the folded message.
        patterns: RE2 expressions, searched for in the unchanged message.
        modes: the mode of each keyword; if empty, or "" for one keyword, `default_mode` applies.
    """

    toolkits: tuple[str, ...]
    keywords: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    modes: tuple[Mode | Literal[""], ...] = ()

    def __post_init__(self) -> None:
        for name in ("toolkits", "keywords", "patterns"):
            if not _are_strings(value := getattr(self, name)):
                raise InvalidDefinition(
                    f"route: {name} is {quoted(value)}, must be a tuple of strings", field=name
                )
            for text in value:
                if not is_unicode(text):
                    raise self._wrong(name, f"{name.removesuffix('s')} {quoted(text)} {LONE_SURROGATE}")
        if not isinstance(self.modes, (tuple, list)):
            raise self._wrong("modes", f"modes is {quoted(self.modes)}, must be a tuple of strings")
        if self.modes and len(self.modes) != len(self.keywords):
            wanted = f"must be none or one for each of its {len(self.keywords)} keywords"
            raise self._wrong("modes", f"has {len(self.modes)} modes, {wanted}")
        for mode in self.modes:
            if not isinstance(mode, str) or mode not in MODES | {""}:
                allowed = ", ".join(sorted(MODES))
                raise self._wrong("modes", f"mode is {quoted(mode)}, must be one of {allowed}")

    def _wrong(self, name: str, problem: str) -> InvalidDefinition:
        return InvalidDefinition(f"{self._place}: {problem}", field=name)

    @property
    def _place(self) -> str:
        """The route's name in a message."""
        return f"route to {', '.join(self.toolkits[:3]):.200}".encode("utf-8", "backslashreplace").decode()

    @property
    def keyword_modes(self) -> tuple[Mode, ...]:
        """The mode of each keyword; the default of its script if none is set."""
        return self.modes_or(None)

    def modes_or(self, default: Mode | None) -> tuple[Mode, ...]:
        """The mode of each keyword; `default`, or the default of its script, if none is set."""
        if not self.modes:
            return tuple(default or default_mode(keyword) for keyword in self.keywords)
        return tuple(
            mode or default or default_mode(keyword)
            for mode, keyword in zip(self.modes, self.keywords, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Definitions:
    """The result of a source: tools, toolkits and routes, in the source's own order.

    Attributes:
        rules, pages: who sees which tools, and which toolkits belong to which page.
        tiers: subscription tiers, lowest first; rules compare by this order.
        hosted: tools that the provider runs, unchanged: not part of the catalog, returned with every
            selection.
        skipped: the errors of tools that were left out.
        repaired: the changes that made other tools readable.
        refused: errors for which a registry refuses all definitions.
    """

    tools: tuple[Tool, ...] = ()
    toolkits: tuple[Toolkit, ...] = ()
    routes: tuple[Route, ...] = ()
    rules: tuple[Rule, ...] = ()
    pages: tuple[PageMapping, ...] = ()
    tiers: tuple[str, ...] = ()
    hosted: tuple[object, ...] = ()
    skipped: tuple[InvalidDefinition, ...] = field(default=(), compare=False)
    repaired: tuple[InvalidDefinition, ...] = field(default=(), compare=False)
    refused: tuple[InvalidDefinition, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            value = getattr(self, name)
            if type(value) is not tuple or not set(map(type, value)) <= {kind}:
                object.__setattr__(self, name, items_of(value, f"definitions: {name}", kind))
        object.__setattr__(self, "hosted", items_of(self.hosted, "definitions: hosted"))

    @classmethod
    def joined(cls, parts: Sequence[Definitions]) -> Definitions:
        """The definitions of several sources, in their order, with the longest list of tiers."""
        every = {one.name: [getattr(part, one.name) for part in parts] for one in fields(cls)}
        joined: dict[str, Any] = {name: tuple(chain.from_iterable(some)) for name, some in every.items()}
        return cls(**{**joined, "tiers": max(every["tiers"], key=len, default=())})


def default_mode(keyword: str) -> Mode:
    """The mode of a keyword without one.

    - "prefix" for Hangul: a word begins there, and particles may follow (날씨 is found in 날씨가).
    - "substring" for scripts written without spaces (Han, kana, Thai, Lao, Khmer, Myanmar), and where an
      end of the keyword is no word character, so that there is no boundary to ask for ("c++").
    - "word" for all others ("rain" is not found in "train").
    """
    if not keyword or not (_is_word(keyword[0]) and _is_word(keyword[-1])):
        return "substring"
    if keyword.isascii():
        return "word"
    names = [unicodedata.name(character, "") for character in keyword]
    if any(name.startswith("HANGUL") for name in names):
        return "prefix"
    return "substring" if any(name.startswith(_UNSPACED) for name in names) else "word"


_KINDS: Mapping[str, type[object]] = {
    "tools": Tool,
    "toolkits": Toolkit,
    "routes": Route,
    "rules": Rule,
    "pages": PageMapping,
    "tiers": str,
    "skipped": InvalidDefinition,
    "repaired": InvalidDefinition,
    "refused": InvalidDefinition,
}
_UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_" or unicodedata.category(character).startswith("M")


def _are_strings(value: object) -> bool:
    return isinstance(value, (tuple, list)) and all(isinstance(text, str) for text in value)


def _check_metadata(tool: Tool) -> None:
    for name in ("annotations", "meta", "execution"):
        if (value := getattr(tool, name)) is not None and not isinstance(value, Mapping):
            raise _wrong(tool, name, "a mapping or None")
    icons: object = tool.icons
    if not isinstance(icons, (tuple, list)) or not all(isinstance(icon, Mapping) for icon in icons):
        raise _wrong(tool, "icons", "a tuple of mappings")
    object.__setattr__(tool, "icons", tuple(icons))


def _strings(tool: Tool, name: str, value: Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise _wrong(tool, name, "a tuple of strings")
    strings = tuple(value)
    if not all(isinstance(text, str) for text in strings):
        raise _wrong(tool, name, "a tuple of strings")
    return strings


def _name_problem(name: object) -> str:
    """The problem with a name, in words; "" for none."""
    if not isinstance(name, str) or not name:
        return f"is {quoted(name)}, must be a non-empty string"
    if len(name) > MAX_NAME:
        return f"is {quoted(name)}, must have at most {MAX_NAME} characters ({len(name):,} given)"
    return "" if is_unicode(name) else f"{quoted(name)} {LONE_SURROGATE}"


def _text_problem(text: object) -> str:
    """The problem with a text, in words; "" for none."""
    if not isinstance(text, str):
        return f"is {quoted(text)}, must be a string"
    if len(text) > MAX_TEXT:
        return f"is {quoted(text)}, must have at most {MAX_TEXT:,} characters ({len(text):,} given)"
    return "" if is_unicode(text) else f"{quoted(text)} {LONE_SURROGATE}"


def _check_texts(tool: Tool) -> None:
    """Checks type, length and characters of all texts but the name."""
    try:
        together = "".join(
            (tool.toolkit, tool.interchangeable, tool.description, tool.summary, tool.when_to_use,
             tool.limitations, tool.version, tool.tool_id, tool.display_name, tool.execution_type,
             *tool.tags, *tool.examples)
        )  # fmt: skip
    except TypeError:  # one is no text: found below
        pass
    else:
        are_short = len(tool.toolkit) <= MAX_NAME and len(tool.interchangeable) <= MAX_NAME
        if are_short and len(together) <= MAX_TEXT and is_unicode(together):
            return  # nearly every tool: checked at once
    for name in _NAMES:
        value = getattr(tool, name)
        is_empty = isinstance(value, str) and not value
        if not is_empty and (problem := _name_problem(value)):
            raise InvalidDefinition(f"{name} {problem}", field=name, tool=tool.name)
    for name in _TEXTS:
        if problem := _text_problem(getattr(tool, name)):
            raise InvalidDefinition(f"{name} {problem}", field=name, tool=tool.name)
    for name, texts in (("tags", tool.tags), ("examples", tool.examples)):
        for text in texts:
            if problem := _text_problem(text):
                raise InvalidDefinition(f"{name}: one {problem}", field=name, tool=tool.name)


_NAMES = ("toolkit", "interchangeable")
_TEXTS = ("description", "summary", "when_to_use", "limitations", "version", "tool_id", "display_name",
          "execution_type")  # fmt: skip


def _wrong(tool: Tool, name: str, allowed: str) -> InvalidDefinition:
    return InvalidDefinition(
        f"{name} is {quoted(getattr(tool, name))}, must be {allowed}", field=name, tool=tool.name
    )
