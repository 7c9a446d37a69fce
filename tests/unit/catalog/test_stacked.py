"""An organisation's catalog on top of the shared one, against one flat catalog of the same tools."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies as some
from tests.ranking_weights import fusion_with
from tests.unit.core.corrected import corrected
from toolroll import Context, Route, Tool, Toolkit
from toolroll._core import Bitset, Fusion
from toolroll.catalog.catalog import Catalog, CatalogOptions
from toolroll.catalog.stacked import StackedColumn, StackedRows, StackedTools, layered
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.model.arrays import NO_ROWS, NO_SCORES
from toolroll.model.context import Turn
from toolroll.model.errors import InvalidDefinition, InvalidInput
from toolroll.model.tools import Definitions
from toolroll.selection.compose import compose
from toolroll.selection.profiles import Profile

EMBEDDER = HashingEmbedder(64)
DENSE = fusion_with(dense=1.0, intents=0.5, clauses=0.3)
WORDS = fusion_with(lexical=0.05, clauses=0.3)
BOTH = fusion_with(dense=1.0, intents=0.5, lexical=0.05, clauses=0.3)


@st.composite
def split(draw: st.DrawFn) -> tuple[Definitions, Definitions, Definitions]:
    """Shared, own, and both as one. Without members: what the platform wrote means no own tools."""
    both = draw(some.definitions())
    both = replace(both, toolkits=tuple(replace(kit, members=()) for kit in both.toolkits))
    is_own = draw(st.lists(st.booleans(), min_size=len(both.tools), max_size=len(both.tools)))
    at = draw(st.integers(0, len(both.routes)))
    shared = tuple(tool for tool, own in zip(both.tools, is_own, strict=True) if not own)
    own = tuple(tool for tool, own in zip(both.tools, is_own, strict=True) if own)
    return (
        Definitions(shared, both.toolkits, both.routes[:at]),
        Definitions(own, (), both.routes[at:]),
        both,
    )


MEANING = CatalogOptions(toolkits_by_meaning=True)


def stacked(shared: Definitions, own: Definitions, embedder=EMBEDDER) -> Catalog:
    return Catalog.stacked(Catalog.build(shared, embedder), own, embedder)


def named(catalog: Catalog, rows) -> list[str]:
    return [catalog.tools[row].name for row in (rows.rows() if isinstance(rows, Bitset) else rows)]


def ranking(catalog: Catalog, fusion: Fusion, text: str, damped: bool = False) -> dict[str, float]:
    """Tool → score, of all that are found at all."""
    size = len(catalog)
    vector = EMBEDDER.embed_query(text) if catalog.dim else None
    clauses = ((text.split(" ")[0], EMBEDDER.embed_query(text.split(" ")[0]), 1.0, 1.0),)
    rows, scores, *_ = catalog.retriever(fusion, damped).retriever.search(
        text, vector, 1.0, clauses, (), Bitset.full(size), NO_ROWS, NO_SCORES, size, fusion
    )
    assert sorted(scores.tolist(), reverse=True) == scores.tolist()
    return dict(zip(named(catalog, rows), scores.tolist(), strict=True))


def select(catalog: Catalog, message: str, p: Profile | None = None, **context):
    pipeline = compose(catalog, p or Profile(pass_through_tools=0))
    vector = EMBEDDER.embed_query(message) if catalog.dim else None
    return pipeline.decide(Turn(message, Context(**context), vector))


@given(split(), some.contexts())
def test_everything_but_the_order_of_rows_is_as_in_one_catalog(parts, context):
    shared, own, both = parts
    stack, flat = stacked(shared, own), Catalog.build(both, EMBEDDER)
    assert [tool.name for tool in stack.tools] == named(stack, range(len(stack)))
    assert set(stack.tools) == set(flat.tools)
    assert {name: stack.tools[row].name for name, row in stack.names.items()} == {n: n for n in flat.names}
    assert dict(stack.toolkits) == dict(flat.toolkits)
    assert stack.below.keys() == flat.below.keys()
    for toolkit in flat.below:
        assert sorted(named(stack, stack.below[toolkit])) == named(flat, flat.below[toolkit])
    assert sorted(named(stack, stack.base)) == named(flat, flat.base)
    weights = [stack.tools[row].pin_weight for row in stack.pinned.tolist()]
    assert weights == sorted(weights, reverse=True)
    assert sorted(named(stack, stack.pinned)) == sorted(named(flat, flat.pinned))
    for one, other in (
        (stack.inactive, flat.inactive),
        (stack.not_public, flat.not_public),
        (stack.switches.off(context), flat.switches.off(context)),
    ):
        assert (one is None) == (other is None)
        assert one is None or sorted(named(stack, one)) == named(flat, other)
    everything = np.arange(len(flat), dtype=np.int32)
    assert stack.tokens_of(everything) == flat.tokens_of(everything)
    for text in ("rain and mail", "날씨 note", "nothing"):
        assert stack.routes.hits(text).keys() == flat.routes.hits(text).keys()


@given(split(), some.messages())
def test_by_vectors_alone_the_ranking_is_that_of_one_catalog(parts, text):
    shared, own, both = parts
    assert ranking(stacked(shared, own), DENSE, text) == ranking(Catalog.build(both, EMBEDDER), DENSE, text)


@pytest.mark.parametrize(("fusion", "embedder"), [(WORDS, None), (BOTH, EMBEDDER)])
@given(parts=split(), text=some.messages())
def test_own_tools_score_as_in_one_catalog_and_shared_ones_as_without_them(fusion, embedder, parts, text):
    shared, own, both = parts
    found = ranking(stacked(shared, own, embedder), fusion, text)
    flat = ranking(Catalog.build(both, embedder), fusion, text)
    alone = ranking(Catalog.build(shared, embedder), fusion, text)
    own_names = {tool.name for tool in own.tools}
    expected = {name: score for name, score in flat.items() if name in own_names} | alone
    assert found == pytest.approx(expected, rel=1e-5)


def test_one_own_tool_among_a_thousand_is_found_where_one_catalog_finds_it():
    generator = random.Random(5)
    words = [f"w{i}" for i in range(400)]
    tools = [
        Tool(f"tool_{i}", " ".join(generator.choices(words[: 10 + i % 390], k=8)), toolkit=f"kit{i % 30}")
        for i in range(1_020)
    ]
    flat = Catalog.build(Definitions(tuple(tools)), EMBEDDER)
    stack = stacked(Definitions(tuple(tools[20:])), Definitions(tuple(tools[:20])))
    fusion = BOTH
    first = same = 0
    for tool in tools[:100]:
        text = " ".join(generator.sample(tool.description.split(), 5))
        one, other = list(ranking(flat, fusion, text)), list(ranking(stack, fusion, text))
        first += one[0] == other[0]
        same += len({*one[:5]} & {*other[:5]})
    assert first >= 98
    assert same >= 490


@given(split(), some.messages(), some.contexts(), some.parameters())
def test_any_profile_selects_from_a_stack_without_a_failure(parts, message, context, parameters):
    shared, own, _ = parts
    catalog = Catalog.stacked(Catalog.build(shared, EMBEDDER, MEANING), own, EMBEDDER, MEANING)
    turn = Turn(message, context, EMBEDDER.embed_query(message))
    picked = compose(catalog, parameters).decide(turn)
    assert not picked.degraded
    assert len(set(picked.names)) == len(picked.names)
    assert all(tool.status == "active" for tool in picked.tools)
    assert picked.explain()


def test_the_own_tool_stays_where_the_platform_has_the_name_too():
    shared = Definitions((Tool("mail", "send a mail", pinned=True), Tool("rain", "when it rains")))
    catalog = stacked(shared, Definitions((Tool("mail", "our own mail"),)))
    assert catalog.names["mail"] == 2
    assert len(catalog.names) == 2
    assert catalog.inactive.rows().tolist() == [0]
    assert len(catalog.pinned) == 0
    picked = select(catalog, "send a mail")
    assert [tool.description for tool in picked.tools if tool.name == "mail"] == ["our own mail"]
    assert [tool.description for tool in select(catalog, "x", required=("mail",)).tools] == ["our own mail"]


def test_an_own_draft_hides_the_platforms_tool_too():
    catalog = stacked(Definitions((Tool("mail", "mail"),)), Definitions((Tool("mail", "m", status="draft"),)))
    assert select(catalog, "mail").names == ()


def test_an_organisation_cannot_loosen_a_shared_toolkit():
    shared = Definitions((Tool("a", toolkit="crm"),), (Toolkit("crm", settings_keys=("key",), tier="pro"),))
    own = Definitions((Tool("b", toolkit="crm"),), (Toolkit("crm", base=True),))
    catalog = stacked(shared, own)
    assert catalog.toolkits["crm"] == shared.toolkits[0]
    assert named(catalog, catalog.switches.off(Context())) == ["a", "b"]
    assert catalog.switches.off(Context(settings=("key",))).rows().tolist() == []
    assert catalog.base.tolist() == []
    assert catalog.below["crm"].tolist() == [0, 1]


def test_own_toolkits_hang_on_the_shared_ones_above_them():
    shared = Definitions((Tool("a", toolkit="crm"),), (Toolkit("crm", settings_keys=("key",)),))
    own = Definitions(
        (Tool("b", toolkit="deals"),), (Toolkit("deals", parent="crm", settings_keys=("own",)),)
    )
    catalog = stacked(shared, own)
    assert catalog.below["crm"].tolist() == [0, 1]
    assert catalog.below["deals"].tolist() == [1]
    assert named(catalog, catalog.switches.off(Context(settings=("own",)))) == ["a", "b"]
    assert named(catalog, catalog.switches.off(Context(settings=("key",)))) == ["b"]
    assert catalog.switches.keys == {"key", "own"}


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (Definitions((Tool("a"), Tool("a"))), "defined more than once"),
        (Definitions(toolkits=(Toolkit("x", parent="nowhere"),)), "parent 'nowhere' is not in the catalog"),
        (Definitions(toolkits=(Toolkit("x", parent="y"), Toolkit("y", parent="x"))), "form a cycle"),
        (Definitions(toolkits=(Toolkit("x"), Toolkit("x"))), "defined more than once"),
        (Definitions(routes=(Route(("crn",), ("x",)),)), "did you mean 'crm'"),
    ],
)
def test_a_wrong_own_part_is_refused(own, said):
    with pytest.raises(InvalidDefinition, match=said):
        stacked(Definitions((), (Toolkit("crm"),)), own)


def test_own_routes_reach_shared_toolkits_and_shared_routes_own_tools():
    shared = Definitions((Tool("a", toolkit="crm"),), (), (Route(("crm",), ("deal",)),))
    own = Definitions((Tool("b", toolkit="crm"),), (), (Route(("crm",), ("closing",)),))
    catalog = stacked(shared, own)
    assert catalog.routes.hits("the deal") == {"crm": "keyword 'deal'"}
    assert catalog.routes.hits("closing") == {"crm": "keyword 'closing'"}
    assert catalog.routes.rows_of(["crm"]).tolist() == [0, 1]
    assert Catalog.build(shared, None).routes.hits("closing") == {}


def test_nothing_of_one_organisation_reaches_the_shared_catalog_or_another_one():
    shared = Catalog.build(Definitions(tuple(Tool(f"t{i}", f"word{i} rain") for i in range(20))), EMBEDDER)
    other = Definitions((Tool("rain_radar", "rain"), Tool("reload", "frobnicator word3")))
    before = {text: select(shared, text).names for text in ("rain word3", "frobnicater")}
    one = Catalog.stacked(shared, Definitions((Tool("mine", "rain mine"),)), EMBEDDER)
    alone = {text: ranking(one, BOTH, text, damped=True) for text in before}
    Catalog.stacked(shared, other, EMBEDDER).retriever(BOTH, True)
    assert {text: select(shared, text).names for text in before} == before
    assert {text: ranking(one, BOTH, text, damped=True) for text in before} == alone
    assert corrected(one.speller, "the frobnicater") == "the frobnicater"
    assert corrected(Catalog.stacked(shared, other, EMBEDDER).speller, "the frobnicater") == "the frobnicator"


def test_what_is_shared_is_measured_once_and_holds_in_every_stack():
    greedy = [
        Tool(f"t{i}", f"word{i}", examples=tuple(f"word{i} number {j}" for j in range(3))) for i in range(60)
    ]
    grabs = tuple(f"word{i} number {i % 3}" for i in range(60))
    tools = (*greedy, Tool("grab", "everything", examples=grabs))
    shared = Catalog.build(Definitions(tools), EMBEDDER)
    measured = shared.retriever(BOTH, True)
    assert measured.damping is not None and measured.damping.min() < 1
    assert shared.retriever(BOTH, True) is measured
    own = Definitions(tuple(Tool(f"own{i}", f"own word{i}") for i in range(20)))
    for _ in range(2):
        catalog = Catalog.stacked(shared, own, EMBEDDER)
        tuned = catalog.retriever(BOTH, True)
        rows = np.array([70, *range(61), 65], np.int32)
        assert tuned.damping[rows].tolist() == [1, *measured.damping.tolist(), 1]
        assert tuned.calibration is measured.calibration
    grab = shared.names["grab"]
    row = np.array([grab], np.int32)
    asked = ("word7 number 1", EMBEDDER.embed_query("word7 number 1"), 1.0, (), ())
    found = [
        c.retriever(BOTH, True).retriever.search(*asked, Bitset.of(len(c), row), NO_ROWS, NO_SCORES, 1, BOTH)[
            1
        ]
        for c in (shared, catalog)
    ]
    assert found[0].tolist() == found[1].tolist()


def test_scores_mean_what_own_examples_say_where_the_shared_part_has_none():
    own = [
        Tool(f"o{i}", f"word{i}", examples=tuple(f"word{i} number {j}" for j in range(4))) for i in range(20)
    ]
    bare, taught = Definitions((Tool("a", "x"),)), Definitions(tuple(own))
    assert len(stacked(bare, taught).retriever(BOTH, True).calibration.best)
    both = stacked(taught, Definitions(tuple(replace(tool, name=f"{tool.name}_") for tool in own)))
    assert both.parts[1].calibration_set is None
    assert both.calibration_set is both.parts[0].calibration_set


def test_toolkits_of_both_are_near_a_message_in_one_order():
    kits = [Toolkit("weather", "rain and sun"), Toolkit("mail", "letters"), Toolkit("rain", "rain")]
    shared = Catalog.build(Definitions((), tuple(kits[:2])), EMBEDDER, MEANING)
    stack = Catalog.stacked(shared, Definitions((), (kits[2],)), EMBEDDER, MEANING)
    flat = Catalog.build(Definitions((), tuple(kits)), EMBEDDER, MEANING)
    vector = EMBEDDER.embed_query("rain")
    assert list(stack.toolkit_index.near(vector, -1).items()) == list(
        flat.toolkit_index.near(vector, -1).items()
    )


def test_without_own_definitions_it_is_the_shared_catalog():
    shared = Catalog.build(Definitions((Tool("a"),)), EMBEDDER)
    assert Catalog.stacked(shared, Definitions(), EMBEDDER) is shared


def test_the_first_own_tools_may_come_before_any_shared_one():
    catalog = stacked(Definitions(), Definitions((Tool("a", "rain"),)))
    assert select(catalog, "rain").names == ("a",)


def test_own_tools_without_vectors_are_found_by_their_words():
    shared = Catalog.build(Definitions((Tool("a", "sun"),)), EMBEDDER)
    assert select(Catalog.stacked(shared, Definitions((Tool("b", "rain"),)), None), "rain").names[:1] == (
        "b",
    )


def test_another_embedder_and_a_stack_on_a_stack_are_refused():
    own = Definitions((Tool("b"),))
    shared = Catalog.build(Definitions((Tool("a"),)), EMBEDDER)
    with pytest.raises(InvalidInput, match="must be that of the shared catalog"):
        Catalog.stacked(shared, own, HashingEmbedder(32))
    with pytest.raises(InvalidInput, match="must be None: the shared catalog has no vectors"):
        Catalog.stacked(Catalog.build(Definitions((Tool("a"),)), None), own, EMBEDDER)
    with pytest.raises(InvalidInput, match="is stacked itself"):
        Catalog.stacked(Catalog.stacked(shared, own, EMBEDDER), own, EMBEDDER)


def test_the_revision_follows_both_parts():
    shared, own = Definitions((Tool("a", "x"),)), Definitions((Tool("b", "y"),))
    changed = Definitions((Tool("a", "z"),))
    one = stacked(shared, own).revision
    assert one == stacked(shared, own).revision
    renamed = Definitions((Tool("c", "y"),))
    assert len({one, stacked(changed, own).revision, stacked(shared, renamed).revision}) == 3


def test_the_memory_of_a_stack_does_not_follow_the_shared_tools():
    own = Definitions(tuple(Tool(f"own{i}", f"own {i} rain", toolkit=f"k{i % 3}") for i in range(10)))
    taken = []
    for n in (100, 4_000):
        shared = Catalog.build(
            Definitions(tuple(Tool(f"t{i}", f"word{i}", toolkit=f"k{i % 9}") for i in range(n))), EMBEDDER
        )
        compose(Catalog.stacked(shared, own, EMBEDDER), Profile())
        tracemalloc.start()
        try:
            pipeline = compose(Catalog.stacked(shared, own, EMBEDDER), Profile())
            taken.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
        assert pipeline.catalog.indexes is shared.indexes
    assert taken[1] - taken[0] < 4_000  # bitsets over both parts are not traced; an int a row would be 16,000


def test_two_parts_read_as_one():
    tools = StackedTools((Tool("a"), Tool("b")), (Tool("c"),))
    assert [tools[row].name for row in (0, 2, -1, -3)] == ["a", "c", "c", "a"]
    assert [tool.name for tool in tools[1:]] == ["b", "c"]
    for row in (3, -4):
        with pytest.raises(IndexError):
            tools[row]
    both = layered({"x": 1}, {"x": 2, "y": 3})
    assert (dict(both), len(both), both.get("z"), "y" in both) == (
        {"x": 1, "y": 3},
        2,
        None,
        True,
    )
    rows = StackedRows({"x": np.array([0], np.int32)}, {"x": np.array([2], np.int32), "z": NO_ROWS})
    assert {name: found.tolist() for name, found in rows.items()} == {"x": [0, 2], "z": []}
    assert (len(rows), rows.get("y")) == (2, None)
    column = StackedColumn(np.array([10, 11]), np.array([12]))
    assert column[np.array([2, 0, 2, 1], np.int32)].tolist() == [12, 10, 12, 11]
    assert column[NO_ROWS].tolist() == []


def test_members_of_own_toolkits_are_looked_up_everywhere_those_of_shared_ones_among_the_shared():
    shared = Definitions(
        (Tool("mail_send", toolkit="mail"), Tool("memory_find", toolkit="memory")),
        (Toolkit("shared", members=("memory_*",)), Toolkit("always", base=True, members=("mail_*",))),
    )
    own = Definitions(
        (Tool("memory_own", toolkit="mine"), Tool("mail_own")),
        (
            Toolkit("group", members=("memory_*", "mail_send"), base=True),
            Toolkit("below", parent="shared", members=("mail_send",)),
        ),
        (Route(("group", "shared"), ("x",)),),
    )
    stack = stacked(shared, own)
    reached = {name: set(named(stack, rows)) for name, rows in stack.routes.rows.items()}
    assert reached["group"] == {"memory_find", "memory_own", "mail_send"}
    assert reached["shared"] == {"memory_find", "mail_send"}  # the latter is below it
    assert reached["always"] == {"mail_send"}
    assert set(named(stack, stack.base)) == {"memory_find", "memory_own", "mail_send"}
    assert list(stack.base) == sorted(set(stack.base.tolist()))
    for rows in stack.routes.rows.values():
        assert rows.tolist() == sorted(set(rows.tolist()))
    assert not any(named(stack, stack.below[name]) for name in ("group", "shared", "always"))


def test_a_member_that_an_own_tool_replaces_is_not_there():
    shared = Definitions((Tool("mail_send"),), (Toolkit("always", base=True, members=("mail_send",)),))
    stack = stacked(shared, Definitions((Tool("mail_send", "Own"),)))
    assert stack.base.tolist() == []
    picked = select(stack, "hello")
    assert [tool.description for tool in picked.tools] in ([], ["Own"])
