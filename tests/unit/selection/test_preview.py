"""A preview: the selection that would be made, without a trace."""

from __future__ import annotations

import pytest

from toolroll import Context, InvalidInput, Observer, Rule, Tool, Toolroll

TOOLS = [
    Tool("get_weather", "Tells whether it will rain"),
    Tool("send_mail", "Sends a mail to somebody"),
    Tool("pay_invoice", "Pays an invoice"),
    Tool("old_mail", "Sends a letter", status="retired"),
]
DENY = Rule("no payments", "deny", "org", {"org": "acme"}, tool="pay_invoice")
ACME = Context(org="acme", session="talk")  # draws of a conversation are the same each time


class Noted(Observer):
    """Keeps the selections of which it learns."""

    def __init__(self):
        self.selections = []

    def on_selection(self, selection):
        self.selections.append(selection)


@pytest.fixture
def roll():
    return Toolroll.from_tools(TOOLS, rules=[DENY])


def test_a_preview_is_what_select_returns(roll):
    for options in ({"k": 1}, {"always_include": ["send_mail"]}, {"max_tools": 1}):
        preview, selection = (each("Will it rain?", ACME, **options) for each in (roll.preview, roll.select))
        assert (preview.names, preview.explain()) == (selection.names, selection.explain())
    with pytest.raises(InvalidInput):
        roll.preview("x", k=-1)


def test_a_preview_is_neither_observed_nor_counted_and_cannot_be_reported(roll):
    noted = Noted()
    roll.observe(noted)
    preview = roll.preview("Will it rain?")
    assert (noted.selections, roll.counters().latency.cumulative[-1], preview.event_id) == ([], 0, "")
    for report in (roll.record, roll.receipt):
        with pytest.raises(InvalidInput, match="is a preview"):
            report(preview)


def test_accounts_have_every_tool_once_the_selected_ones_first(roll):
    selection = roll.select("Will it rain?", ACME, k=1)
    known, everything = selection.accounts(), selection.accounts(known=False)
    assert [one.name for one in known] == ["get_weather", "send_mail"]
    assert [one.name for one in everything] == ["get_weather", "old_mail", "pay_invoice", "send_mail"]
    assert [one.name for one in everything if one.selected] == list(selection.names) == ["get_weather"]
    assert all(one.reasons for one in everything)
