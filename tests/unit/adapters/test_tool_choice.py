"""The tools that a request must have are read from every provider's `tool_choice`."""

from __future__ import annotations

import pytest

from toolroll.formats.providers.request_form import chosen_names

NAMED = {"type": "function", "function": {"name": "a"}}


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("a", ("a",)),
        (NAMED, ("a",)),
        ({"type": "function", "name": "a"}, ("a",)),
        ({"type": "tool", "name": "a"}, ("a",)),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [NAMED, {"type": "function", "name": "b"}]},
            ("a", "b"),
        ),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}, ("a",)),
    ],
)
def test_named_tools_are_found(choice, names):
    assert chosen_names(choice) == names


@pytest.mark.parametrize(
    "choice",
    [
        None,
        "auto",
        "required",
        "none",
        "any",
        3,
        {},
        {"type": "auto"},
        {"type": "web_search"},
        {"function": 3},
    ],
)
def test_a_choice_that_names_no_tool_has_no_names(choice):
    assert chosen_names(choice) == ()
