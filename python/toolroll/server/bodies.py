"""What the bodies of several requests have: who asks, and a message with its limits."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, FailFast, Field, model_validator
from pydantic_core import PydanticCustomError

from toolroll import Context
from toolroll.formats.providers import PROVIDERS, provider_of
from toolroll.model.errors import InvalidInput
from toolroll.server.callers import Caller


def _provider(name: str) -> str:
    try:
        return provider_of(name).name
    except InvalidInput as error:
        raise PydanticCustomError("value_error", "{reason}", {"reason": str(error)}) from error


# The name of a provider, ours or an installed package's.
Provider = Annotated[str, AfterValidator(_provider), Field(examples=[*PROVIDERS])]

# Arrays are judged as far as their first wrong item: each problem takes kilobytes, and two bytes of a body.
Texts = Annotated[tuple[str, ...], FailFast()]
_MOST_MEMBERS = 1_000


def _with_few_members(value: Any) -> Any:
    """The same value. Raises PydanticCustomError: too much may be wrong in it."""
    if isinstance(value, (dict, list)) and len(value) > _MOST_MEMBERS:
        raise PydanticCustomError("value_error", f"must have {_MOST_MEMBERS} members at the most")
    return value


FEW_MEMBERS = BeforeValidator(_with_few_members)


class Body(BaseModel):
    """A JSON object in which an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _few_members(cls, value: Any) -> Any:
        return _with_few_members(value)


# What the registry fills in every row that it answers with, and its kind.
_READ_ONLY: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("org", "plugin", "created_at", "updated_at", "updated_by", "damage"), (str,)),
    "deleted_at": (str, type(None)),
    "version": (int,),
    "revision": (int,),
}


def without(key: str, value: Any) -> Any:
    """An object without what the registry fills, where that is of its kind. key: the name of the row's id."""
    if not isinstance(value, dict):
        return value
    kinds = {**_READ_ONLY, key: (str,)}
    return {name: each for name, each in value.items() if type(each) not in kinds.get(name, ())}


def without_read_only(key: str) -> Any:
    """A validator with which a body may be what the registry answers: what it fills has no effect."""
    return model_validator(mode="before")(lambda value: without(key, value))


class ContextBody(Body):
    """Who asks, from where: the fields of `Context`, with the names of settings only."""

    org: str = ""
    user: str = ""
    roles: Texts = ()
    tier: str = ""
    page: str = ""
    settings: Texts = ()
    provider: str = ""
    required: Texts = ()
    exclude: Texts = ()
    only: Texts = ()
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
    always_include: Texts = ()
    history: Annotated[tuple[dict[str, object] | str, ...], FailFast()] = ()

    def arguments(self) -> dict[str, Any]:
        """Everything but the context, by the names of the arguments."""
        return {name: getattr(self, name) for name in type(self).model_fields if name != "context"}
