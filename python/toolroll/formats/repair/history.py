"""Repairs a message list so that a provider accepts it: each call is followed by its result.

Histories break when a process dies between call and result, when a window cuts a pair apart, or when two
writers interleave. A single such place makes the provider reject every later request of the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolroll.formats.repair import anthropic_history, chat_history, gemini_history, responses_history
from toolroll.formats.repair.fields import Message
from toolroll.formats.repair.messages import Form, HistoryChange, check, form_of

__all__ = ["HistoryChange", "History", "repair_history"]


@dataclass(frozen=True, slots=True)
class History:
    """A list to send, and the changes.

    Attributes:
        messages: a new list; messages that needed no change are the caller's own objects.
        changes: in the order of the list; empty if it was valid.
    """

    messages: list[Message]
    changes: tuple[HistoryChange, ...]


_REPAIRS = {
    "openai": chat_history.repaired,
    "openai_responses": responses_history.repaired,
    "anthropic": anthropic_history.repaired,
    "gemini": gemini_history.repaired,
}


def repair_history(messages: Sequence[Message], form: Form | None = None) -> History:
    """Puts calls and results of a message list into the order that the provider requires.

    - A result without a call, and a second result of one call, is removed.
    - A call without a result gets a placeholder result.
    - A result elsewhere in the list moves behind its call.
    - A call without an id, or with an id that its message has already used, is removed.
    - User and assistant messages without content are removed; for Anthropic, blank text blocks too.
    - Responses only: reasoning that no item of the model follows is removed, with the ids of the items that
      it may have belonged to. A call without output whose output can be no text is removed.
    - Anthropic only: adjacent messages of one role are merged, results come first in their message, and a
      list that does not begin with the user gets a first message that says so.
    - Gemini only: results are found by id, else by name and order. A message with calls that follows another
      of the model is merged with it.

    Messages may be dictionaries or objects of the provider's SDK, and may hold both. What needs no change is
    the caller's own object. A changed message is a copy: a pydantic model of the same class or its base
    if one of them accepts the change, otherwise a dictionary. A valid list is not changed, and a second
    repair changes nothing. Linear time.

    Args:
        messages: OpenAI's chat messages, the items of its Responses interface, Anthropic's messages or
            Gemini's contents. The list must be whole: results for calls that the provider has stored
            (`previous_response_id`) would be removed.
        form: which of these; None infers it from the messages ("openai" if they could be of several).

    Raises:
        InvalidInput: it is not a list of objects, or mixes several forms.
    """
    messages = check(messages)
    form = form_of(messages, form)
    changes: list[HistoryChange] = []
    repaired = _REPAIRS[form](messages, changes)
    return History(repaired, tuple(sorted(changes, key=lambda change: change.index)))
