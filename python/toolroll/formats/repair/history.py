"""Repairs a message list so that a provider accepts it: each call is followed by its result.

Histories break when a process dies between call and result, when a window cuts a pair apart, or when two
writers interleave. A single such place makes the provider reject every later request of the conversation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolroll.formats.providers import PROVIDERS, find_provider, names_with
from toolroll.formats.providers.history_form import HistoryChange, HistoryForm
from toolroll.formats.providers.message_fields import Message, is_object
from toolroll.model.errors import InvalidInput, quoted

__all__ = ["HistoryChange", "History", "repair_history"]


@dataclass(frozen=True, slots=True)
class History:
    """The repaired messages, and the changes.

    Attributes:
        messages: a new list; messages that needed no change are the caller's own objects.
        changes: in the order of the list; empty if it was valid.
    """

    messages: list[Message]
    changes: tuple[HistoryChange, ...]


def repair_history(messages: Sequence[Message], form: str | None = None) -> History:
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

    Messages may be dictionaries or objects of the provider's SDK, also mixed. A message that needs no change
    stays the caller's own object. A changed message is a copy: a pydantic model of the same class or its base
    if one of them accepts the change, otherwise a dictionary. A valid list is not changed, and a second
    repair changes nothing. Linear time.

    Args:
        messages: OpenAI's chat messages, the items of its Responses interface, Anthropic's messages or
            Gemini's contents. The list must be whole: results for calls that the provider has stored
            (`previous_response_id`) would be removed.
        form: the provider's name, such as "openai"; None infers it from the messages ("openai" if several
            fit).

    Raises:
        InvalidInput: it is not a list of objects, or mixes several forms.
    """
    messages = check(messages)
    changes: list[HistoryChange] = []
    repaired = form_of(messages, form).repaired(messages, changes)
    return History(repaired, tuple(sorted(changes, key=lambda change: change.index)))


def check(messages: object) -> list[Message]:
    """The messages as a list. Raises InvalidInput if one is not an object."""
    if not isinstance(messages, (list, tuple)):
        raise InvalidInput(f"messages are {type(messages).__name__}, must be a list of message objects")
    for index, message in enumerate(messages):
        is_known = isinstance(message, Mapping) or any(
            hasattr(message, name) for name in ("role", "type", "parts")
        )
        if not is_known or not is_object(message):
            raise InvalidInput(f"messages[{index}] is {quoted(message)}, must be a message object")
    return list(messages)


def form_of(messages: Sequence[Message], form: str | None = None) -> HistoryForm:
    """The form of this provider; None for the form that the messages show, or OpenAI's.

    Raises InvalidInput for an unknown name, and for messages of several forms in one list.
    """
    if form is not None:
        provider = find_provider(form)
        if provider is None or provider.history is None:
            known = names_with(lambda one: one.history is not None)
            raise InvalidInput(f"form is {quoted(form)}, must be one of {', '.join(known)}")
        return provider.history
    forms = {name: one.history for name, one in PROVIDERS.items() if one.history is not None}
    signs: dict[str, int] = {}
    for index, message in enumerate(messages):
        sign = next((name for name, one in forms.items() if one.is_sign(message)), None)
        if sign is not None:
            signs.setdefault(sign, index)
    if len(signs) > 1:
        found = ", ".join(f"messages[{index}] is {sign}'s" for sign, index in signs.items())
        raise InvalidInput(f"messages are in several forms: {found}; must be in one")
    return forms[next(iter(signs), "openai")]
