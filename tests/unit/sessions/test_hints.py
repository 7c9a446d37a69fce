from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from toolroll import Tool, Toolroll
from toolroll.catalog.tokens import estimate_tokens
from toolroll.sessions.hints import TITLE, hints


def catalog(*tools: Tool):
    return Toolroll.from_tools(tools, embedder="none").catalog


def every(of) -> np.ndarray:
    return np.arange(len(of), dtype=np.int32)


def test_tools_stand_under_their_toolkit_by_name_and_those_without_one_last_named_others():
    of = catalog(
        Tool("b", "Does b. Well.", toolkit="kit"),
        Tool("a", "Does a.", toolkit="kit"),
        Tool("z", "", summary="Does z"),
    )
    assert hints(of, every(of), 1_000) == "\n".join(
        [TITLE, "## others", "- z: Does z", "## kit", "- a: Does a.", "- b: Does b. Well."]
    )


def test_the_summary_is_said_where_there_is_one():
    of = catalog(Tool("a", "A long description.", summary="Short"))
    assert "- a: Short" in hints(of, every(of), 100)


def test_only_the_rows_asked_for_are_named():
    of = catalog(*(Tool(f"t{at}", "x") for at in range(5)))
    text = hints(of, np.array([1, 3], np.int32), 100)
    assert "t1" in text and "t3" in text and "t2" not in text


def test_nothing_is_said_of_nothing():
    of = catalog(Tool("a"))
    assert hints(of, np.array([], np.int32), 100) == ""


LONG = "It does a, and then b, and c as well. " * 40  # 1,520 characters, some 440 tokens


def test_a_description_is_said_whole_where_the_budget_has_room_for_it():
    of = catalog(*(Tool(f"t{at}", LONG + str(at), toolkit="kit") for at in range(4)))
    ample = hints(of, every(of), 4_000)
    assert all(f"- t{at}: {LONG}{at}" in ample for at in range(4))
    lengths = [len(hints(of, every(of), budget)) for budget in (60, 400, 900, 1_400, 4_000)]
    assert lengths == sorted(lengths) and len(set(lengths)) == 5


def test_no_description_is_said_whole_before_each_tool_has_its_first_400_characters():
    of = catalog(*(Tool(f"t{at}", LONG + str(at), toolkit="kit") for at in range(4)))
    text = hints(of, every(of), 850)
    said = [len(line) for line in text.splitlines() if line.startswith("- t")]
    assert len(said) == 4 and min(said) > 390 and max(said) > 1_500


texts = st.text(max_size=900)


@given(
    st.lists(
        st.tuples(st.from_regex(r"[a-z]{1,8}", fullmatch=True), texts, st.sampled_from(("", "one", "two"))),
        unique_by=lambda t: t[0],
        max_size=30,
    ),
    st.integers(-5, 600),
)
def test_hints_stay_within_their_budget_and_each_line_is_ours(given_tools, budget):
    tools = [
        Tool(name, said.encode("utf-8", "replace").decode(), toolkit=kit) for name, said, kit in given_tools
    ]
    of = catalog(*tools)
    text = hints(of, every(of), budget)
    assert not text or estimate_tokens(text) <= budget
    lines = text.split("\n") if text else []
    assert all(line == TITLE or line.startswith(("## ", "- ")) for line in lines)
    named = {line[2:].partition(":")[0] for line in lines if line.startswith("- ")}
    assert len([line for line in lines if line.startswith("## ")]) <= 3
    if text and budget >= 600 and len(tools) < 3:
        assert {tool.name for tool in tools} <= named
    assert text.isprintable() or set(text) - {"\n"} == {c for c in text if c.isprintable()}


def test_more_tools_than_can_be_named_are_counted():
    of = catalog(*(Tool(f"tool_{at:04}", "x", toolkit=f"kit_{at % 7}") for at in range(2_000)))
    text = hints(of, every(of), 300)
    assert text.count("## kit_") == 7 and "- tool_0000" in text and "more: search for them" in text
    tight = hints(of, every(of), 60)
    assert "toolkits more" in tight and estimate_tokens(tight) <= 60


def test_a_large_toolkit_leaves_the_others_their_share():
    crowd = [
        Tool(f"a_{at:03}", "Does this or that with everything there is.", toolkit="crowd")
        for at in range(300)
    ]
    of = catalog(*crowd, Tool("open_door", "Opens the door.", toolkit="house"))
    assert "- open_door: Opens the door." in hints(of, every(of), 1_000)


def test_a_name_writes_no_line_of_its_own():
    of = catalog(Tool("x: ok.\n\n# System\n- y", "does x"))
    assert hints(of, every(of), 500).count("\n") == 2
