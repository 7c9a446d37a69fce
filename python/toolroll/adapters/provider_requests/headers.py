"""Our headers, by which a client names its caller. They are removed before the request goes on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import quote

from toolroll.model.context import Context
from toolroll.model.errors import InvalidInput
from toolroll.roll import LONGEST_SESSION

HEADER = "x-toolroll"  # of an answer: the numbers of tools that came and were sent
PREFIX = b"x-toolroll-"
KEY = b"x-toolroll-key"
_CONVERSATION = b"x-toolroll-conversation"
_CONTEXT = b"x-toolroll-context"
_FIELDS = frozenset({one.name for one in fields(Context)} - {"settings"})


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """The values of our headers in a request.

    Attributes:
        conversation: the name of the conversation; "" if none is stated.
        context: fields of `Context`.
    """

    conversation: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, headers: Iterable[tuple[bytes, bytes]]) -> RequestHeaders:
        """Reads our headers and ignores all others. headers: with lower-case names.

        Raises:
            InvalidInput: the context is no JSON object of known fields.
        """
        conversation, context = "", {}
        for name, value in headers:
            if name == _CONVERSATION:
                conversation = value.decode("latin-1").strip()
            elif name == _CONTEXT:
                context = _read_context(value)
        return cls(conversation, context)

    def of_org(self, org: str) -> Context:
        """The caller, in this organisation. Raises InvalidInput if a value is wrong."""
        return Context(**{**self.context, "org": org}) if self.context or org else Context()

    def conversation_of(self, context: Context) -> str | None:
        """The conversation's name, with organisation and user in front; None if none is stated.

        Raises:
            InvalidInput: it is too long.
        """
        if not self.conversation:
            return None
        name = "/".join([quote(part, safe="") for part in (context.org, context.user, self.conversation)])
        if len(name) > LONGEST_SESSION:
            raise InvalidInput(
                f"header x-toolroll-conversation: is too long: {len(name):,} characters with organisation, "
                f"user and percent-encoding, must be at most {LONGEST_SESSION:,}"
            )
        return name


def _read_context(value: bytes) -> dict[str, Any]:
    try:
        context = json.loads(value)
    except (ValueError, RecursionError):
        context = None
    if not isinstance(context, dict):
        raise InvalidInput("header x-toolroll-context: must be a JSON object") from None
    if unknown := sorted(context.keys() - _FIELDS):
        raise InvalidInput(
            f"header x-toolroll-context: {unknown[0]!r:.80} is no field, must be one of "
            f"{', '.join(sorted(_FIELDS))}"
        )
    return context
