"""Near-duplicates across owners: planted ones are found, and siblings of one subject are none.

The planted tools are written as another maker would name and describe a tool of the demonstration. Those of the
half "tune" served to choose the weights; those of "test" were not fitted to, but looked at.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from toolroll import Tool, Toolroll
from toolroll.embedders.named import embedder
from toolroll.registry.editing.near_duplicates import near_duplicates

PLANTED = [
    json.loads(line)
    for line in (Path(__file__).parents[3] / "data" / "near_duplicates.jsonl").read_text("utf-8").splitlines()
]


@pytest.fixture(scope="module")
def demo() -> list[Tool]:
    return list(Toolroll.demo(embedder="none").catalog.tools)


@pytest.fixture(scope="module")
def static():
    return embedder("static")


def planted(half: str) -> list[Tool]:
    return [
        Tool(row["name"], row["description"], {"properties": {name: {} for name in row["parameters"]}})
        for row in PLANTED
        if row["split"] == half
    ]


@pytest.mark.parametrize(("half", "at_least"), [("tune", 0.8), ("test", 0.9)])
def test_planted_duplicates_are_found_and_nothing_else(demo, static, half, at_least):
    added = planted(half)
    right = {tuple(sorted((row["of"], row["name"]))) for row in PLANTED if row["split"] == half}
    found = near_duplicates([*demo, *added], ["ours"] * len(demo) + ["theirs"] * len(added), static)
    pairs = {(pair.first, pair.second) for pair in found}
    assert len(pairs & right) / len(right) >= at_least
    assert len(pairs & right) / len(pairs) == 1.0
    owners = [tool.toolkit for tool in demo] + ["theirs"] * len(
        added
    )  # forty owners, with subjects in common
    pairs = {(pair.first, pair.second) for pair in near_duplicates([*demo, *added], owners, static)}
    assert len(pairs & right) / len(right) >= at_least
    assert len(pairs & right) / len(pairs) >= 0.9


def test_a_catalog_without_duplicates_gives_few_proposals_however_it_is_divided(demo, static):
    """Its halves hold siblings: list and search, read and send, of one subject."""
    proposals = []
    for seed in range(10):
        owners = [random.Random(seed * 1_000 + at).choice("ab") for at in range(len(demo))]
        proposals.append(len(near_duplicates(demo, owners, static)))
    assert sum(proposals) <= 35 and max(proposals) <= 6  # of some 107 tools in each half


def test_only_tools_of_different_owners_are_compared(static):
    tools = [Tool("send_mail", "Sends a mail"), Tool("mail_send", "Sends a mail")]
    assert near_duplicates(tools, ["a", "a"], static) == ()
    (found,) = near_duplicates(tools, ["a", "b"], static)
    assert (found.first, found.second) == ("mail_send", "send_mail") and found.cosine > 0.9


def test_verbs_of_different_kinds_are_no_duplicates(static):
    for other in ("delete_event", "update_event", "list_events"):
        tools = [Tool("create_event", "An event of the calendar"), Tool(other, "An event of the calendar")]
        assert near_duplicates(tools, ["a", "b"], static, least=0.1) == ()


def test_a_pair_that_is_declared_is_not_proposed_again(static):
    tools = [Tool(name, "Sends a mail", interchangeable="mail") for name in ("send_mail", "mail_send")]
    assert near_duplicates(tools, ["a", "b"], static) == ()


def test_each_tool_has_one_match_at_each_other_owner(static):
    tools = [
        Tool("send_mail", "Sends a mail to somebody"),
        Tool("mail_send", "Sends a mail to somebody"),
        Tool("send_mail_later", "Sends a mail to somebody at a time"),
        Tool("post_mail", "Sends a mail to somebody"),
    ]
    found = near_duplicates(tools, ["a", "b", "b", "c"], static)
    pairs = {(pair.first, pair.second) for pair in found}
    assert pairs == {("mail_send", "send_mail"), ("post_mail", "send_mail"), ("mail_send", "post_mail")}


def test_parameters_speak_for_a_pair(static):
    def tools(names):
        schema = {"properties": {name: {} for name in names}}
        return [
            Tool("a_send", "Sends a text", schema),
            Tool("b_send", "Sends it", {"properties": {"to": {}}}),
        ]

    with_it, without = (
        near_duplicates(tools(names), ["a", "b"], static, least=0)[0] for names in (["to"], ["x"])
    )
    assert with_it.score == pytest.approx(without.score + 0.3) and with_it.parameters == ("to",)


def test_tools_that_the_embedder_knows_nothing_of_match_nothing(static):
    tools = [Tool("๑", "อากาศ"), Tool("๒", "อากาศ")]
    assert near_duplicates(tools, ["a", "b"], static, least=-1) == ()
    assert near_duplicates([], [], static) == ()
