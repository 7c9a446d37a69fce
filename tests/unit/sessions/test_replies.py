from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from toolroll import Tool
from toolroll.sessions import replies

A, B = Tool("a", "does a", {"type": "object", "properties": {"x": {"type": "string"}}}), Tool("b")


def test_each_outcome_of_a_load_is_said():
    assert replies.loaded([A, B], [], {}).text == "Loaded: a, b. Call them now."
    assert replies.loaded([], [A], {}).text == "Always there: a."
    answer = replies.loaded([], [], {"x": ["xa", "xb"], "y": []})
    assert (
        answer.text
        == "No tool is named 'x'. Nearest: xa, xb. No tool is named 'y'. Search for what it should do."
    )
    assert answer.is_error and answer.unknown == ("x", "y")


def test_each_outcome_of_an_unload_is_said():
    assert replies.unloaded([A], [B], {}).text == "Unloaded: a. Cannot be unloaded, always there: b."
    assert replies.unloaded([], [B], {}).is_error


def test_what_was_found_can_be_called_from_what_is_said():
    said = json.loads(replies.found([A, B], ["do"], []).text)
    assert [tool["name"] for tool in said["tools"]] == ["a", "b"]
    assert said["tools"][0]["parameters"] == A.parameters
    assert said["tools"][1]["parameters"] == {"type": "object", "properties": {}}
    assert "note" not in said


def test_a_search_that_nothing_seems_to_serve_says_so():
    assert "'fly'" in json.loads(replies.found([A], ["fly", "do"], ["fly"]).text)["note"]
    assert (
        replies.found([], ["fly"], ["fly"]).text
        == "No tool fits 'fly'. Say what it should do, in other words."
    )


@given(st.text(max_size=5_000))
def test_what_a_model_wrote_is_echoed_short_and_on_one_line(name):
    text = replies.unknown_tool(name, []).text
    assert len(text) < 500 and "\n" not in text and text.isprintable()


@given(st.sampled_from(("send_mail", "SEND_MAIL", "sendmail", "send-mail", "sent_mail")))
def test_the_nearest_names_are_those_spelt_alike(name):
    assert replies.near(name, ["send_mail", "drop_file", "list_event"])[0] == "send_mail"


def test_of_many_names_the_rest_is_counted():
    text = replies.loaded([Tool(f"t{at}") for at in range(100)], [], {}).text
    assert "t63 and 36 more" in text and "t64" not in text
