"""The messages in six languages: complete, and translated texts take the places of the English ones."""

from __future__ import annotations

from bench.quality.languages import LANGUAGES, read_messages, translated

from toolroll.lab.evaluation.dataset import Dataset, Query
from toolroll.model.tools import Definitions


def test_a_hundred_messages_are_there_in_each_language() -> None:
    messages = read_messages()
    assert {name: len(some) for name, some in messages.items()} == {"mcp-office": 50, "metatool": 50}
    for some in messages.values():
        for texts in some.values():
            assert texts.keys() == set(LANGUAGES) and all(text.strip() for text in texts.values())


def test_only_translated_messages_are_asked_and_their_tools_stay() -> None:
    queries = (Query("a", "show", ("show",)), Query("b", "hide", ("hide",)))
    dataset = Dataset("some", Definitions(()), queries)
    messages = {"b": dict.fromkeys(LANGUAGES, "verbergen")}
    assert translated(dataset, messages, "de").queries == (Query("b", "verbergen", ("hide",)),)
    assert translated(dataset, messages, "en").queries == queries[1:]
