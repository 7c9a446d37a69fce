"""What routes answer, for the OpenAPI description and for answers that FastAPI writes."""

from __future__ import annotations

import json
from typing import Any

from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

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
    """JSON, whatever text a request has brought: half of a surrogate pair is written as `\\ud800`."""

    def render(self, content: Any) -> bytes:
        """The bytes."""
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
    """What a report added."""

    event_id: str
    counted: int = Field(description="Tools of which the report says something new; 0 for a repetition.")
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
    """What came of loading or unloading."""

    text: str = Field(description="For the model.")
    tools: list[str]
    unknown: list[str]
    is_error: bool


class ConversationAnswer(BaseModel):
    """Where a conversation stands."""

    turn: int
    is_open: bool
    loaded: list[str]


class SignInAnswer(BaseModel):
    """How people sign in to the page, beside a service key."""

    accounts: bool = Field(description="Whether there are accounts with passwords.")
    provider: str = Field(description="The name of the identity provider; empty without one.")
