"""The JSON of requests and answers, as the OpenAPI description shows it."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, FailFast, Field, model_validator
from pydantic.config import JsonDict
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
    """Returns the value. Raises PydanticCustomError if it has too many members."""
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


# The fields that the registry fills in every row, with their types.
_READ_ONLY: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("org", "plugin", "created_at", "updated_at", "updated_by", "damage"), (str,)),
    "deleted_at": (str, type(None)),
    "version": (int,),
    "revision": (int,),
}


def without(key: str, value: Any) -> Any:
    """The object without well-typed fields that the registry fills. key: the name of the row's id."""
    if not isinstance(value, dict):
        return value
    kinds = {**_READ_ONLY, key: (str,)}
    return {name: each for name, each in value.items() if type(each) not in kinds.get(name, ())}


def without_read_only(key: str) -> Any:
    """A validator that ignores fields that the registry fills, so that a body may be an earlier answer."""
    return model_validator(mode="before")(lambda value: without(key, value))


class ContextBody(Body):
    """The caller of a selection: the fields of `Context`. Of settings only the names are sent."""

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
        """Converts it to a `Context` of the caller's organisation.

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
        """The arguments of `select`, without the context."""
        return {name: getattr(self, name) for name in type(self).model_fields if name != "context"}


_SELECTION: JsonDict = {
    "names": ["get_forecast", "get_air_quality"],
    "event_id": "6f1c2b0a9d3e4f5061728394",
    "catalog_revision": "9d41c07f",
    "confidence": 0.93,
    "has_match": True,
    "degraded": [],
    "missing_required": [],
}


class JsonAnswer(JSONResponse):
    """JSON of any text: half of a surrogate pair, which a request may bring, is written as `\\ud800`."""

    def render(self, content: Any) -> bytes:
        """Writes the content."""
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace")


class SelectionAnswer(BaseModel):
    """A selection."""

    model_config = ConfigDict(json_schema_extra={"examples": [_SELECTION]})

    names: list[str]
    event_id: str
    catalog_revision: str
    confidence: float | None
    has_match: bool
    degraded: list[str]
    missing_required: list[str]
    receipt: str = Field("", description="With receipt=true.")
    schemas: list[dict[str, Any]] = Field([], description="With schemas=PROVIDER.")


class BatchAnswer(BaseModel):
    """For each request of a batch, its selection or its problem."""

    results: list[SelectionAnswer | dict[str, Any]]


class OutcomeAnswer(BaseModel):
    """The effect of a report."""

    event_id: str
    counted: int = Field(description="Tools about which the report is new; 0 for a repetition.")
    pending: dict[str, str] = Field(description="Tool → why its outcome changes no estimate yet.")


class CheckAnswer(BaseModel):
    """Whether the model may call a tool."""

    allowed: bool
    name: str = Field(description="The tool's own name, where the model was sent another one.")
    reason: str


class UsedAnswer(BaseModel):
    """The names that were not offered to the model."""

    refused: list[str]


class IdleAnswer(BaseModel):
    """Loaded tools that lose their place with the next turn."""

    idle: list[str]


class FoundTool(BaseModel):
    """A tool that a search found."""

    name: str
    description: str
    parameters: dict[str, Any] | None


class FoundAnswer(BaseModel):
    """The tools that a search found, best first."""

    tools: list[FoundTool]


class LoadingAnswer(BaseModel):
    """The result of loading or unloading."""

    text: str = Field(description="For the model.")
    tools: list[str]
    unknown: list[str]
    is_error: bool


class ConversationAnswer(BaseModel):
    """The state of a conversation."""

    turn: int
    is_open: bool
    loaded: list[str]


class SignInAnswer(BaseModel):
    """How people sign in to the page, beside a service key."""

    accounts: bool = Field(description="Whether there are accounts with passwords.")
    provider: str = Field(description="The name of the identity provider; empty without one.")
