"""What retrieval reads of a tool."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from toolroll import Tool
from toolroll.catalog.tool_text import (
    FIELD_WEIGHTS,
    MOST_EXAMPLES,
    ToolText,
    description_text,
    embedded_texts,
    example_texts,
    parameter_text,
    verb_text,
    words,
)


def test_identifiers_become_words():
    assert words("gmail_listEmails") == "gmail list Emails"
    assert words("HTTPServer.get-URL") == "HTTP Server get URL"
    assert words("") == ""


def test_all_that_helps_to_find_a_tool_is_in_some_field():
    tool = Tool(
        "send",
        "desc",
        {"properties": {"to": {"description": "who", "properties": {"cc": {"description": "copy"}}}}},
        toolkit="mail",
        summary="sum",
        when_to_use="when",
        tags=("tag",),
        examples=("one", "two"),
    )
    found = ToolText.of(tool).fields
    assert len(found) == len(FIELD_WEIGHTS)
    assert found == ("send mail", "desc sum when tag", "to who cc copy", "one two")
    assert description_text(tool) == ToolText.of(tool).description == "mail: send: desc sum when tag"
    assert parameter_text(tool) == ToolText.of(tool).parameter_names == "to"
    assert embedded_texts(tool) == ("mail: send: desc sum when tag", "to", "one", "two")
    assert embedded_texts(Tool("delete")) == ("delete: ", verb_text("delete"))


def test_a_schema_that_holds_itself_is_read_once_a_level():
    schema: dict[str, object] = {"properties": {}}
    schema["properties"]["self"] = schema
    assert "self" in ToolText.of(Tool("a", parameters=schema)).parameters


def test_long_texts_are_bounded():
    tool = Tool(
        "a", "word " * 13_000, {"properties": {f"p{i}": {} for i in range(10_000)}}, examples=("x " * 9_999,)
    )
    assert sum(map(len, ToolText.of(tool).fields)) < 10_000


@each_row(
    ("name", "toolkit", "head"),
    [
        ("create", "vm", "vm: create"),
        ("vm_create", "vm", "vm create"),
        ("createVm", "vm", "create Vm"),
        ("delete-vm", "VM", "delete vm"),
        ("azure_vm_create", "azure_vm", "azure vm create"),
        ("vm_create", "azure_vm", "azure vm: vm create"),
        ("vms_create", "vm", "vm: vms create"),
        ("create", "", "create"),
    ],
)
def test_the_toolkit_is_left_out_where_the_name_says_it(name, toolkit, head):
    assert description_text(Tool(name, "makes one", toolkit=toolkit)) == f"{head}: makes one"


def test_parameters_are_named_in_words_apart_from_the_prose():
    schema = {"type": "object", "properties": {"attendeeEmails": {"description": "not read"}, "due_date": {}}}
    tool = Tool("add", "adds", schema, when_to_use="often")
    assert description_text(tool) == "add: adds often"
    assert parameter_text(tool) == "attendee Emails, due date"


@each_row("parameters", [{}, {"properties": None}, {"properties": []}, {"properties": {}}])
def test_a_tool_without_parameters_names_none(parameters):
    tool = Tool("add", "adds", parameters)
    assert ToolText.of(tool).parameter_names == parameter_text(tool) == ""
    assert embedded_texts(tool) == ("add: adds",)


def test_of_many_parameters_the_first_twelve_are_named():
    text = parameter_text(Tool("a", parameters={"properties": {f"p{i}": {} for i in range(100)}}))
    assert text == ", ".join(f"p{i}" for i in range(12))


def test_names_of_parameters_are_bounded_too():
    schema = {"properties": {f"{i}{'x' * 100_000}": {} for i in range(100)}}
    assert len(parameter_text(Tool("a", "b", schema))) <= 1_000


@given(st.text(max_size=30), st.lists(st.text(max_size=30), max_size=4), st.text(max_size=30))
def test_any_text_is_described(description, names, toolkit):
    tool = Tool("a", description, {"properties": {name: {} for name in names}}, toolkit=toolkit)
    assert "a" in description_text(tool)
    assert all(isinstance(text, str) for text in ToolText.of(tool).fields)


def test_the_first_examples_count_and_empty_ones_do_not():
    tool = Tool("a", examples=("", " \n", *(f"message {i}" for i in range(100))))
    texts = example_texts(tool)
    assert texts[0] == "message 0"
    assert len(texts) <= MOST_EXAMPLES
    assert texts == tool.examples[2 : 2 + len(texts)]


def test_examples_of_any_length_are_bounded_together():
    tool = Tool("a", examples=tuple("x" * 1_000 for _ in range(50)))
    assert sum(map(len, example_texts(tool))) <= 8_000
    assert example_texts(Tool("a", examples=("y" * 60_000, "short"))) == ()


@each_row(
    ("name", "verb"),
    [
        ("listCoreV1NamespacedPod", "list"),
        ("vm_DELETE", "delete"),
        ("pods/patch", ""),
        ("send", ""),
        ("", ""),
    ],
)
def test_a_verb_is_read_in_other_words_too(name, verb):
    found = verb_text(words(name))
    assert found.split()[:1] == ([verb] if verb else [])
    assert not verb or len(found.split()) > 1


def test_of_long_prose_the_beginning_is_embedded_and_more_is_searched():
    tool = Tool("a", "first " + "word " * 200 + "last")
    assert description_text(tool).startswith("a: first word") and "last" not in description_text(tool)
    assert "last" in ToolText.of(tool).prose
