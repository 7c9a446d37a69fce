from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolroll.errors import InvalidInput
from toolroll.schemas.names import provider_name, provider_names

RULES = {  # as the providers state them
    "openai": r"[a-zA-Z0-9_-]{1,64}",
    "anthropic": r"[a-zA-Z0-9_-]{1,128}",
    "gemini": r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}",
    "mcp": r"[a-zA-Z0-9_./-]{1,128}",
}
NAMES = st.text(min_size=1, max_size=150) | st.from_regex(r"[a-z0-9._/-]{1,70}", fullmatch=True)


@given(NAMES, st.sampled_from(sorted(RULES)))
def test_a_name_is_always_one_that_the_provider_allows(name, provider):
    assert re.fullmatch(RULES[provider], provider_name(name, provider))


@given(NAMES, st.sampled_from(sorted(RULES)))
def test_a_name_that_is_allowed_stays(name, provider):
    if re.fullmatch(RULES[provider], name):
        assert provider_name(name, provider) == name


@given(st.lists(NAMES, unique=True, max_size=6), st.sampled_from(sorted(RULES)))
def test_every_sent_name_leads_back_to_its_own_tool(names, provider):
    back = provider_names(names, provider)
    assert list(back.values()) == names
    assert all(re.fullmatch(RULES[provider], sent) for sent in back)


def test_a_replaced_name_stays_readable_and_is_the_same_everywhere():
    assert provider_name("uber.ride", "openai") == "uber_ride_b2f56cfa"
    assert provider_name("uber.ride", "gemini") == "uber.ride"
    assert provider_name("날씨", "openai").startswith("t_")


def test_a_tool_cannot_take_the_name_that_another_one_is_sent_under():
    squatter = provider_name("uber.ride", "openai")
    back = provider_names([squatter, "uber.ride"], "openai")
    assert back[squatter] == squatter
    assert list(back.values()) == [squatter, "uber.ride"] and len(back) == 2


def test_a_name_given_twice_is_refused():
    with pytest.raises(InvalidInput, match="tool 'a' is given twice, must be sent once"):
        provider_names(["a", "b", "a"], "openai")
