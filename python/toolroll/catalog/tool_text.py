"""The texts of a tool that retrieval reads: the fields of the lexical index and the texts of its vectors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from toolroll._core import parameter_words
from toolroll.catalog.plain_text import plain_text, without_encoded_data
from toolroll.model.tools import Tool

# How much a term counts in each of `ToolText.fields`. Examples in a field of their own at half weight cost
# tools without any the least (recall@5 of cold tools, azure-cli 0.895 against 0.910 without examples at all,
# while warm ones gain 0.745 → 0.860).
FIELD_WEIGHTS = (2.0, 1.0, 0.5, 0.5)

MOST_EXAMPLES = 64  # examples of one tool; more change little, and no tool may fill an index alone

_LONGEST = 2_000  # characters of a field that are read: a page of text must not outweigh a name
_LONGEST_READ = 4 * _LONGEST  # ... before markup is removed
_LONGEST_EMBEDDED = 400  # characters of the prose: conditions and exceptions follow what a tool does
_LONGEST_EXAMPLES = 8_000  # characters of all examples together
_MOST_PARAMETERS = 64
_LONGEST_NAME = 64
_MOST_NAMED = 12  # parameters whose names are embedded
_DEEPEST = 4

# Other words for the verb in a tool's name. Forty tools of a generated catalog share one noun, and the verb
# decides between them: list, read, create, replace, delete. Users say "get rid of", "which are there" or
# "change". Words for "get", "set" or "send" are missing: they lose more on hand-written tools than they gain.
_VERBS: Mapping[str, str] = {
    "create": "create make add new set up",
    "insert": "insert add create",
    "put": "put set upload write",
    "list": "list show all every which what exist",
    "read": "read get show details",
    "describe": "describe show list what",
    "update": "update change modify set",
    "patch": "patch change update modify",
    "modify": "modify change update",
    "replace": "replace change overwrite update",
    "delete": "delete remove get rid of",
    "remove": "remove delete take away",
    "terminate": "terminate delete stop remove",
    "destroy": "destroy delete remove",
}

# lower|Upper, letter|digit-free: HTTPServer -> HTTP Server, listFiles -> list Files
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def words_of_tool(name: str) -> str:
    """`words` for a name that occurs only once in a catalog, without a cache."""
    if not name.islower():
        name = _CAMEL.sub(" ", name)
    return " ".join(name.replace("_", " ").replace("-", " ").replace(".", " ").split())


@lru_cache(4_096)  # parameters and toolkits have the same few names all over a catalog
def words(name: str) -> str:
    """An identifier as words: "gmail_listEmails" → "gmail list Emails"."""
    return words_of_tool(name)


class ToolText(NamedTuple):  # made three times as fast as a frozen dataclass
    """The texts of one tool, made once for all indexes of a catalog.

    Attributes:
        prose, parameters: texts about the tool and about its arguments.
        examples: the example messages that count.
        description, parameter_names, verb: the texts of its vector; the last two may be empty.
    """

    name: str
    toolkit: str
    prose: str
    parameters: str
    examples: tuple[str, ...]
    description: str
    parameter_names: str
    verb: str

    @classmethod
    def of(cls, tool: Tool) -> ToolText:
        """Reads the tool. O(characters), each text bounded."""
        prose, schema = _prose(tool), tool.parameters
        return cls(
            tool.name,
            tool.toolkit,
            prose[:_LONGEST],
            plain_text(_words_of_parameters(schema)[:_LONGEST_READ])[:_LONGEST] if schema else "",
            example_texts(tool),
            _description(tool, prose),
            _parameter_names(schema) if schema else "",
            verb_text(words_of_tool(tool.name)),
        )

    @property
    def fields(self) -> tuple[str, str, str, str]:
        """Name, prose, parameters and examples, as the lexical index takes them."""
        return f"{self.name} {self.toolkit}", self.prose, self.parameters, " ".join(self.examples)


def texts_of(
    tools: Iterable[Tool], text_of: Callable[[Tool], ToolText] = ToolText.of
) -> tuple[ToolText, ...]:
    """The texts of all tools, by row. text_of: reads one; for callers that keep them."""
    return tuple(map(text_of, tools))


def columns(texts: Sequence[ToolText]) -> list[list[str]]:
    """`ToolText.fields` of all tools, field by field."""
    return [list(column) for column in zip(*(text.fields for text in texts), strict=True)] or [
        [] for _ in FIELD_WEIGHTS
    ]


def example_texts(tool: Tool) -> tuple[str, ...]:
    """The first examples: at most `MOST_EXAMPLES`, with a limit for their length together."""
    left, texts = _LONGEST_EXAMPLES, []
    for example in tool.examples[:MOST_EXAMPLES]:
        text = without_encoded_data(example)
        if not text.strip():
            continue
        if len(text) > left:
            break
        left -= len(text)
        texts.append(text)
    return tuple(texts)


def embedded_texts(tool: Tool) -> tuple[str, ...]:
    """The embedded texts of a tool: description, names of parameters, verb and synonyms, examples."""
    own = (description_text(tool), parameter_text(tool), verb_text(words_of_tool(tool.name)))
    return tuple(filter(None, (*own, *example_texts(tool))))


def description_text(tool: Tool) -> str:
    """The text whose embedding stands for a tool: its toolkit, its name in words, and the start of its prose.

    The toolkit is left out if the name has it already (`vm_create` of `vm`).
    """
    return _description(tool, _prose(tool))


def parameter_text(tool: Tool) -> str:
    """The names of the tool's first parameters in words; "" without parameters.

    They are embedded apart from the description: in one text, ten parameters would outweigh the description.
    """
    return _parameter_names(tool.parameters) if tool.parameters else ""


def _description(tool: Tool, prose: str) -> str:
    name, toolkit = words_of_tool(tool.name), words(tool.toolkit)
    named = not toolkit or f" {toolkit.casefold()} " in f" {name.casefold()} "
    head = name if named else f"{toolkit}: {name}"
    return f"{head}: {prose[:_LONGEST_EMBEDDED]}"[:_LONGEST]


def _prose(tool: Tool) -> str:
    written = " ".join(filter(None, (tool.description, tool.summary, tool.when_to_use, *tool.tags)))
    return plain_text(written[:_LONGEST_READ])


def _parameter_names(schema: Mapping[str, Any]) -> str:
    properties = schema.get("properties")
    if not isinstance(properties, (dict, Mapping)):
        return ""
    return ", ".join(words(str(name)[:_LONGEST_NAME]) for name in islice(properties, _MOST_NAMED))


def _words_of_parameters(schema: Mapping[str, Any]) -> str:
    text = parameter_words(schema, _MOST_PARAMETERS, _DEEPEST) if type(schema) is dict else None
    return " ".join(_parameter_words(schema)) if text is None else text


def _parameter_words(schema: Mapping[str, Any], depth: int = 0) -> list[str]:
    """Names and descriptions of the parameters, breadth-limited: schemas are hostile input."""
    properties = schema.get("properties")
    if not isinstance(properties, (dict, Mapping)) or depth >= _DEEPEST:
        return []
    words: list[str] = []
    for name, parameter in islice(properties.items(), _MOST_PARAMETERS):
        words.append(str(name))
        if isinstance(parameter, (dict, Mapping)):
            description = parameter.get("description")
            if isinstance(description, str):
                words.append(description)
            if "properties" in parameter:
                words += _parameter_words(parameter, depth + 1)
    return words


def verb_text(name: str) -> str:
    """The first known verb of a name in words, with other words for it; "" without one."""
    words = name.casefold().split()
    if _VERBS.keys().isdisjoint(words):  # half of all names
        return ""
    return next(_VERBS[word] for word in words if word in _VERBS)
