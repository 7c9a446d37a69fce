"""Each field of a tool is its plugin's or people's, on both databases: what people set, no payload changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolroll.model.errors import InvalidDefinition, InvalidInput
from toolroll.model.tools import Tool
from toolroll.registry.editing.content import COLUMNS
from toolroll.registry.registry import Registry
from toolroll.registry.store.database import Database


@pytest.fixture
def registry(database: Database) -> Registry:
    return Registry(database, actor="ann")


def send(registry: Registry, *tools: dict[str, Any], **options: Any) -> Any:
    return registry.sync(list(tools), plugin="p", **options)


def set_(registry: Registry, name: str = "wt", give_back: tuple[str, ...] = (), **changes: Any) -> None:
    registry.update(name, changes, version=registry.tool(name).version, give_back=give_back)


def answer(registry: Registry, name: str = "wt") -> dict[str, Any]:
    """The tool as `GET /tools/{name}` gives it."""
    found: dict[str, Any] = json.loads(json.dumps(registry.tool(name).to_dict()))
    return found


def test_a_changed_word_of_a_plugin_leaves_what_people_set(registry: Registry) -> None:
    send(registry, {"name": "wt", "description": "one"})
    peoples = {
        "examples": ["by hand"],
        "when_to_use": "always",
        "display_name": "WT",
        "execution_type": "rest",
        "execution_config": {"url": "x"},
        "semantic_version": "1.5.0",
    }
    set_(registry, **peoples)
    report = send(registry, {"name": "wt", "description": "two"})
    assert report.to_dict()["changed"] == [{"name": "wt", "review": "approved", "fields": ["description"]}]
    found = answer(registry)
    assert {name: found[name] for name in peoples} == peoples and found["description"] == "two"
    assert found["source_values"].keys() == peoples.keys() and found["flags"] == []


def test_what_a_plugin_sends_for_a_field_of_people_is_shown_and_flagged_and_can_be_had(
    registry: Registry,
) -> None:
    send(registry, {"name": "wt", "examples": ["a"]})
    set_(registry, examples=["by hand"])
    news = {"name": "wt", "examples": ["b"]}
    planned = send(registry, news, dry_run=True).to_dict()
    done = send(registry, news).to_dict()
    (change,) = done["changed"]
    assert planned["changed"] == done["changed"] and change["kept"] == {"examples": ["b"]}
    assert [flag["code"] for flag in answer(registry)["flags"]] == ["kept"]
    last, before = registry.history("wt", limit=2)
    assert last.changed == ("source_values",)
    assert (before.source_values, last.source_values) == ({"examples": ["a"]}, {"examples": ["b"]})
    assert 'examples: people\'s; its plugin says ["b"]' in registry.diff("wt", 2, 3)
    set_(registry, give_back=("examples",))
    found = answer(registry)
    assert (found["examples"], found["source_values"], found["flags"]) == (["b"], {}, [])
    send(registry, {"name": "wt", "examples": ["c"]})
    assert answer(registry)["examples"] == ["c"]
    with pytest.raises(InvalidInput, match="'examples' is no field that people changed .* are: none"):
        set_(registry, give_back=("examples",))


def test_a_field_that_is_absent_stays_and_one_that_is_null_or_empty_goes(registry: Registry) -> None:
    send(registry, {"name": "wt", "description": "one", "examples": ["a"], "summary": "s", "tags": ["t"]})
    send(registry, {"name": "wt", "description": "two"})
    assert (answer(registry)["examples"], answer(registry)["summary"]) == (["a"], "s")
    send(registry, {"name": "wt", "examples": [], "summary": None})
    found = answer(registry)
    assert (found["description"], found["examples"], found["summary"]) == ("two", [], "")
    assert found["tags"] == ["t"]


def test_a_field_that_an_mcp_server_no_longer_gives_is_gone(registry: Registry) -> None:
    listed = {"name": "wt", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    send(registry, listed)
    set_(registry, tags=["t"])
    send(registry, {"name": "wt", "inputSchema": {"type": "object"}})
    assert (answer(registry)["annotations"], answer(registry)["tags"]) == (None, ["t"])


def test_a_tool_that_its_plugin_drops_and_sends_again_has_what_people_set(registry: Registry) -> None:
    send(registry, {"name": "wt", "description": "one"})
    set_(registry, description="better")
    send(registry)
    send(registry, {"name": "wt", "description": "two", "summary": "s"})
    found = answer(registry)
    assert (found["description"], found["summary"]) == ("better", "s")
    assert found["source_values"] == {"description": "two"}


def test_an_earlier_version_that_people_bring_back_stays(registry: Registry) -> None:
    send(registry, {"name": "wt", "description": "one", "summary": "s"})
    send(registry, {"name": "wt", "description": "two", "summary": "s"})
    registry.rollback("wt", 1)
    send(registry, {"name": "wt", "description": "three", "summary": "t"})
    assert (answer(registry)["description"], answer(registry)["summary"]) == ("one", "t")


def test_a_rejected_proposal_leaves_the_owners_as_they_were(registry: Registry) -> None:
    send(registry, {"name": "wt", "description": "one", "summary": "s"})
    set_(registry, summary="mine")
    registry.propose("wt", {"description": "proposed"}, version=2)
    registry.reject("wt")
    assert answer(registry)["source_values"] == {"summary": "s"}
    send(registry, {"name": "wt", "description": "two", "summary": "s"})
    assert (answer(registry)["description"], answer(registry)["summary"]) == ("two", "mine")


def test_an_import_keeps_what_people_set_since(registry: Registry) -> None:
    registry.import_([{"name": "wt", "description": "one", "examples": ["a"]}])
    set_(registry, description="better")
    registry.import_([{"name": "wt", "description": "one", "examples": ["b"]}])
    assert (answer(registry)["description"], answer(registry)["examples"]) == ("better", ["b"])


def test_new_hints_of_a_plugin_wait_for_review_though_people_set_others(registry: Registry) -> None:
    send(registry, {"name": "wt", "annotations": {"title": "x"}}, review="changed", while_waiting="approved")
    set_(registry, annotations={"readOnlyHint": True})
    warning = {"name": "wt", "annotations": {"readOnlyHint": False}}
    send(registry, warning)
    record = registry.tool("wt")
    assert (record.review, record.served_version) == ("changed", None)
    assert not send(registry, warning).is_applied
    registry.reject("wt")
    assert (registry.tool("wt").review, registry.tool("wt").tool.annotations) == (
        "approved",
        {"readOnlyHint": True},
    )
    assert not send(registry, warning).is_applied


def test_all_unknown_keys_of_a_payload_are_named_with_what_was_meant(registry: Registry) -> None:
    with pytest.raises(InvalidDefinition) as error:
        send(
            registry,
            {"name": "x", "parameter_schema": {}, "exampls": []},
            {"name": "good"},
            {"name": "y", "executionType": "rest"},
            {"name": "z", "inputSchema": {}, "toolkit": "t"},
            {"type": "function", "function": {"name": "f", "descripton": "d"}},
        )
    assert str(error.value).splitlines()[1:] == [
        "  tools[0]: tool 'x': unknown field 'parameter_schema'; did you mean 'parameters'?; "
        "unknown field 'exampls'; did you mean 'examples'?",
        "  tools[2]: tool 'y': unknown field 'executionType'; did you mean 'execution_type'?",
        "  tools[3]: tool 'z': 'toolkit' cannot stand beside 'inputSchema', the form of MCP's servers; "
        "name the schema 'parameters'",
        "  tools[4]: tool 'f': unknown field 'descripton'; did you mean 'description'?",
    ]
    assert registry.tools().records == ()


def test_the_names_of_a_catalog_in_sql_are_those_of_our_fields(registry: Registry) -> None:
    send(
        registry,
        {
            "name": "wt",
            "category": "weather",
            "parameters_schema": {"type": "object"},
            "return_schema": {"type": "string"},
            "function_summary": "s",
            "example_queries": ["q"],
            "is_always_pinned": False,
            "schema_version": "2.0.0",
            "execution_type": "rest",
            "execution_config": {"url": "x"},
        },
    )
    found = answer(registry)
    assert (found["toolkit"], found["parameters"], found["returns"]) == (
        "weather",
        {"type": "object"},
        {"type": "string"},
    )
    assert (found["summary"], found["examples"], found["semantic_version"]) == ("s", ["q"], "2.0.0")
    assert (found["execution_type"], found["execution_config"]) == ("rest", {"url": "x"})
    with pytest.raises(InvalidDefinition, match="category and toolkit say the same"):
        send(registry, {"name": "wt", "toolkit": "a", "category": "a"})


def test_what_the_registry_fills_is_read_by_its_kind(registry: Registry) -> None:
    send(registry, {"name": "wt"})
    for wrong in ({"revision": "4"}, {"flags": {}}, {"approved_version": "1"}, {"source_values": []}):
        with pytest.raises(InvalidDefinition, match="as the registry gives it"):
            send(registry, {**answer(registry), **wrong})
        with pytest.raises(InvalidInput, match="as the registry gives it"):
            set_(registry, **wrong)
    with pytest.raises(InvalidInput, match="counted by the registry"):
        set_(registry, version="1.0.0")


# A model: what people have set, and what the plugin has sent.

TEXTS = st.sampled_from(("", "a", "b"))
LISTS = st.lists(st.sampled_from(("a", "b")), max_size=1)
OBJECTS = st.sampled_from((None, {}, {"readOnlyHint": True}, {"readOnlyHint": False}))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "description": TEXTS,
    "examples": LISTS,
    "annotations": OBJECTS,
    "execution_type": TEXTS,
    "semantic_version": st.sampled_from(("1.0.0", "1.1.0", "2.0.0")),
}
DEFAULTS = {
    column: list(value) if isinstance(value := getattr(Tool("x"), name), tuple) else value
    for name, column in COLUMNS.items()
    if column in VALUES
}
SOME = st.fixed_dictionaries({}, optional=VALUES)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), SOME),
        st.tuples(st.just("edit"), SOME),
        st.tuples(st.just("give back"), st.sets(st.sampled_from(sorted(VALUES)), max_size=2)),
        st.tuples(st.just("send the answer"), st.none()),
        st.tuples(st.just("drop"), st.none()),
    ),
    max_size=8,
)


def _follows_the_model(database: Database, steps: list[tuple[str, Any]], name: str) -> None:
    registry = Registry(database, actor="ann")
    registry.sync([{"name": name}], plugin=name)
    plugin, people = dict(DEFAULTS), dict[str, Any]()
    for what, value in steps:
        before = registry.tool(name)
        held = plugin | people
        if what == "send":
            registry.sync([{"name": name, **value}], plugin=name)
            plugin |= value
        elif what == "edit":
            set_(registry, name, **value)
            changed = {key: one for key, one in value.items() if one != held[key]}
            people |= changed
            people = {key: one for key, one in people.items() if key not in changed or one != plugin[key]}
        elif what == "give back":
            fields = tuple(value & people.keys())
            set_(registry, name, give_back=fields)
            people = {key: one for key, one in people.items() if key not in fields}
        elif what == "send the answer":
            assert registry.sync([answer(registry, name)], plugin=name).plan.names("change") == ()
            after = registry.tool(name)
            assert (after.version, after.flags, after.tool) == (before.version, before.flags, before.tool)
            plugin = dict(held)
        else:
            registry.sync([], plugin=name)
            registry.sync([{"name": name, "tags": [str(before.version)]}], plugin=name)
        found = answer(registry, name)
        assert {key: found[key] for key in DEFAULTS} == plugin | people
        assert found["source_values"] == {key: plugin[key] for key in people}


@pytest.mark.parametrize(
    "dialect", [pytest.param("sqlite"), pytest.param("postgresql", marks=pytest.mark.db)]
)
def test_each_field_has_the_value_of_its_owner_whatever_the_order(
    new_database_url: Callable[[str], str], dialect: str
) -> None:
    count = 0
    with Registry.open(new_database_url(dialect)) as opened:

        @settings(
            max_examples=60 if dialect == "sqlite" else 10, deadline=None, derandomize=True, database=None
        )
        @given(STEPS)
        def run(steps: list[tuple[str, Any]]) -> None:
            nonlocal count
            count += 1
            _follows_the_model(opened.database, steps, f"tool_{count}")

        run()


TOOLS = st.builds(
    dict,
    name=st.just("t"),
    description=st.text("aé\n'\"\\", max_size=5),
    parameters=st.sampled_from((None, {}, {"type": "object", "properties": {"a": {"type": "string"}}})),
    returns=st.sampled_from((None, {"type": "string"})),
    annotations=OBJECTS,
    icons=st.sampled_from(([], [{"src": "x"}])),
    meta=st.sampled_from((None, {"a": [1, 1.0, None]})),
    execution=st.sampled_from((None, {"taskSupport": "optional"})),
    toolkit=st.sampled_from(("", "kit")),
    tags=LISTS,
    examples=LISTS,
    display_name=TEXTS,
    execution_config=st.sampled_from((None, {"a": 1})),
    semantic_version=st.sampled_from(("1.0.0", "2.0.0-rc.1")),
    status=st.sampled_from(("active", "draft")),
)


def test_what_the_registry_answers_can_be_sent_back_and_changes_nothing(database: Database) -> None:
    registry, count = Registry(database, actor="ann"), 0

    @settings(max_examples=25, deadline=None, derandomize=True, database=None)
    @given(TOOLS)
    def run(tool: dict[str, Any]) -> None:
        nonlocal count
        count += 1
        name = f"t{count}"
        tool = {**tool, "name": name, "toolkit": tool["toolkit"] and f"kit {count}"}
        registry.sync([tool], plugin=name, trusted=True)
        before = answer(registry, name)
        assert {key: before[key] for key in tool} == tool
        registry.sync([before], plugin=name, trusted=True)
        registry.update(name, before, version=1)
        after = answer(registry, name)
        assert {**after, "source_hash": ""} == {**before, "source_hash": ""}

    run()
