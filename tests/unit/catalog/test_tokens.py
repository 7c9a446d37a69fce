from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from toolroll.catalog.tokens import estimate_tokens


def test_no_text_has_no_tokens_and_any_text_has_some():
    assert estimate_tokens("") == 0
    assert estimate_tokens("a") == 1


def test_the_estimate_is_near_the_count_of_cl100k_base():
    schema = {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Get the current weather and the forecast for a city.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Name of the city, such as Paris."},
                    "days": {"type": "integer", "minimum": 1, "maximum": 10},
                },
                "required": ["city"],
            },
        },
    }
    text = json.dumps(schema, separators=(",", ":"))
    # 71: counted once with the tokeniser itself
    assert abs(estimate_tokens(text) / 71 - 1) < 0.1


@given(st.text(max_size=200), st.text(max_size=200))
def test_more_text_never_costs_less(text, more):
    assert estimate_tokens(text + more) >= estimate_tokens(text)


@given(st.text(max_size=200))
def test_a_text_costs_at_most_a_token_a_byte(text):
    assert estimate_tokens(text) <= max(len(text.encode("utf-8", "replace")), 1)
