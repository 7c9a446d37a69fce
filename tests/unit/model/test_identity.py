"""Keys name the same thing in every process, and different things differently."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toolroll import Tool
from toolroll.model.identity import NONE, key, plain_key, reporter_key, scopes, tool_key

words = st.lists(st.text(max_size=8), max_size=4)


@given(words, words)
def test_two_keys_are_equal_only_for_equal_words(one, other):
    assert (key(*one) == key(*other)) == (one == other)


def test_where_one_word_ends_and_the_next_begins_counts():
    assert key("ab", "c") != key("a", "bc") != key("abc")


def test_a_lone_surrogate_has_a_key():
    assert key("\ud800") != key("\ud801") != NONE


def test_contexts_share_what_is_wider_and_nothing_else():
    one, other = scopes("home", "pro", "read"), scopes("home", "free", "read")
    assert one.everywhere == other.everywhere
    assert one.page == other.page
    assert one.leaf != other.leaf
    assert scopes("home", "pro", "write").leaf != one.leaf
    assert scopes("home", "pro", "write").plain == one.plain
    assert len({*one, *scopes("mail", "pro", "read")}) == 7


def test_seed_4_names_a_context_by_tier_and_page():
    assert plain_key("shared_access", "contacts") == "shared_access:contacts:general"


def test_a_tool_keeps_its_arm_and_loses_its_intent_when_its_text_changes():
    before = tool_key(Tool("send", "Sends mail"))
    after = tool_key(Tool("send", "Sends mail to everybody"))
    assert before.arm == after.arm
    assert before.intent != after.intent


def test_interchangeable_tools_have_a_group_in_common():
    one = tool_key(Tool("send_a", interchangeable="mail"))
    other = tool_key(Tool("send_b", interchangeable="mail"))
    assert one.group == other.group != NONE
    assert tool_key(Tool("send_c")).group == NONE


def test_the_application_is_no_reporter():
    assert reporter_key("") == NONE != reporter_key("user-1")
