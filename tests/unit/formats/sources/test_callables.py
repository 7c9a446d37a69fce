from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import json
import pathlib
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NewType, Optional, TypedDict, Union

import pytest

from tests.table import each_row
from toolroll.formats.sources import as_tool
from toolroll.formats.sources.callables import schema_of
from toolroll.formats.sources.docstrings import read_docstring
from toolroll.model.errors import InvalidDefinition
from toolroll.model.tools import Tool

if TYPE_CHECKING:
    from nowhere import Missing


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Address(TypedDict, total=False):
    street: str
    zip: Annotated[str, "Five digits."]


@dataclasses.dataclass
class Person:
    """Somebody.

    Attributes:
        name: What they are called.
    """

    name: str
    age: int = 30
    address: Address | None = None
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Node:
    child: Optional[Node] = None


UserId = NewType("UserId", int)


@each_row(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (list, {"type": "array", "items": {}}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (
            tuple[int, str],
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "minItems": 2,
                "maxItems": 2,
            },
        ),
        (dict, {"type": "object"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Mapping[str, Any], {"type": "object"}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", 1, None], {"type": ["string", "integer", "null"], "enum": ["a", 1, None]}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (Optional[int], {"type": ["integer", "null"]}),
        (int | None, {"type": ["integer", "null"]}),
        (Union[int, str], {"type": ["integer", "string"]}),
        (Union[int, Any], {}),
        (list[int] | None, {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]}),
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (datetime.date, {"type": "string", "format": "date"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (pathlib.Path, {"type": "string", "format": "path"}),
        (UserId, {"type": "integer"}),
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
        (Annotated[int, {"minimum": 1}], {"type": "integer", "minimum": 1}),
        (
            Address,
            {
                "type": "object",
                "properties": {
                    "street": {"type": "string"},
                    "zip": {"type": "string", "description": "Five digits."},
                },
            },
        ),
    ],
)
def test_a_type_has_its_json_schema(annotation, schema):
    assert schema_of(annotation) == schema


def test_a_dataclass_is_an_object_with_its_required_fields_and_defaults():
    assert schema_of(Person) == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "What they are called."},
            "age": {"type": "integer", "default": 30},
            "address": {"anyOf": [schema_of(Address), {"type": "null"}], "default": None},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["name"],
    }


def test_a_type_that_holds_itself_ends_somewhere():
    assert schema_of(Node)["properties"]["child"]["anyOf"][0]["type"] == "object"


def search(
    query: str, limit: Annotated[int, "At most so many."] = 10, *args: int, exact: bool = False, **more: int
):
    """Searches the archive
    for documents.

    Slow on Mondays.

    Args:
        query: What to look for,
            in any language.
        limit: Ignored, Annotated says it.
        exact (bool, optional): Whether every word must occur.

    Returns:
        Documents.
    """


SEARCH = Tool(
    "search",
    "Searches the archive for documents.\n\nSlow on Mondays.",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for, in any language."},
            "limit": {"type": "integer", "description": "At most so many.", "default": 10},
            "exact": {"type": "boolean", "description": "Whether every word must occur.", "default": False},
        },
        "required": ["query"],
    },
)


def test_a_function_becomes_a_tool():
    assert as_tool(search) == SEARCH
    assert as_tool(search).original is search


def test_a_bound_method_has_no_self_and_a_coroutine_function_is_a_function():
    class Shop:
        def buy(self, item: str) -> None:
            """Buys."""

        async def sell(self, item: str) -> None:
            """Sells."""

        @classmethod
        def open(cls, when: datetime.time) -> None:
            """Opens."""

    item = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
    assert as_tool(Shop().buy) == Tool("buy", "Buys.", item)
    assert as_tool(Shop().sell) == Tool("sell", "Sells.", item)
    assert list(as_tool(Shop.open).parameters["properties"]) == ["when"]


def test_a_callable_object_is_called_like_its_class():
    class Echo:
        def __call__(self, text: str) -> str:
            """Says it again."""
            return text

    assert as_tool(Echo()) == Tool(
        "Echo",
        "Says it again.",
        {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    )


def test_a_partial_and_a_decorated_function_are_seen_through():
    @functools.wraps(search)
    def wrapped(*args, **kwargs):
        return search(*args, **kwargs)

    assert as_tool(wrapped) == SEARCH
    partial = as_tool(functools.partial(search, limit=3))
    assert partial.name == "search" and partial.parameters["properties"]["limit"]["default"] == 3


def test_a_function_without_parameters_or_annotations_is_fine():
    def ping():
        pass

    def say(text, loud=False, when=datetime.date(2026, 1, 2), how=object()):
        pass

    assert as_tool(ping) == Tool("ping", "", {"type": "object", "properties": {}})
    assert as_tool(say).parameters == {
        "type": "object",
        "properties": {"text": {}, "loud": {"default": False}, "when": {"default": "2026-01-02"}, "how": {}},
        "required": ["text"],
    }


def unresolved(thing: Missing) -> None: ...


def impossible(lock: complex) -> None: ...


def unnamed(text: str, /) -> None: ...


@each_row(
    ("function", "message"),
    [
        (
            unresolved,
            "function 'unresolved': its annotations name 'Missing', which is not defined in its "
            "module; import it there, and not only under TYPE_CHECKING",
        ),
        (impossible, "function 'impossible': parameter 'lock': complex has no form in JSON"),
        (unnamed, "function 'unnamed': parameter 'text' is positional-only, must have a name"),
        (lambda x: x, "is a lambda, must be a function with a name"),
        (Person, "is the class Person, must be a function or a callable object"),
    ],
)
def test_a_function_that_cannot_be_a_tool_says_why(function, message):
    with pytest.raises(InvalidDefinition) as caught:
        as_tool(function)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "docstring",
    [
        """Does it.

        Args:
            a: The first,
                at length.
            b (int): The second.

        Returns:
            Nothing.
        """,
        """Does it.

        Parameters
        ----------
        a : int
            The first,
            at length.
        b
            The second.

        Returns
        -------
        None
        """,
        """Does it.

        :param a: The first,
            at length.
        :type a: int
        :param int b: The second.
        :returns: Nothing.
        """,
    ],
    ids=["google", "numpy", "sphinx"],
)
def test_each_docstring_style_gives_the_same_texts(docstring):
    assert read_docstring(docstring) == ("Does it.", {"a": "The first, at length.", "b": "The second."})


def test_a_docstring_without_sections_is_all_description():
    text = "Turns on the light.\n\nNote: it is bright: very bright.\nUse it with care:\nslowly."
    assert read_docstring(text) == (
        "Turns on the light.\n\nNote: it is bright: very bright. Use it with care: slowly.",
        {},
    )
    assert read_docstring("") == ("", {})


@dataclasses.dataclass
class Branch:
    left: Branch | None = None
    right: Branch | None = None


@dataclasses.dataclass
class Lost:
    where: Nowhere  # noqa: F821


def test_a_class_that_holds_itself_twice_has_a_schema_of_bounded_size() -> None:
    def plant(tree: Branch) -> None:
        """Plants a tree."""

    assert len(json.dumps(as_tool(plant).parameters)) < 100_000


def test_a_class_with_a_name_that_is_nowhere_is_named() -> None:
    def seek(what: Lost) -> None:
        """Seeks."""

    with pytest.raises(InvalidDefinition, match=r"Lost names 'Nowhere', which is not defined"):
        as_tool(seek)
