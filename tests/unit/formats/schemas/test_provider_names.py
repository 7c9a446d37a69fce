from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolroll.formats.schemas import names as names_module
from toolroll.formats.schemas.names import provider_name, provider_names
from toolroll.model.errors import InvalidInput

RULES = {  # as the providers state them
    "openai": r"[a-zA-Z0-9_-]{1,64}",
    "openai_responses": r"[a-zA-Z0-9_-]{1,64}",
    "anthropic": r"[a-zA-Z0-9_-]{1,128}",
    "gemini": r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}",
    "mcp": r"[a-zA-Z0-9_./-]{1,128}",
}
PROVIDERS = st.sampled_from(sorted(RULES))
NAMES = st.text(min_size=1, max_size=150) | st.from_regex(r"[a-z0-9._/-]{1,70}", fullmatch=True)
# Names that were replaced before, here or by another gateway, and names that look like it.
SENT = st.builds(provider_name, NAMES, PROVIDERS) | st.from_regex(
    r"[a-z]{1,60}__[0-9a-f]{16,40}", fullmatch=True
)
ANY = NAMES | SENT


@given(ANY, PROVIDERS)
def test_a_name_is_always_one_that_the_provider_allows(name, provider):
    assert re.fullmatch(RULES[provider], provider_name(name, provider))


@given(NAMES, PROVIDERS)
def test_a_name_that_is_allowed_stays(name, provider):
    if re.fullmatch(RULES[provider], name) and not re.search("__[0-9a-f]{16,}$", name):
        assert provider_name(name, provider) == name


@given(st.lists(ANY, unique=True, max_size=6), PROVIDERS)
def test_every_sent_name_leads_back_to_its_own_tool(names, provider):
    back = provider_names(names, provider)
    assert list(back.values()) == names
    assert all(re.fullmatch(RULES[provider], sent) for sent in back)


@given(st.lists(ANY, unique=True, max_size=8), st.randoms(use_true_random=False), PROVIDERS)
def test_a_tool_keeps_its_sent_name_whichever_others_are_in_the_list(names, random, provider):
    alone = {name: provider_name(name, provider) for name in names}
    some = random.sample(names, random.randint(0, len(names)))
    assert provider_names(some, provider) == {alone[name]: name for name in some}


def test_a_replaced_name_stays_readable_and_is_the_same_everywhere():
    assert provider_name("uber.ride", "openai") == "uber_ride__b2f56cfa8c7605bd"
    assert provider_name("uber.ride", "gemini") == "uber.ride"
    assert provider_name("날씨", "openai").startswith("t__")


def test_a_tool_cannot_take_the_name_that_another_one_is_sent_under():
    squatter = provider_name("uber.ride", "openai")
    back = provider_names([squatter, "uber.ride"], "openai")
    assert back[squatter] == "uber.ride"
    assert list(back.values()) == [squatter, "uber.ride"] and len(back) == 2


def test_names_whose_hashes_meet_are_told_apart_by_more_digits(monkeypatch):
    def short(name, provider, digits=16):
        return "same__0000000000000000" if digits == 16 and name != "c" else f"{name}_{digits}"

    monkeypatch.setattr(names_module, "provider_name", short)
    assert provider_names(["a", "b", "c"], "openai") == {"a_40": "a", "b_40": "b", "c_16": "c"}


def test_a_name_given_twice_is_refused():
    with pytest.raises(InvalidInput, match="tool 'a' is given twice, must be sent once"):
        provider_names(["a", "b", "a"], "openai")
