"""What the bodies of several requests have: who asks, and a message with its limits."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from toolroll import Context
from toolroll.server.callers import Caller

Provider = Literal["openai", "openai_responses", "anthropic", "gemini", "mcp"]


class Body(BaseModel):
    """A JSON object in which an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ContextBody(Body):
    """Who asks, from where: the fields of `Context`, with the names of settings only."""

    org: str = ""
    user: str = ""
    roles: tuple[str, ...] = ()
    tier: str = ""
    page: str = ""
    settings: tuple[str, ...] = ()
    provider: str = ""
    required: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    everything: bool = False

    def context(self, caller: Caller) -> Context:
        """The same as a value of toolroll, for the caller's organisation.

        Raises:
            Denied: it names another organisation than the caller's.
        """
        values = {name: getattr(self, name) for name in ContextBody.model_fields}
        return Context(**{**values, "org": caller.org_of(self.org)})


class MessageBody(Body):
    """A message and its limits; the fields are arguments of `Toolroll.select`."""

    message: str = Field(examples=["Should I bring an umbrella?"])
    context: ContextBody = ContextBody()
    k: int | None = None
    max_tools: int | None = None
    budget_tokens: int | None = None
    always_include: tuple[str, ...] = ()
    history: tuple[dict[str, object] | str, ...] = ()

    def arguments(self) -> dict[str, Any]:
        """Everything but the context, by the names of the arguments."""
        return {name: getattr(self, name) for name in type(self).model_fields if name != "context"}
